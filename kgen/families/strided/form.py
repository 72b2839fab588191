"""LoopForm: a Problem without a product, its axes folded into rows (kept) and columns (reduced or scanned).

    for every row: read elements, combine along the columns phase by phase, write elements or one value a row

Pointwise programs have no reduced axes. Accesses are walks: a base and one stride per fold, in elements.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from math import prod

from kgen.ir.dtype import DType
from kgen.ir.problem import Gather, Index, Load, Map, Reduce, Scan, Store, operands_of
from kgen.ir.problem import Statement as ProblemStatement

Statement = Load | Gather | Index | Map | Reduce | Scan


class Layout(StrEnum):
    """Along which axes neighbouring threads lie."""

    FLAT = "flat"  # nothing is reduced: threads along all elements
    ROWS = "rows"  # consecutive elements lie along the reduced axes: the threads of a row share it
    COLUMNS = "columns"  # consecutive elements lie along the kept axes: a thread owns some and walks down


@dataclass(frozen=True, slots=True)
class Walk:
    """`base + sum(stride * coordinate)` over the folds, each side outermost first."""

    base: int
    kept: tuple[int, ...]
    reduced: tuple[int, ...]

    @property
    def is_row(self) -> bool:
        """Whether it is the same for all columns of a row."""
        return not any(self.reduced)


@dataclass(frozen=True, slots=True)
class Access:
    """One reading or writing of a tensor: `value` is the SSA value that is loaded or stored.

    It happens where every guard is at least 0; elsewhere a load gives `fill`. `gathered` is the SSA value that is
    added, times its stride, to the walk: (value, stride, extent of that tensor axis).
    """

    value: str
    tensor: str
    dtype: DType
    walk: Walk
    guards: tuple[Walk, ...] = ()
    fill: float = 0.0
    gathered: tuple[str, int, int] | None = None


@dataclass(frozen=True, slots=True)
class LoopForm:
    """One loop kernel; extents are static, outermost fold first, the vector fold last on its side."""

    family: str
    layout: Layout
    kept: tuple[int, ...]
    reduced: tuple[int, ...]
    body: tuple[Statement, ...]
    loads: tuple[Access, ...]
    stores: tuple[Access, ...]
    coordinates: tuple[tuple[str, Walk], ...]  # of Index values, and of the elements of ARGMAX and ARGMIN
    dtypes: tuple[tuple[str, DType], ...]  # of every SSA value
    given: tuple[str, ...]  # tensors that exist before the kernel: their base addresses are the caller's

    @property
    def rows(self) -> int:
        """Number of rows."""
        return prod(self.kept)

    @property
    def cols(self) -> int:
        """Number of columns."""
        return prod(self.reduced)

    @property
    def vector_extent(self) -> int:
        """Elements along the fold on which accesses are consecutive."""
        side = self.reduced if self.layout is Layout.ROWS else self.kept
        return side[-1] if side else 1

    @property
    def is_empty(self) -> bool:
        """Whether every output has no element."""
        return all(not self.points_of(store.walk) for store in self.stores)

    @property
    def flops(self) -> int:
        """Operations on elements, counted one for each pointwise op and combination."""
        count = sum(isinstance(s, Map | Reduce | Scan) for s in self.body)
        return count * self.rows * self.cols

    @property
    def bytes(self) -> int:
        """Bytes moved when each reading and writing of a tensor meets its elements once."""
        read = {(a.tensor, a.walk): self.points_of(a.walk) * a.dtype.bytes for a in self.loads}
        return sum(read.values()) + sum(self.points_of(a.walk) * a.dtype.bytes for a in self.stores)

    @property
    def phases(self) -> int:
        """Number of combinations along the columns that wait for one another."""
        return max(levels(self.body).values(), default=0)

    @property
    def entering(self) -> frozenset[str]:
        """The values that reductions and scans are computed from."""
        wanted = {s.operand for s in self.body if isinstance(s, Reduce | Scan)}
        for s in reversed(self.body):
            if s.result in wanted:
                wanted.update(operands_of(s))
        return frozenset(wanted)

    def points_of(self, walk: Walk) -> int:
        """Return how many distinct elements a walk meets."""
        pairs = (*zip(self.kept, walk.kept, strict=True), *zip(self.reduced, walk.reduced, strict=True))
        return prod(extent if stride or not extent else 1 for extent, stride in pairs)

    def dtype_of(self, value: str) -> DType:
        """Return the type of an SSA value."""
        return dict(self.dtypes)[value]


def levels(body: Iterable[ProblemStatement]) -> dict[str, int]:
    """Return for each value how many reductions have to be complete before it is known."""
    found: dict[str, int] = {}
    for s in body:
        if not isinstance(s, Store):
            found[s.result] = max((found[o] for o in operands_of(s)), default=0) + isinstance(s, Reduce)
    return found


def row_values(form: LoopForm) -> frozenset[str]:
    """Return the values that are the same for all columns of a row."""
    walks = {a.value: a.walk for a in form.loads} | dict(form.coordinates)
    found: set[str] = set()
    for s in form.body:
        match s:
            case Map():
                is_row = found.issuperset(operands_of(s))
            case Reduce():
                is_row = True
            case Scan():
                is_row = False
            case Gather():
                is_row = s.index in found and walks[s.result].is_row
            case Load() | Index():
                is_row = walks[s.result].is_row
        if is_row:
            found.add(s.result)
    return frozenset(found)
