"""What the attention templates print: flat, printable values. Made by `attention_device.py`."""

from dataclasses import dataclass

from kgen.backends.source.lines import Lines


@dataclass(frozen=True, slots=True)
class DefaultView:
    """A field of the emitted dataclass `Variant`, with the value that it has in the first row."""

    name: str
    type: str
    default: str
    comment: str


@dataclass(frozen=True, slots=True)
class RowCallView:
    """One row of VARIANTS: why it was chosen, and the call that makes it of what differs from the first row."""

    reasons: Lines
    call: Lines


@dataclass(frozen=True, slots=True)
class AttentionFileView:
    """The text of an attention; `derived` and `checks` are the statements of its rules, `methods` are those of a row,
    `sections` the device code."""

    imports: Lines
    constants: Lines
    fields: tuple[DefaultView, ...]
    methods: Lines
    rows: tuple[RowCallView, ...]
    derived: Lines
    checks: Lines
    sections: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sections:
    """Names of templates in the order they stand: methods of `Variant`, functions, methods of `Consumer`, functions."""

    variant: Lines
    before: Lines
    consumer: Lines
    after: Lines


@dataclass(frozen=True, slots=True)
class BlockLoopView:
    """One loop over blocks of keys, from the last one down, and the statement of one step."""

    count: str
    step: Lines


@dataclass(frozen=True, slots=True)
class AttentionView:
    """What the templates of device code and of the launch function read.

    `fused` are the tensors of the score, `epilogue_fused` those of the epilogue, `lse` the one of log(sum(exp)), each
    as ", name" or empty. `block_bounds` are the statements that bound the blocks of keys, and those that need no mask.
    `bounds` is a tensor that bounds them, too, as ", name": how many keys each sequence has, which `length_words` say,
    or with `ranges` the keys of each row block, found by `query_number` and `key_number`. `key_blocks` takes `seen` of
    it, `load_seen` of the producer, and `tile_seen` of the consumers, after `seen_lines`. `first` is what the consumers
    call the first block. `own_o`: O is staged in smem of its own, which `staged_words` say; then Q is given back when a
    tile has read it (`q_read`), else when O has left (`q_left`), and `o_free`, `o_sent`, `o_last` wait before O is
    staged, when it is sent, and at the end. `q_buffers` is how many parts smem of Q has, `layout_keys` how many keys
    those of K and V, which `layout_parameters` take; all three are laid out as `layout_words` say. `q_at`, `k_at` and
    `v_at` are the coordinates of a head in each tensor, as ", name".

    Where scores have operations other than scale and mask, these are printed in `score_lines` and called by `modified`;
    where they read the place of a score, `placed` passes it, as ", name". `mask_lines` make the condition
    `inside`, also from what `length` names, with `query` as the query of element i; `masks_always`: every block is
    masked. `first_step` is the statement of the last block, `loops` those of the ones before.
    `exp2_scale` is what a score is multiplied with in exp2.
    """

    longest_first: bool
    length_words: str
    ranges: bool
    query_number: str
    key_number: str
    bounds: str
    seen: str
    load_seen: str
    tile_seen: str
    seen_lines: Lines
    block_bounds: Lines
    pingpong: bool
    own_o: bool
    staged_words: str
    q_read: Lines
    q_left: Lines
    o_free: Lines
    o_sent: Lines
    o_last: Lines
    modified: Lines
    places_scores: bool
    score_lines: Lines
    score_result: str
    masks_rows: bool
    query: str
    length: str
    mask_lines: Lines
    exp2_scale: str
    first: str
    layout_words: str
    layout_parameters: str
    layout_keys: str
    q_buffers: str
    q_at: str
    k_at: str
    v_at: str
    placed: str
    masks_always: bool
    step_parameters: str
    loop_words: str
    first_step: Lines
    loops: tuple[BlockLoopView, ...]
    empty_words: str
    inverse_sum: str
    lse: str
    lse_value: str
    fused: str
    epilogue_fused: str
    epilogue_lines: Lines
    epilogue_result: str
    to_smem_atom: str
    launch_head: Lines
    view_lines: Lines
