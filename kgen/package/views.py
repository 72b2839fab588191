"""What the templates of `templates/package/` print: flat, printable values, one view per template.

Every choice of words is made where a view is filled (`kgen.package.files` and its neighbours); a template adds none.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WorkView:
    """Least work of one case."""

    case: str
    flops: int
    bytes_read: int
    bytes_written: int


@dataclass(frozen=True, slots=True)
class KernelTestView:
    """`test_kernel.py`: limits, the device's peaks and the least work of each case. Numbers are Python literals."""

    title: str
    is_module: bool
    rel_errs: tuple[tuple[str, str], ...]  # (torch dtype of results, limit)
    element_factor: str
    element_reason: str
    atol: str
    offsets: str
    offsets_reason: str
    refused_offsets: str
    device: str
    sm_count: int
    peak_flops: str
    peak_flops_source: str
    peak_bytes: str
    peak_bytes_source: str
    work: tuple[WorkView, ...]
    multiplies_integers: bool
    allow_tf32: str
    tf32_reason: str
    expected: str
    updated: str
    hidden: tuple[str, ...]  # names the inputs of which a mask hides elements; empty: none
    planted: tuple[str, ...]  # the heads of the loop over the inputs that get special values


@dataclass(frozen=True, slots=True)
class InputTensorView:
    """One input: Python expressions of its dtype, and of its shape and strides in the named extents."""

    name: str
    dtype: str
    shape: str
    strides: str


@dataclass(frozen=True, slots=True)
class InputRangeView:
    """How an input is drawn from a range: Python expressions of its least value and of the end of the range."""

    name: str
    lowest: str
    beyond: str


@dataclass(frozen=True, slots=True)
class InputView:
    """`input.py`: the named extents as parameters, and the tensors drawn from them."""

    title: str
    parameters: str
    tensors: tuple[InputTensorView, ...]


@dataclass(frozen=True, slots=True)
class RangedInputView(InputView):
    """`input.py` where some inputs are drawn from a range of their own."""

    ranges: tuple[InputRangeView, ...]


@dataclass(frozen=True, slots=True)
class GroupedInputView(RangedInputView):
    """`input.py` where rows come in groups: `ends` is a tuple of the names of the inputs that say where."""

    ends: str


@dataclass(frozen=True, slots=True)
class TensorRow:
    """One tensor in one case."""

    name: str
    role: str
    dtype: str
    case: str
    shape: str
    strides: str
    layout: str


@dataclass(frozen=True, slots=True)
class VariantRow:
    """One kernel of the plan in words."""

    name: str
    case: str
    guard: str
    choice: str
    resources: str
    grid: str
    predicted: str


@dataclass(frozen=True, slots=True)
class IntervalRow:
    """Values of an extent of run time, what serves them, and the predicted times at the largest of them."""

    values: str
    variants: str
    predicted: str
    best: str
    because: str


@dataclass(frozen=True, slots=True)
class RejectionRow:
    """One rule and how many points it removed, by variant where they differ."""

    rule: str
    removed: str
    reason: str
    place: str


@dataclass(frozen=True, slots=True)
class FactRow:
    """A number with its unit, where it comes from and how far it is trusted."""

    name: str
    value: str
    source: str
    confidence: str


@dataclass(frozen=True, slots=True)
class SourceRow:
    """An entry of the citation register."""

    id: str
    document: str
    revision: str
    evidence: str


@dataclass(frozen=True, slots=True)
class RooflineRow:
    """The least time of one case and what sets it."""

    case: str
    flops: int
    bytes: int
    intensity: str
    bound: str
    least_us: str
    predicted_us: str


@dataclass(frozen=True, slots=True)
class TargetRow:
    """What the machine code of one variant must hold."""

    variant: str
    expected: str


@dataclass(frozen=True, slots=True)
class ConstraintRow:
    """One thing that a port keeps, or may choose."""

    name: str
    value: str
    because: str


@dataclass(frozen=True, slots=True)
class PortView:
    """`plans/port.md`: what replaces which incumbent, what stays as it is, and what is free."""

    title: str
    incumbent: str
    fixed: tuple[ConstraintRow, ...]
    free: tuple[ConstraintRow, ...]


@dataclass(frozen=True, slots=True)
class ExtractionView:
    """`plans/v0_plan.md`: what was read out of the PyTorch text, and what was decided from it."""

    title: str
    spec: str
    pattern: tuple[str, ...]
    computation: str
    cut: tuple[str, ...]
    tensors: tuple[TensorRow, ...]
    dependencies: tuple[str, ...]
    broadcasting: tuple[str, ...]
    masks: tuple[str, ...]
    boundaries: tuple[str, ...]
    write_back: tuple[str, ...]
    accuracy: tuple[str, ...]
    special_values: tuple[str, ...]
    accepts: tuple[str, ...]
    variants: tuple[VariantRow, ...]
    runners_up: tuple[str, ...]
    rejections: tuple[RejectionRow, ...]
    fixed: tuple[str, ...]
    sources: tuple[SourceRow, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadmeView:
    """`README.md`: the device and its limits, the least time of each case, when to stop, what to look for in SASS."""

    title: str
    computation: str
    device: str
    arch: str
    spec: str
    usage: tuple[str, ...]
    files: tuple[tuple[str, str], ...]
    ridge: str
    hardware: tuple[FactRow, ...]
    roofline: tuple[RooflineRow, ...]
    extent: str
    intervals: tuple[IntervalRow, ...]
    stop_conditions: tuple[str, ...]
    targets: tuple[TargetRow, ...]
    sources: tuple[SourceRow, ...]
