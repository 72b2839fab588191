"""What the templates of products on CDNA print: flat, printable values."""

from dataclasses import dataclass

from kgen.backends.source.file_views import ValueView
from kgen.backends.source.lines import Lines


@dataclass(frozen=True, slots=True)
class DeviceView:
    """What the sections of device code read, but those of one kind of kernel.

    `fused_items` and `fused_strides` are the insides of tuples, `sources` names their buffers. `made` makes a
    piece of D of its sums.
    """

    a_pointer: str
    b_pointer: str
    a_ops: Lines
    a_result: str
    b_ops: Lines
    b_result: str
    fused_items: str
    fused_strides: str
    sources: str
    fused_loads: Lines
    epilogue_arguments: str
    epilogue: Lines
    result: str
    made: Lines
    sum_head: Lines


@dataclass(frozen=True, slots=True)
class KindView:
    """What the sections of one kind of kernel read: the functions for the layouts of its operands.

    `read_b` is an expression of what the products take B from, which is `b_name`.
    """

    kind: str
    mma: str
    load_a: str
    load_b: str
    start_a: str
    start_b: str
    read_a: str
    read_b: str
    b_name: str
    b_place: str
    store_stage: Lines
    fused_items: str
    head: Lines
    launch_head: Lines
    kernel_call: Lines
    part_call: Lines
    sum_call: str


@dataclass(frozen=True, slots=True)
class PlanEntryView:
    """One case of the host function: `key` opens the entry, `choices` is a dict of variants and base alignments."""

    key: Lines
    accepted: Lines
    result_shape: str
    result_stride: str
    choices: Lines


@dataclass(frozen=True, slots=True)
class HostView:
    """What the template of the host code reads."""

    name: str
    isa: str
    rules: tuple[ValueView, ...]  # of each variant
    load_paths: tuple[str, ...]
    pointers: Lines
    parts_note: str
    plan: tuple[PlanEntryView, ...]
    head: tuple[str, ...]  # of the host function
    tensors: tuple[str, ...]
    first: str
    bases: str
    out_type: str
    result: str
    may_be_empty: bool
    call: Lines
