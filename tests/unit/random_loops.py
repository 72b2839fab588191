"""Random Problems without a product: views that walk in every way, bounds, gathers, coordinates, reductions, scans."""

import random
from itertools import product

from kgen.ir.access import Access, Affine, Bound
from kgen.ir.dtype import DType
from kgen.ir.pointwise import PointwiseOp
from kgen.ir.problem import (
    Axis,
    Combine,
    Gather,
    Index,
    Load,
    Map,
    Problem,
    ProblemTensor,
    Reduce,
    Scan,
    Statement,
    Store,
    TensorRole,
)
from kgen.ir.tensor import TensorType

COMBINES = (Combine.SUM, Combine.MAX, Combine.ARGMAX, Combine.M2, Combine.PROD)
DTYPES = (DType.FP32, DType.BF16, DType.FP64, DType.INT8)


class _Draft:
    """Draws one Problem."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        names = "ijkl"[: self.random.randint(1, 4)]
        extents = {n: self.random.choice((1, 2, 2, 3, 4, 4, 6, 8, 16)) for n in names}
        self.extents = extents
        self.reduced = [n for n in names if self.random.random() < 0.4]
        if self.random.random() < 0.05 and names[0] not in self.reduced:
            extents[names[0]] = 0  # of a reduced axis the front end makes a constant
        self.tensors: list[ProblemTensor] = []
        self.body: list[Statement] = []

    def run(self) -> Problem:
        count = self.random.randint(1, 3)
        values = [self.load(f"x{i}", list(self.extents) if not i else self.some()) for i in range(count)]
        if self.random.random() < 0.3:
            values.append(self.gathered())
        if self.random.random() < 0.3:
            self.body.append(Index("at", self.random.choice(list(self.extents))))
            values.append("at")
        total = values[0]
        for i, value in enumerate(values[1:]):
            self.body.append(Map(f"sum{i}", PointwiseOp.ADD, (total, value), DType.FP32))
            total = f"sum{i}"
        self.stores(total)
        axes = tuple(Axis(n, e) for n, e in self.extents.items())
        return Problem("drawn", axes, tuple(self.tensors), tuple(self.body))

    def some(self) -> list[str]:
        return [n for n in self.extents if self.random.random() < 0.6]

    def declared(self, name: str, shape: list[int], dtype: DType, role: TensorRole = TensorRole.INPUT) -> None:
        """Add a tensor, its axes nested in any order, with gaps between its rows or one repeated."""
        strides, step = [0] * len(shape), 1
        for place in self.random.sample(range(len(shape)), len(shape)):
            if role is TensorRole.INPUT and self.random.random() < 0.1:
                continue
            strides[place] = step
            step = step * max(shape[place], 1) + self.random.choice((0, 0, 0, 0, 8))
        self.tensors.append(ProblemTensor(name, TensorType(dtype, tuple(shape), tuple(strides)), role))

    def index(self, axis: str) -> tuple[Affine, int, Bound | None]:
        """Return an index of an axis, how long the tensor's axis is, and where it is valid."""
        extent, way = self.extents[axis], self.random.random()
        if way < 0.1 and extent:
            return Affine(((axis, -1),), extent - 1), extent, None
        if way < 0.2:
            return Affine(((axis, 2),), 1), 2 * extent + 1, None
        if way < 0.3 and extent > 1:
            inner = max(extent - 2, 1)
            moved = Affine(((axis, 1),), -1)
            return moved, inner, Bound(moved, Affine(), Affine((), inner))
        return Affine.of(axis), extent, None

    def access(self, name: str, axes: list[str], dtype: DType, *, front: int | None = None) -> Access:
        self.random.shuffle(axes)
        found = [self.index(a) for a in axes]
        if len(axes) > 1 and self.random.random() < 0.3 and not any(bound for _, _, bound in found):
            (outer, inner), rest = axes[:2], found[2:]
            joined = Affine(((outer, self.extents[inner]), (inner, 1)))
            found = [(joined, self.extents[outer] * self.extents[inner], None), *rest]
        shape = [extent for _, extent, _ in found]
        indices = [index for index, _, _ in found]
        if front is not None:
            shape, indices = [front, *shape], [Affine(), *indices]
        self.declared(name, shape, dtype)
        return Access(name, tuple(indices), tuple(bound for _, _, bound in found if bound))

    def load(self, name: str, axes: list[str]) -> str:
        dtype = self.random.choice(DTYPES)
        self.body.append(Load(f"{name}_value", self.access(name, axes, dtype), dtype))
        return f"{name}_value"

    def gathered(self) -> str:
        at = self.access("places", self.some(), DType.INT64)
        self.body.append(Load("place", at, DType.INT64))
        table = self.access("table", self.some(), DType.FP32, front=5)
        self.body.append(Gather("picked", table, 0, "place", DType.FP32))
        return "picked"

    def stores(self, value: str) -> None:
        kept = [n for n in self.extents if n not in self.reduced]
        if not self.reduced:
            return self.store(value, kept)
        if len(self.reduced) == 1 and self.random.random() < 0.3:
            scan = Scan("running", Combine.SUM, value, self.reduced[0], False, DType.FP32)
            self.body.append(scan)
            return self.store("running", list(self.extents))
        combine = self.random.choice(COMBINES)
        dtype = DType.INT64 if combine is Combine.ARGMAX else DType.FP32
        axes = tuple(self.random.sample(self.reduced, len(self.reduced)))
        self.body.append(Reduce("combined", combine, value, axes, dtype))
        self.store("combined", kept)
        if self.random.random() < 0.5 and dtype is DType.FP32:
            self.body.append(Map("centred", PointwiseOp.SUB, (value, "combined"), DType.FP32))
            self.store("centred", list(self.extents), "all")
        return None

    def store(self, value: str, axes: list[str], name: str = "out") -> None:
        self.declared(name, [self.extents[a] for a in axes], DType.FP32, TensorRole.OUTPUT)
        self.body.append(Store(value, Access(name, tuple(Affine.of(a) for a in axes))))


def drawn(seed: int) -> Problem:
    """Return the Problem of a seed; the first load varies along all axes."""
    return _Draft(seed).run()


def points(extents: dict[str, int]) -> list[dict[str, int]]:
    """Return all coordinates, the first axis slowest."""
    return [dict(zip(extents, at, strict=True)) for at in product(*(range(e) for e in extents.values()))]
