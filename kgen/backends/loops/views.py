"""What the templates of loop kernels print: flat, printable values; made by `device`, `file` and their neighbours."""

from dataclasses import dataclass

from kgen.backends.loops.text import Phase
from kgen.backends.source.file_views import RulesView, UnreadView, ValueView
from kgen.backends.source.lines import Lines


@dataclass(frozen=True, slots=True)
class LoopKernelView:
    """One kernel that keeps or streams rows; `column` is the first column of vector `s`, `chunk` columns of a pass.

    `fragments` hold what is read, in registers or staged in smem. Of staged elements `arrived` awaits the copies,
    `before_pass` stands before each pass over them, and `vectors` take vector `s`; else these are empty. What rows
    share is read where it is needed, late, or `v.ahead` vectors ahead: the others are empty.
    """

    signature: Lines
    doc: str
    accesses: Lines
    exchanges: Lines
    place: Lines
    column: str
    column_ahead: str
    chunk: str
    setup: Lines
    fragments: Lines
    vectors: Lines
    reads: Lines
    ahead_fragments: Lines
    ahead_reads: Lines
    arrived: Lines
    before_pass: Lines
    phases: tuple[Phase, ...]
    outputs: Lines
    late_fragments: Lines
    late_reads: Lines
    elements: Lines
    writes: Lines
    row_writes: Lines


@dataclass(frozen=True, slots=True)
class FlatKernelView:
    """One pointwise kernel."""

    signature: Lines
    doc: str
    accesses: Lines
    fragments: Lines
    reads: Lines
    outputs: Lines
    elements: Lines
    writes: Lines
    row_writes: Lines


@dataclass(frozen=True, slots=True)
class ScanRowsView:
    """A scan along consecutive elements: each vector by itself, then the vectors of a chunk, then what came before."""

    signature: Lines
    doc: str
    accesses: Lines
    exchanges: Lines
    place: Lines
    column: str
    inside: str
    element: str
    setup: Lines
    start: Lines
    fragments: Lines
    reads: Lines
    scanned: Lines
    vector_start: Lines
    steps: Lines
    vector_end: Lines
    combine: Lines
    outputs: Lines
    elements: Lines
    writes: Lines


@dataclass(frozen=True, slots=True)
class ScanColumnsView:
    """A scan across rows of consecutive elements: every thread walks down its own vector."""

    signature: Lines
    doc: str
    accesses: Lines
    place: Lines
    column: str
    inside: str
    setup: Lines
    start: Lines
    fragments: Lines
    reads: Lines
    steps: Lines
    outputs: Lines
    elements: Lines
    writes: Lines


@dataclass(frozen=True, slots=True)
class LaunchView:
    """The launch function of one kernel; `body` ends in the statement that makes `launched`.

    `early` is the launch's option to start before the kernel before it has ended, where it has that.
    """

    name: str
    tensors: Lines
    doc: str
    body: Lines
    early: str


@dataclass(frozen=True, slots=True)
class LoopRowView:
    """One row of VARIANTS."""

    name: str
    reasons: Lines
    values: tuple[ValueView, ...]
    accesses: Lines


@dataclass(frozen=True, slots=True)
class LoopFileView:
    """The whole kernel.py; `sections` are the device code, `host` the host code, rendered before.

    `axes` are the fields of a row of VARIANTS that the choices of a plan fill.
    """

    title: str
    doc: Lines
    imports: Lines
    constants: Lines
    axes: Lines
    rows: tuple[LoopRowView, ...]
    rules: tuple[RulesView, ...]
    sections: Lines
    host: Lines


@dataclass(frozen=True, slots=True)
class LoopSignatureView:
    """The tensors of one variant, a line each."""

    variant: str
    lines: Lines


@dataclass(frozen=True, slots=True)
class LoopCaseView:
    """One case of the host function: its key, the tensors it makes, and the variants of each kernel."""

    key: Lines
    allocations: Lines
    launches: Lines


@dataclass(frozen=True, slots=True)
class LoopHostView:
    """What the template of the host code reads."""

    name: str
    signatures: tuple[LoopSignatureView, ...]
    cases: tuple[LoopCaseView, ...]
    head: Lines  # of the host function
    tensors: Lines
    first: str
    unread: tuple[UnreadView, ...]
    allocations: Lines
    calls: tuple[Lines, ...]
    result: str
    launches: Lines
    rules: Lines
    may_be_empty: bool
