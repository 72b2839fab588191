"""What the GEMM templates print: flat, printable values. Made by `gemm.py`, `gemm_rows.py` and `gemm_host.py`."""

from dataclasses import dataclass

from kgen.backends.source.file_views import UnreadView


@dataclass(frozen=True, slots=True)
class TensorView:
    """A tensor argument of the launch function."""

    name: str


@dataclass(frozen=True, slots=True)
class SharingView:
    """Who shares a tile: `sharers` in words, statements that make `steps` and `part`, and the number of `parts`."""

    sharers: str
    statements: tuple[str, ...]
    parts: str


@dataclass(frozen=True, slots=True)
class DeviceView:
    """What the templates of device code and launch functions read.

    `fused` is ", fused" where the epilogue reads tensors, else empty; `store` and `d` are what the epilogue and the
    kernel take to write D. `boxes` makes the smem of D, `k_steps` counts the steps of the mainloop, `units` the CTAs
    that run at once, `resident` those of one SM, which are several where it `shares_units`;
    `launch_lines` are the arguments of a launch of multicasting CTAs. `mma_op` makes the instruction, which sums
    `mma_k` products. `along_k` tells whether neighbouring threads load along k, `zero` is an element beyond an
    operand's edge. `columns` counts those of a tile of D, `sums` and `sum_names` are what an element of D is made of,
    in accumulators and in the epilogue; `box_sums` finds those of a box. `b_pointer` is a tuple of two for a gate.
    `tma_atoms` make the descriptors of A and B, `to_a` and `to_b` the smem that staged loads write.
    `sharing` says who shares a tile, `unread` are the parameters that only other launch functions of the file read.
    `planes` is "2 * " where a stage holds two planes of each operand; `sides` is ", sides" where only tiles are
    computed that planes cannot hold; `first_fused` are the views of `fused` in a tuple with more.
    `starts_apart`: tiles start at a k step of their own, `start`.
    `scales` is ", scales" where operands have scales; the sums then take `of_tile`, or `of_part` where a cluster splits
    k, besides: which tile it is. `scale_of_a` and `scale_of_b` compute what multiplies an element, at the k step
    `k_of_step` of those in `k_order`.
    Where a kernel starts while the one before it ends, it waits (`wait`), lets the next one start (`trigger`), and says
    so at its launch, in a line (`overlap`) or behind other arguments (`overlap_too`).

    Where an extent is known at run time, the kernel takes it beside the row (`extent`, with a comma), a launch hands
    both over (`row`), and each of them begins with statements that put one into the other (`in_row`).

    `ends` is the address of where groups of rows end; there `b_pointer` is a tuple of one or two. `b_parts` are the
    rows of each B in smem, `b_part` makes their layout.
    """

    tensors: tuple[TensorView, ...]
    a_pointer: str
    b_pointer: str
    fused: str
    fused_views: tuple[str, ...]
    a_ops: tuple[str, ...]
    a_result: str
    b_ops: tuple[str, ...]
    b_result: str
    has_epilogue: bool
    epilogue: tuple[str, ...]
    result: str
    stores_by_tma: bool
    store: str
    d: str
    boxes: tuple[str, ...]
    to_smem_atom: str
    k_steps: str
    sharing: SharingView
    unread: tuple[str, ...]
    units: str
    resident: str
    shares_units: bool
    launch_lines: tuple[str, ...]
    starts_apart: bool
    mma_k: int
    mma_op: tuple[str, ...]
    along_k: str
    zero: str
    columns: str
    box_sums: tuple[str, ...]
    sums: str
    sum_names: str
    tma_atoms: tuple[str, ...]
    to_a: str
    to_b: str
    start: str
    wait: tuple[str, ...] = ()
    trigger: tuple[str, ...] = ()
    overlap: tuple[str, ...] = ()
    overlap_too: str = ""
    planes: str = ""
    sides: str = ""
    scales: str = ""
    of_tile: str = ""
    of_part: str = ""
    scale_of_a: tuple[str, ...] = ()
    scale_of_b: tuple[str, ...] = ()
    k_order: tuple[str, ...] = ()
    k_of_step: str = ""
    first_fused: str = ""
    extent: str = ""
    row: str = "v"
    at_launch: tuple[str, ...] = ()
    at_start: tuple[str, ...] = ()
    in_row: str = ""
    ends: str = ""
    b_part: str = ""
    b_parts: str = ""


@dataclass(frozen=True, slots=True)
class SignatureView:
    """All tensors of one variant, D last, a tuple each."""

    variant: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlanEntryView:
    """One case of the host function: `key` opens the entry, `choices` is a dict of variants and base alignments."""

    key: tuple[str, ...]
    result_shape: str
    result_stride: str
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlanView:
    """The table of the host function where every extent is a constant: an entry a case."""

    entries: tuple[PlanEntryView, ...]


@dataclass(frozen=True, slots=True)
class IntervalView:
    """Values of an extent of run time, up to `last`, and what serves them: a dict of variants and base alignments."""

    last: int
    choices: str


@dataclass(frozen=True, slots=True)
class DynamicPlanView:
    """The table of the host function where the extent `name` is known at run time, as `axis` of an `argument`.

    `check` opens the block that refuses other shapes.
    """

    name: str
    rows: tuple[IntervalView, ...]
    argument: int
    axis: int
    check: tuple[str, ...]
    result_shape: str
    result_stride: str


@dataclass(frozen=True, slots=True)
class HostView:
    """What the template of the host code reads.

    `table` says which variants serve which shapes, `lookup` asks it; `accepts` is the statement that says what is
    accepted, where the signatures do not. `compiled` is what one call of `compiled` gives, `function` the names it is
    unpacked to, `call` the launch.
    """

    name: str
    load_paths: tuple[str, ...]
    signatures: tuple[SignatureView, ...]
    table: tuple[str, ...]
    lookup: str
    accepts: tuple[str, ...]
    head: tuple[str, ...]  # of the host function
    tensors: tuple[str, ...]
    first: str
    unread: tuple[UnreadView, ...]
    bases: str
    out_type: str
    result: str
    may_be_empty: bool
    grid_example: str
    compiled_doc: str
    compiled: str
    function: str
    call: tuple[str, ...]
