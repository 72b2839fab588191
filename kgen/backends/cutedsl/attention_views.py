"""What the attention templates print: flat, printable values. Made by `attention_device.py`."""

from dataclasses import dataclass

from kgen.backends.source.lines import Lines


@dataclass(frozen=True, slots=True)
class BlockLoopView:
    """One loop over blocks of keys, from block `last` down; `masked` is "True" or "False", `call` does one step."""

    count: str
    last: str
    masked: str
    call: Lines


@dataclass(frozen=True, slots=True)
class AttentionView:
    """What the templates of device code and of the launch function read.

    `fused` are the tensors of the score, `epilogue_fused` those of the epilogue, `lse` the one of log(sum(exp)), each
    as ", name" or empty. `order_words` says how row blocks walk. `plain_end`, `plain_first` and `plain_end_bound` bound
    the blocks of keys that need no mask. `first` is what the consumers call the first block. `own_o`: O is staged in
    smem of its own, which `staged_words` say; then Q is given back when a tile has read it (`q_read`), else when O has
    left (`q_left`), and `o_free`, `o_sent`, `o_last` wait before O is staged, when it is sent, and at the end.
    `modifies`: scores have operations other than scale and mask, printed in `score_lines`. `mask_lines` make the
    condition `inside`, also from what `length` names, with `query` as the query of element i. `exp2_scale` is what a
    score is multiplied with in exp2.
    """

    order_words: str
    longest_first: bool
    plain_end: str
    has_bounds: bool
    has_most: bool
    has_least: bool
    plain_end_bound: str
    plain_first: str
    pingpong: bool
    own_o: bool
    staged_words: str
    q_read: Lines
    q_left: Lines
    o_free: Lines
    o_sent: Lines
    o_last: Lines
    modifies: bool
    places_scores: bool
    score_parameters: str
    score_arguments: str
    score_lines: Lines
    score_result: str
    masks_rows: bool
    query: str
    length: str
    mask_lines: Lines
    exp2_scale: str
    first: str
    step_head: Lines
    attend_call: Lines
    loop_words: str
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
    parameters: Lines
    view_lines: Lines
