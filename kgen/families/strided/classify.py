"""Problem -> LoopForm: which axes are rows and which columns, how every access walks them, what folds into one axis.

Runs after lowering and before the facts for the rules are taken; makes no choice that affects speed but the order of
the axes: the one along which most bytes are consecutive comes last on its side.
"""

from collections import Counter
from dataclasses import dataclass
from math import prod

from kgen.errors.family import UnfoldedAccessError
from kgen.families.extents import static_extents
from kgen.families.strided.form import Access, Layout, LoopForm, Statement, Walk
from kgen.families.strided.interleave import interleaved
from kgen.ir.access import Access as TensorAccess
from kgen.ir.access import Affine
from kgen.ir.problem import Combine, Contract, Gather, Index, Load, Problem, Reduce, Scan, Store, TensorRole
from kgen.ir.tensor import row_major_strides

Line = dict[str, int]  # axis -> stride; "" is the constant
POSITIONED = (Combine.ARGMAX, Combine.ARGMIN)


def classify_loop(problem: Problem) -> LoopForm:
    """Return the loop kernel that a Problem is. Raises an `UnsupportedError` for an extent that is not static."""
    return interleaved(_Classifier(problem).run())


@dataclass(frozen=True, slots=True)
class _Touch:
    """An access before folding."""

    value: str
    access: TensorAccess
    line: Line
    guards: tuple[Line, ...]
    gathered: tuple[str, int, int] | None


class _Classifier:
    """The steps of one classification over one Problem."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.extents = static_extents(problem)
        self.reduced = self.reduced_axes()
        self.touches = {s.result: self.touch(s.result, s) for s in problem.body if isinstance(s, Load | Gather)}
        self.stores = [self.touch(s.value, s) for s in problem.body if isinstance(s, Store)]
        self.coordinates = dict(self.coordinate_lines())

    def run(self) -> LoopForm:
        kept = [a for a in self.extents if a not in self.reduced and self.extents[a] != 1]
        reduced = [a for a in self.extents if a in self.reduced]
        vector = self.vector_axis(kept, reduced)
        kept, reduced = self.ordered(kept, vector), self.ordered(reduced, vector)
        folds = (self.folds(kept) or [()], self.folds(reduced))
        layout = Layout.FLAT if not reduced else Layout.ROWS if vector in reduced else Layout.COLUMNS
        body: tuple[Statement, ...] = tuple(s for s in self.problem.body if not isinstance(s, Store | Contract))
        return LoopForm(
            family="pointwise" if layout is Layout.FLAT else "reduction",
            layout=layout,
            kept=tuple(self.extent(f) for f in folds[0]),
            reduced=tuple(self.extent(f) for f in folds[1]),
            body=body,
            loads=tuple(self.placed(t, folds) for t in self.touches.values()),
            stores=tuple(self.placed(t, folds) for t in self.stores),
            coordinates=tuple((value, self.walk(line, folds)) for value, line in self.coordinates.items()),
            dtypes=tuple((s.result, s.dtype) for s in body),
            given=tuple(t.name for t in self.problem.tensors if t.role is not TensorRole.OUTPUT),
        )

    def reduced_axes(self) -> set[str]:
        """Return the live reduced axes; of a reduction over one element, that axis, so that there is a column."""
        named = [a for s in self.problem.body if isinstance(s, Reduce) for a in s.axes]
        named += [s.axis for s in self.problem.body if isinstance(s, Scan)]
        live = {a for a in named if self.extents[a] != 1}
        return live or set(named[:1])

    def touch(self, value: str, statement: Load | Gather | Store) -> _Touch:
        access = statement.access
        type_ = self.problem.tensor(access.tensor).type
        line: Line = {"": 0}
        for index, stride in zip(access.indices, type_.strides, strict=True):
            self.add(line, index, stride, access)
        guards: list[Line] = []
        for bound in access.valid:
            low, high = self.affine(bound.index, access), self.affine(bound.hi, access)
            self.add(low, bound.lo, -1, access)
            self.add(high, bound.index, -1, access)
            high[""] -= 1
            guards += [g for g in (low, high) if self.least(g) < 0]
        gathered = None
        if isinstance(statement, Gather):
            at = statement.position
            gathered = (statement.index, type_.strides[at], type_.static_shape[at])
        return _Touch(value, access, line, tuple(guards), gathered)

    def affine(self, index: Affine, access: TensorAccess) -> Line:
        line: Line = {"": 0}
        self.add(line, index, 1, access)
        return line

    def add(self, line: Line, index: Affine, factor: int, access: TensorAccess) -> None:
        if index.divisor != 1 or access.gathered:
            raise UnfoldedAccessError(problem=self.problem.name, access=str(access))
        for axis, coefficient in index.terms:
            line[axis] = line.get(axis, 0) + coefficient * factor
        line[""] += index.offset * factor

    def least(self, line: Line) -> int:
        return line[""] + sum(min(c, 0) * max(self.extents[a] - 1, 0) for a, c in line.items() if a)

    def coordinate_lines(self) -> list[tuple[str, Line]]:
        found: list[tuple[str, Line]] = []
        for s in self.problem.body:
            if isinstance(s, Index):
                found.append((s.result, {"": 0, s.axis: 1}))
            elif isinstance(s, Reduce) and s.combine in POSITIONED:
                strides = row_major_strides(tuple(self.extents[a] for a in s.axes))
                found.append((s.result, {"": 0, **dict(zip(s.axes, strides, strict=True))}))
        return found

    def vector_axis(self, kept: list[str], reduced: list[str]) -> str:
        """Return the axis along which most bytes are consecutive."""
        weights: Counter[str] = Counter()
        for t in (*self.touches.values(), *self.stores):
            for axis in (*kept, *reduced):
                if t.line.get(axis) == 1 and self.extents[axis] > 1:
                    weights[axis] += self.bytes_of(t)
        if not weights:
            return (*kept, *reduced)[-1] if kept or reduced else ""
        return max((*kept, *reduced), key=lambda a: weights[a])

    def bytes_of(self, touch: _Touch) -> int:
        points = prod(max(self.extents[a], 1) for a, stride in touch.line.items() if a and stride)
        return points * self.problem.tensor(touch.access.tensor).type.dtype.bytes

    def ordered(self, axes: list[str], vector: str) -> list[str]:
        """Return axes outermost first, as the access that moves most bytes has them."""
        lead = max((*self.stores, *self.touches.values()), key=self.bytes_of)
        return sorted(axes, key=lambda a: (a == vector, -abs(lead.line.get(a, 0)) or -(2**62), axes.index(a)))

    def folds(self, axes: list[str]) -> list[tuple[str, ...]]:
        """Join neighbouring axes that every access walks with one stride."""
        lines = [line for t in (*self.touches.values(), *self.stores) for line in (t.line, *t.guards)]
        lines += self.coordinates.values()
        folds: list[tuple[str, ...]] = []
        for axis in axes:
            outer = folds[-1][-1] if folds else None
            if outer and all(line.get(outer, 0) == line.get(axis, 0) * self.extents[axis] for line in lines):
                folds[-1] = (*folds[-1], axis)
            else:
                folds.append((axis,))
        return folds

    def extent(self, fold: tuple[str, ...]) -> int:
        return prod(self.extents[a] for a in fold)

    def walk(self, line: Line, folds: tuple[list[tuple[str, ...]], list[tuple[str, ...]]]) -> Walk:
        kept, reduced = (tuple(line.get(f[-1], 0) if f else 0 for f in side) for side in folds)
        return Walk(line[""], kept, reduced)

    def placed(self, t: _Touch, folds: tuple[list[tuple[str, ...]], list[tuple[str, ...]]]) -> Access:
        return Access(
            value=t.value,
            tensor=t.access.tensor,
            dtype=self.problem.tensor(t.access.tensor).type.dtype,
            walk=self.walk(t.line, folds),
            guards=tuple(self.walk(g, folds) for g in t.guards),
            fill=t.access.fill,
            gathered=t.gathered,
        )
