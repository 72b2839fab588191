"""The Spec: what to compute, on which inputs, in which cases, how exactly, and for which devices.

Made by the loaders of this folder, or from a callable by the front end; everything after them sees only this. Frozen
values; it holds no torch object but the live callable of a spec that was made from one.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from kgen.errors.base import Where
from kgen.ir.dtype import DType
from kgen.ir.problem import Precision
from kgen.ir.tensor import ExtentRange, TensorType, row_major_strides

Dimension = int | str  # a number, or the name of an extent
FixedValue = bool | int | str | tuple[int, ...]


class ReferenceKind(StrEnum):
    """Where the text of a reference comes from."""

    INLINE = "inline"  # a literal block of the spec
    FILE = "file"  # a Python file beside the spec
    IMPORT = "import"  # an importable path, package.module:name
    CALLABLE = "callable"  # an object of the calling program


@dataclass(frozen=True, slots=True)
class Reference:
    """The PyTorch meaning. `source` is the text that defines `entry`; its first line is line `first_line` of `file`.

    A module's floating-point parameters and buffers are cast to `dtype`. `target` is the live callable of a CALLABLE
    reference, and `device` where the tensors it closes over are.
    """

    kind: ReferenceKind
    entry: str
    file: str
    source: str = ""
    first_line: int = 1
    is_module: bool = False
    init_args: tuple[object, ...] = ()
    init_kwargs: tuple[tuple[str, object], ...] = ()
    dtype: DType | None = None
    path: Path | None = field(default=None, compare=False, repr=False)
    target: object = field(default=None, compare=False, repr=False)
    device: str = field(default="cpu", compare=False, repr=False)

    def where(self, line: int) -> Where:
        """Return the place of a line, counted as in `file`."""
        lines = self.source.splitlines()
        index = line - self.first_line
        return Where(self.file, line, 0, lines[index] if 0 <= index < len(lines) else "")


@dataclass(frozen=True, slots=True)
class InputSpec:
    """One input: its shape in named extents or numbers, and how it lies in memory.

    `order` lists the axes from the slowest to the fastest varying one (default: row-major). `leading` pads the stride
    of the second-fastest axis. `strides` (in elements) overrides both. `values` are the least one that tests draw and
    the end of their range; by default they draw floats from a normal distribution, and integers by their use.
    """

    name: str
    dtype: DType
    shape: tuple[Dimension, ...]
    order: tuple[int, ...] | None = None
    leading: Dimension | None = None
    strides: tuple[Dimension, ...] | None = None
    values: tuple[int | float, int | float] | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """One set of values of the named extents; every extent of the spec is bound."""

    id: str
    extents: tuple[tuple[str, int], ...] = ()

    def value(self, dimension: Dimension) -> int:
        """Return a dimension's number in this case."""
        return dimension if isinstance(dimension, int) else dict(self.extents)[dimension]


@dataclass(frozen=True, slots=True)
class Tolerance:
    """`||out - reference|| / ||reference|| <= rel_err` in float64; `atol` bounds single elements if given."""

    rel_err: float
    atol: float | None = None


@dataclass(frozen=True, slots=True)
class FixedAxis:
    """An axis of the candidate the user decides, and why; `case` is None where it is decided for every case."""

    axis: str
    value: FixedValue
    because: str
    where: Where | None = field(default=None, compare=False)
    case: str | None = None


@dataclass(frozen=True, slots=True)
class Accepts:
    """What the kernel accepts beyond its inputs' dtypes and stride orders: 1 means any base address."""

    base_alignment_bytes: int = 1


@dataclass(frozen=True, slots=True)
class DynamicExtent:
    """The extent that the kernel takes at run time, anywhere in its range; the cases of the spec are test values."""

    range: ExtentRange
    where: Where | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """Name of the extent."""
        return self.range.name


@dataclass(frozen=True, slots=True)
class Spec:
    """A whole spec; see docs/spec.md for the meaning of each part."""

    name: str
    file: str
    reference: Reference
    inputs: tuple[InputSpec, ...]
    extents: tuple[tuple[str, int | ExtentRange], ...]
    cases: tuple[Case, ...]
    tolerance: Tolerance
    targets: tuple[str, ...] = ()
    fixed: tuple[FixedAxis, ...] = ()
    accepts: Accepts = Accepts()
    incumbent: Reference | None = None
    precision: Precision = Precision.DEFAULT  # of products of fp32 operands
    operator: str | None = None  # "namespace::name" under which kernel.py registers itself with torch.library
    target_places: tuple[Where, ...] = field(default=(), compare=False)  # of `targets`, for messages
    dynamic: DynamicExtent | None = None

    def case(self, case_id: str) -> Case:
        """Return the case of that id."""
        return next(c for c in self.cases if c.id == case_id)

    def fixed_for(self, case_id: str) -> tuple[FixedAxis, ...]:
        """Return the axes that are decided for a case; what is decided for it alone comes last and wins."""
        common = tuple(f for f in self.fixed if f.case is None)
        return (*common, *(f for f in self.fixed if f.case == case_id))

    def target_place(self, target: str) -> Where | None:
        """Return where the spec names a target; a spec that was made in Python has no places."""
        return dict(zip(self.targets, self.target_places, strict=False)).get(target)

    def input_types(self, case: Case) -> tuple[TensorType, ...]:
        """Return the type of every input in a case."""
        return tuple(input_type(i, case) for i in self.inputs)


def input_type(spec: InputSpec, case: Case) -> TensorType:
    """Return an input's tensor type in a case: extents bound, strides in elements."""
    shape = tuple(case.value(d) for d in spec.shape)
    if spec.strides is not None:
        return TensorType(spec.dtype, shape, tuple(case.value(s) for s in spec.strides))
    order = spec.order or tuple(range(len(shape)))
    leading = case.value(spec.leading) if spec.leading is not None else None
    return TensorType(spec.dtype, shape, ordered_strides(shape, order, leading))


def ordered_strides(shape: tuple[int, ...], order: tuple[int, ...], leading: int | None = None) -> tuple[int, ...]:
    """Return dense strides with the axes nested in `order` (slowest first), the innermost row padded to `leading`."""
    extents = [shape[axis] for axis in order]
    if leading is not None:
        extents[-1] = leading
    strides = [0] * len(shape)
    for axis, stride in zip(order, row_major_strides(tuple(extents)), strict=True):
        strides[axis] = stride
    return tuple(strides)


def default_tolerance(dtypes: tuple[DType, ...], precision: Precision = Precision.DEFAULT) -> Tolerance:
    """Return the tolerance of the coarsest float type among the inputs; integers compare bit for bit."""
    coarsest = max((_REL_ERR[d] for d in dtypes), default=0.0)
    rounds = precision is Precision.TF32 and DType.FP32 in dtypes
    return Tolerance(max(coarsest, _TF32_REL_ERR) if rounds else coarsest)


# Limits on ||out - reference|| / ||reference||: the baseline contract's defaults for each element type.
_REL_ERR = {
    **dict.fromkeys(DType, 0.0),
    DType.FP8_E4M3: 0.05,
    DType.FP8_E5M2: 0.05,
    DType.FP16: 0.01,
    DType.BF16: 0.01,
    DType.FP32: 1e-5,
    DType.FP64: 1e-12,
}
_TF32_REL_ERR = 1e-3  # two operands, each off by 2^-11 of itself at most
