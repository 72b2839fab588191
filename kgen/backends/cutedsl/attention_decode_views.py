"""What the templates of decode attention print: flat, printable values. Made by `attention_decode.py`."""

from dataclasses import dataclass

from kgen.backends.source.lines import Lines


@dataclass(frozen=True, slots=True)
class DecodeView:
    """What the templates of a CTA for each head of K and V and part of its keys read.

    `combines`: parts go to a second kernel. `outputs` are what the first one stores to and what it loads from besides
    Q, K and V, as ", name, name". `q_tile` says how the rows of a tile are laid out, `row_words` too where those of
    several heads are; `score_row` and `stored_row` are query and group of a row. `measures`: a number in memory says
    how many keys an item has, `length` passes it to the mask, `seen` and `seen_blocks` are the keys and blocks that it
    leaves. `paged`: K and V are read through a table, `box_n` keys at once, `walked_keys` of them by a stride; smem is
    laid out for `step_keys` at once, a descriptor for `box_keys`, and `box_coordinates` passes the coordinates of a
    head. `lengths` and `table` are these tensors, as ", name". `reads_batch`: consumers read the coordinates of a head,
    and `place` passes them on to where scores are. `stored` is an element `x` of O as it is stored. `pingpong` is false
    and `staged_words` empty. The others are those of `AttentionView`.
    """

    combines: bool
    measures: bool
    length_words: str
    seen: str
    seen_blocks: str
    length: str
    lengths: str
    paged: bool
    wraps: bool
    page: str
    table: str
    box_n: str
    walked_keys: str
    layout_parameters: str
    layout_keys: str
    step_keys: str
    box_keys: str
    box_coordinates: str
    reads_batch: bool
    load_head: Lines
    kernel_head: Lines
    launch_call: Lines
    key_blocks: Lines
    first_block: str
    row_words: str
    score_row: str
    stored_row: str
    q_tile: str
    layout_words: str
    q_buffers: str
    staged_words: str
    coordinates: Lines
    q_at: str
    k_at: str
    v_at: str
    policy: str
    pingpong: bool
    masks_always: bool
    place: str
    placed: str
    step_parameters: str
    modifies: bool
    modified: Lines
    places_scores: bool
    score_lines: Lines
    score_result: str
    masks_rows: bool
    query: str
    mask_lines: Lines
    exp2_scale: str
    empty_words: str
    inverse_sum: str
    inverse_total: str
    stored: str
    fused: str
    epilogue_fused: str
    epilogue_lines: Lines
    epilogue_result: str
    outputs: str
    launch_head: Lines
    view_lines: Lines
