"""What the templates of decode attention print: flat, printable values. Made by `attention_decode.py`."""

from dataclasses import dataclass

from kgen.backends.source.lines import Lines


@dataclass(frozen=True, slots=True)
class DecodeView:
    """What the templates of a CTA for each head of K and V and part of its keys read.

    `combines`: parts go to a second kernel, launched by `combine_call`. `outputs` are what the first one stores to and
    what it loads from besides Q, K and V, as ", name, name". `item` makes the blocks of an item, and the coordinates of
    its head where they are read. `q_tile` says how the rows of a tile are laid out, `row_words` too where those of
    several heads are; `score_row` makes query and group of a score's row, and `stored_row` is that of a stored one.
    `measures`: a number in memory says how many keys an item has, `length` passes it to the mask, `seen` and
    `seen_blocks` are the keys and blocks that it leaves; `key_blocks` counts those without it. `paged`: K and V are
    read through a table, `box_n` keys at once, `walked_keys` of them by a stride; smem is laid out for `step_keys` at
    once, a descriptor for `box_keys`; `page` makes the number of a page. `lengths` and `table` are these tensors, as ",
    name". `first_step` and `next_step` are the statements of a step. `lse_value` and `lse_total` are what a row's
    logsumexp is stored as by one kernel and by the second one. An element of O is stored as it stands between
    `store_open` and `store_close`. `pingpong` is false and `staged_words` empty. The others are those of
    `AttentionView`.
    """

    combines: bool
    measures: bool
    length_words: str
    seen: str
    seen_blocks: str
    length: str
    lengths: str
    paged: bool
    page: Lines
    table: str
    box_n: str
    walked_keys: str
    layout_parameters: str
    layout_keys: str
    step_keys: str
    box_keys: str
    item: Lines
    load_head: Lines
    kernel_head: Lines
    launch_call: Lines
    combine_call: Lines
    key_blocks: Lines
    first_block: str
    row_words: str
    score_row: Lines
    stored_row: str
    q_tile: str
    layout_words: str
    q_buffers: str
    staged_words: str
    q_at: str
    k_at: str
    v_at: str
    policy: str
    pingpong: bool
    masks_always: bool
    first_step: Lines
    next_step: Lines
    placed: str
    step_parameters: str
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
    lse: str
    lse_value: str
    lse_total: str
    store_open: str
    store_close: str
    fused: str
    epilogue_fused: str
    epilogue_lines: Lines
    epilogue_result: str
    outputs: str
    launch_head: Lines
    view_lines: Lines
