"""Problem: one kernel's meaning, as an SSA body over a named iteration space.

The family of a kernel (gemm, reduction, attention, ...) is a classification of this body, not a type of it.
`str(problem)` prints one line per axis, tensor and statement; `verify` checks every invariant.
"""

from dataclasses import dataclass
from enum import StrEnum

from kgen.ir.access import Access
from kgen.ir.dtype import DType
from kgen.ir.pointwise import PointwiseOp
from kgen.ir.tensor import Extent, TensorType


@dataclass(frozen=True, slots=True)
class Axis:
    """A named axis of the iteration space."""

    name: str
    extent: Extent

    def __str__(self) -> str:
        return f"{self.name}:{self.extent}"


class TensorRole(StrEnum):
    """What a kernel does with a tensor."""

    INPUT = "input"
    OUTPUT = "output"
    UPDATED = "updated"  # read and written in place: an effect the caller sees


@dataclass(frozen=True, slots=True)
class ProblemTensor:
    """A tensor argument or result of the kernel."""

    name: str
    type: TensorType
    role: TensorRole

    def __str__(self) -> str:
        return f"{self.role} {self.name}: {self.type}"


@dataclass(frozen=True, slots=True)
class Const:
    """A number baked into the kernel."""

    value: float | int | bool

    def __str__(self) -> str:
        return repr(self.value)


Operand = str | Const


class Combine(StrEnum):
    """How `Reduce` and `Scan` combine elements; the identity follows from it.

    M2 is the sum of squared deviations from the mean over the same axes: two passes or Welford, never E[x^2] - E[x]^2.
    SUMEXP is the sum of exp(x - the largest x over the same axes), without a pass of its own for the largest.
    ARGMAX and ARGMIN give the row-major index over the reduced axes in their order; NaN wins, then the first index.
    """

    SUM = "sum"
    PROD = "prod"
    MAX = "max"
    MIN = "min"
    ARGMAX = "argmax"
    ARGMIN = "argmin"
    ANY = "any"
    ALL = "all"
    M2 = "m2"
    SUMEXP = "sumexp"


@dataclass(frozen=True, slots=True)
class Load:
    """Read one element per point."""

    result: str
    access: Access
    dtype: DType

    def __str__(self) -> str:
        return f"{self.result}:{self.dtype} = load {self.access}"


class Precision(StrEnum):
    """How products of fp32 operands are taken."""

    DEFAULT = "default"  # as exact as sums in fp32 are
    TF32 = "tf32"  # operands may be rounded to 10 bits behind the point
    IEEE = "ieee"  # operands as they are, each product rounded once to fp32


@dataclass(frozen=True, slots=True)
class Contract:
    """Sum of products of two values over `axes`, accumulated in `dtype`; `precision` is that of fp32 operands."""

    result: str
    lhs: str
    rhs: str
    axes: tuple[str, ...]
    dtype: DType
    precision: Precision = Precision.DEFAULT

    def __str__(self) -> str:
        asked = f", {self.precision}" if self.precision is not Precision.DEFAULT else ""
        return f"{self.result}:{self.dtype} = contract[{','.join(self.axes)}] {self.lhs}, {self.rhs}{asked}"


@dataclass(frozen=True, slots=True)
class Reduce:
    """Combine a value over `axes`, accumulated in `dtype`."""

    result: str
    combine: Combine
    operand: str
    axes: tuple[str, ...]
    dtype: DType

    def __str__(self) -> str:
        return f"{self.result}:{self.dtype} = reduce.{self.combine}[{','.join(self.axes)}] {self.operand}"


@dataclass(frozen=True, slots=True)
class Scan:
    """Running combination along one axis; `reverse` runs from its end."""

    result: str
    combine: Combine
    operand: str
    axis: str
    reverse: bool
    dtype: DType

    def __str__(self) -> str:
        way = "<-" if self.reverse else "->"
        return f"{self.result}:{self.dtype} = scan.{self.combine}[{way}{self.axis}] {self.operand}"


@dataclass(frozen=True, slots=True)
class Map:
    """Apply a pointwise op; operands broadcast over the axes they do not vary along."""

    result: str
    op: PointwiseOp
    operands: tuple[Operand, ...]
    dtype: DType

    def __str__(self) -> str:
        return f"{self.result}:{self.dtype} = {self.op} {', '.join(str(o) for o in self.operands)}"


@dataclass(frozen=True, slots=True)
class Gather:
    """Read an element whose index along tensor axis `position` is the value `index`."""

    result: str
    access: Access
    position: int
    index: str
    dtype: DType

    def __str__(self) -> str:
        return f"{self.result}:{self.dtype} = gather {self.access} at {self.position} by {self.index}"


@dataclass(frozen=True, slots=True)
class Index:
    """The coordinate of an axis as a value (for masks and position-dependent terms)."""

    result: str
    axis: str
    dtype: DType = DType.INT64

    def __str__(self) -> str:
        return f"{self.result}:{self.dtype} = index {self.axis}"


@dataclass(frozen=True, slots=True)
class Store:
    """Write a value; the value may vary only along the axes of the access."""

    value: str
    access: Access

    def __str__(self) -> str:
        return f"store {self.value} -> {self.access}"


Definition = Load | Contract | Reduce | Scan | Map | Gather | Index
Statement = Definition | Store


def operands_of(statement: Statement) -> tuple[str, ...]:
    """Return the values that a statement takes."""
    match statement:
        case Map():
            return tuple(o for o in statement.operands if isinstance(o, str))
        case Reduce() | Scan():
            return (statement.operand,)
        case Gather():
            return (statement.index,)
        case Contract():
            return (statement.lhs, statement.rhs)
        case Store():
            return (statement.value,)
        case Load() | Index():
            return ()


@dataclass(frozen=True, slots=True)
class Problem:
    """The meaning of one kernel: iteration space, tensors, SSA body."""

    name: str
    axes: tuple[Axis, ...]
    tensors: tuple[ProblemTensor, ...]
    body: tuple[Statement, ...]

    def axis(self, name: str) -> Axis:
        """Return the axis of that name."""
        return next(a for a in self.axes if a.name == name)

    def tensor(self, name: str) -> ProblemTensor:
        """Return the tensor of that name."""
        return next(t for t in self.tensors if t.name == name)

    @property
    def inputs(self) -> tuple[ProblemTensor, ...]:
        """Tensors that are read (in-place updates included), in argument order."""
        return tuple(t for t in self.tensors if t.role is not TensorRole.OUTPUT)

    @property
    def outputs(self) -> tuple[ProblemTensor, ...]:
        """Tensors that are written."""
        return tuple(t for t in self.tensors if t.role is not TensorRole.INPUT)

    def definitions(self) -> dict[str, Definition]:
        """Return the statement that defines each value."""
        return {s.result: s for s in self.body if not isinstance(s, Store)}

    def needed(self, value: str, known: frozenset[str] = frozenset()) -> list[Definition]:
        """Return what a value is computed from, itself included, in program order; `known` values are not followed."""
        definitions, found, stack = self.definitions(), set[str](), [value]
        while stack:
            if (name := stack.pop()) not in found and name not in known:
                found.add(name)
                stack += operands_of(definitions[name])
        return [s for s in self.body if not isinstance(s, Store) and s.result in found]

    def __str__(self) -> str:
        lines = [f"problem {self.name} [{', '.join(str(a) for a in self.axes)}]"]
        lines += [f"  {tensor}" for tensor in self.tensors]
        lines += [f"  {statement}" for statement in self.body]
        return "\n".join(lines)
