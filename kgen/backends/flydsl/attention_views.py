"""What the templates of attentions on CDNA print: flat, printable values."""

from dataclasses import dataclass

from kgen.backends.source.lines import Lines


@dataclass(frozen=True, slots=True)
class KeyLoopView:
    """A loop over tiles of keys: its bounds, and the argument that says whether it masks, with a comma before it."""

    first: str
    end: str
    masked: str


@dataclass(frozen=True, slots=True)
class AttentionView:
    """What the sections of device code read.

    `q`, `k`, `values` and `o` are pointers to the first elements. `masks`: some tile has keys that a query does not
    see. `has_place`: a lane needs its first key. `place` and `placed` are the arguments that say where a workgroup is,
    and their parameters, where scores depend on it.
    """

    longest_first: bool
    tile_of: str
    places_scores: bool
    each_sums: str
    score_lines: Lines
    score_result: str
    exp2_scale: str
    mask_parameters: str
    mask_arguments: str
    mask_words: str
    mask_head: Lines
    inside: str
    masks: bool
    masked: str
    has_place: bool
    place: str
    placed: str
    modified: Lines
    empty_words: str
    inverse: str
    bounds: Lines
    first: str
    loops: tuple[KeyLoopView, ...]
    q: str
    k: str
    values: str
    o: str
