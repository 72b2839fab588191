"""Problem -> Problems: one loop kernel as two that pass values through buffers; both mean what the one meant.

`cut_after_first_phase` ends a kernel once the first reductions are complete. `split_reduction` reduces one axis in
parts, and joins the parts in a second kernel, always in the same order.
"""

from dataclasses import dataclass, replace
from itertools import chain, count
from math import prod

from kgen.families.strided.form import levels
from kgen.ir.access import Access, Affine
from kgen.ir.dtype import DType
from kgen.ir.pointwise import PointwiseOp as Op
from kgen.ir.problem import (
    Axis,
    Combine,
    Const,
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
    operands_of,
)
from kgen.ir.program import Buffer
from kgen.ir.tensor import TensorType

PART = "part"


@dataclass(frozen=True, slots=True)
class Cut:
    """Two problems in launch order, and the buffers that the first writes and the second reads."""

    first: Problem
    second: Problem
    buffers: tuple[Buffer, ...]


def varies(problem: Problem) -> dict[str, frozenset[str]]:
    """Return the axes along which each value varies."""
    found: dict[str, frozenset[str]] = {}
    for s in problem.body:
        match s:
            case Load():
                found[s.result] = frozenset(s.access.axes)
            case Gather():
                found[s.result] = frozenset(s.access.axes) | found[s.index]
            case Index():
                found[s.result] = frozenset({s.axis})
            case Map():
                found[s.result] = frozenset().union(*(found[o] for o in operands_of(s)))
            case Reduce():
                found[s.result] = found[s.operand] - set(s.axes)
            case Scan():
                found[s.result] = found[s.operand]
    return found


def cut_after_first_phase(problem: Problem, names: tuple[str, ...]) -> Cut | None:
    """Return the problem as its first reductions and all that follows, or None where there is nothing between.

    `names` has a name for each buffer that may be needed.
    """
    phases = levels(problem.body)
    firsts = [s for s in problem.body if isinstance(s, Reduce) and phases[s.operand] == 0]
    are_all = len(firsts) == sum(isinstance(s, Reduce) for s in problem.body)
    if not firsts or (are_all and _is_row_only(problem)):
        return None
    axes = varies(problem)
    writer = _Writer(problem, names)
    for s in firsts:
        writer.pass_on(s.result, s.dtype, tuple(a.name for a in problem.axes if a.name in axes[s.result]))
    reduced = {a for s in firsts for a in s.axes}
    stores = [s for s in problem.body if isinstance(s, Store)]
    early = [s for s in stores if phases[s.value] <= 1 and not reduced & set(s.access.axes)]
    late = [s for s in stores if s not in early]
    first_values = [*(s.result for s in firsts), *(s.value for s in early)]
    first_body = (*_needed(problem.body, first_values), *early, *writer.stores)
    loads = {load.result: load for load in writer.loads}
    rest = [loads[s.result] if not isinstance(s, Store) and s.result in loads else s for s in problem.body]
    second_body = (*_needed(tuple(rest), [s.value for s in late]), *late)
    return Cut(writer.problem(first_body, 0), writer.problem(second_body, 1), writer.buffers)


def _is_row_only(problem: Problem) -> bool:
    """Return whether every store writes at most one value a row."""
    reduced = {a for s in problem.body if isinstance(s, Reduce) for a in s.axes}
    return all(not reduced & set(s.access.axes) for s in problem.body if isinstance(s, Store))


def can_split(problem: Problem) -> bool:
    """Return whether the problem is one phase of reductions with one value a row."""
    phases = levels(problem.body)
    reduces = [s for s in problem.body if isinstance(s, Reduce)]
    scans = any(isinstance(s, Scan) for s in problem.body)
    return bool(reduces) and not scans and _is_row_only(problem) and max(phases.values()) == 1


def split_reduction(problem: Problem, axis: str, parts: int, names: tuple[str, ...]) -> Cut:
    """Return the problem with `axis` reduced in `parts` parts of equal length, and their results joined.

    The extent is a multiple of `parts`; for ARGMAX and ARGMIN the axis comes first of those they run over.
    """
    extent = problem.axis(axis).extent
    assert isinstance(extent, int) and extent % parts == 0
    return _Split(problem, axis, parts, extent // parts, names).run()


def splittable_axes(problem: Problem) -> tuple[str, ...]:
    """Return the reduced axes that can be split."""
    reduces = [s for s in problem.body if isinstance(s, Reduce)]
    axes = dict.fromkeys(a for s in reduces for a in s.axes)
    positioned = [s for s in reduces if s.combine in (Combine.ARGMAX, Combine.ARGMIN)]
    return tuple(a for a in axes if all(s.axes[0] == a for s in positioned))


class _Writer:
    """Makes buffers, and the stores and loads that pass values through them."""

    def __init__(self, problem: Problem, names: tuple[str, ...], extra: tuple[Axis, ...] = ()) -> None:
        self.origin, self.names = problem, names
        self.axes = {a.name: a for a in (*extra, *problem.axes)}
        self.stores: list[Store] = []
        self.loads: list[Load] = []
        self.buffers: tuple[Buffer, ...] = ()

    def pass_on(self, value: str, dtype: DType, axes: tuple[str, ...], result: str = "") -> str:
        """Store a value into a new buffer and load it under `result` (default: its own name); return the buffer."""
        name = self.names[len(self.buffers)]
        shape = tuple(self.axes[a].extent for a in axes)
        static = tuple(e for e in shape if isinstance(e, int))
        assert len(static) == len(shape)
        self.buffers = (*self.buffers, Buffer(name, TensorType.contiguous(dtype, static)))
        access = Access(name, tuple(Affine.of(a) for a in axes))
        self.stores.append(Store(value, access))
        self.loads.append(Load(result or value, access, dtype))
        return name

    def problem(self, body: tuple[Statement, ...], number: int) -> Problem:
        """Return the problem of a body, with the axes and tensors that it names."""
        accesses = [s.access for s in body if isinstance(s, Load | Gather | Store)]
        used = {a for access in accesses for a in access.axes}
        used |= {a for s in body if isinstance(s, Reduce) for a in s.axes}
        used |= {s.axis for s in body if isinstance(s, Scan | Index)}
        written = {s.access.tensor for s in body if isinstance(s, Store)}
        named = {access.tensor for access in accesses}
        tensors = [t for t in self.origin.tensors if t.name in named]
        tensors = [replace(t, role=TensorRole.INPUT) if t.name not in written else t for t in tensors]
        roles = {b.name: TensorRole.OUTPUT if b.name in written else TensorRole.INPUT for b in self.buffers}
        tensors += [ProblemTensor(b.name, b.type, roles[b.name]) for b in self.buffers if b.name in named]
        axes = tuple(a for a in self.axes.values() if a.name in used)
        return Problem(f"{self.origin.name}_{number}", axes, tuple(tensors), body)


def _needed(body: tuple[Statement, ...], values: list[str]) -> tuple[Statement, ...]:
    """Return the definitions that some values are computed from, in order."""
    wanted = set(values)
    found: list[Statement] = []
    for s in reversed(body):
        if isinstance(s, Store) or s.result not in wanted:
            continue
        found.append(s)
        wanted.update(operands_of(s))
    return tuple(reversed(found))


class _Split:
    """The steps of one split."""

    def __init__(self, problem: Problem, axis: str, parts: int, length: int, names: tuple[str, ...]) -> None:
        self.problem, self.axis, self.parts, self.length = problem, axis, parts, length
        taken = {a.name for a in problem.axes}
        self.part = next(n for n in chain((PART,), (f"{PART}{i}" for i in count(1))) if n not in taken)
        self.writer = _Writer(problem, names, (Axis(self.part, parts),))
        self.writer.axes[axis] = Axis(axis, length)
        self.kept = tuple(a.name for a in problem.axes if a.name not in self.reduced())
        self.joins: list[Statement] = []
        self.axes_of = varies(problem)

    def reduced(self) -> set[str]:
        return {a for s in self.problem.body if isinstance(s, Reduce) for a in s.axes}

    def run(self) -> Cut:
        reduces = [s for s in self.problem.body if isinstance(s, Reduce)]
        before = _needed(self.problem.body, [s.operand for s in reduces])
        first: list[Statement] = [part for s in before for part in self.in_parts(s)]
        loads: list[Statement] = []
        for s in reduces:
            first += self.partial(s)
        loads += self.writer.loads
        known = {s.result for s in reduces}
        stores = [s for s in self.problem.body if isinstance(s, Store)]
        rest = [s for s in self.problem.body if not isinstance(s, Store) and s.result not in known]
        after = _needed((*loads, *self.joins, *rest), [s.value for s in stores])
        return Cut(
            self.writer.problem((*first, *self.writer.stores), 0),
            self.writer.problem((*after, *stores), 1),
            self.writer.buffers,
        )

    def in_parts(self, s: Statement) -> tuple[Statement, ...]:
        match s:
            case Load() | Gather():
                return (replace(s, access=self.access(s.access)),)
            case Index(axis=self.axis):
                part, inner, scaled = (f"{s.result}_{n}" for n in ("part", "in", "first"))
                return (
                    Index(part, self.part),
                    Index(inner, self.axis),
                    Map(scaled, Op.MUL, (part, Const(self.length)), s.dtype),
                    Map(s.result, Op.ADD, (scaled, inner), s.dtype),
                )
            case _:
                return (s,)

    def access(self, access: Access) -> Access:
        sides = [{side: self.affine(getattr(b, side)) for side in ("index", "lo", "hi")} for b in access.valid]
        valid = tuple(replace(b, **new) for b, new in zip(access.valid, sides, strict=True))
        return replace(access, indices=tuple(self.affine(i) for i in access.indices), valid=valid)

    def affine(self, index: Affine) -> Affine:
        terms: list[tuple[str, int]] = []
        for axis, coefficient in index.terms:
            if axis == self.axis:
                terms.append((self.part, coefficient * self.length))
            terms.append((axis, coefficient))
        return replace(index, terms=tuple(terms))

    def kept_of(self, s: Reduce) -> tuple[str, ...]:
        """Return the axes of the buffer of a reduction: the parts, then the kept axes it varies along."""
        return (self.part, *(a for a in self.kept if a in self.axes_of[s.result]))

    def partial(self, s: Reduce) -> tuple[Statement, ...]:
        """Return the reduction of one part, and note how its results are joined."""
        match s.combine:
            case Combine.M2:
                return self.moments(s)
            case Combine.ARGMAX | Combine.ARGMIN:
                return self.position(s)
            case Combine.SUMEXP:
                return self.exponents(s)
            case _:
                name = f"{s.result}_{PART}"
                self.writer.pass_on(name, s.dtype, self.kept_of(s), f"{s.result}_parts")
                self.joins.append(replace(s, operand=f"{s.result}_parts", axes=(self.part,)))
                return (replace(s, result=name),)

    def moments(self, s: Reduce) -> tuple[Statement, ...]:
        """Deviations of all values are those inside of the parts, and those of the parts' means."""
        n = s.result
        number = float(self.length * prod(self.extent(a) for a in s.axes if a != self.axis))
        self.writer.pass_on(f"{n}_inner", s.dtype, self.kept_of(s), f"{n}_inners")
        self.writer.pass_on(f"{n}_total", s.dtype, self.kept_of(s), f"{n}_totals")
        part = (self.part,)
        self.joins += [
            Map(f"{n}_means", Op.MUL, (f"{n}_totals", Const(1 / number)), s.dtype),
            Reduce(f"{n}_between", Combine.M2, f"{n}_means", part, s.dtype),
            Reduce(f"{n}_within", Combine.SUM, f"{n}_inners", part, s.dtype),
            Map(f"{n}_scaled", Op.MUL, (f"{n}_between", Const(number)), s.dtype),
            Map(n, Op.ADD, (f"{n}_within", f"{n}_scaled"), s.dtype),
        ]
        return (replace(s, result=f"{n}_inner"), replace(s, result=f"{n}_total", combine=Combine.SUM))

    def exponents(self, s: Reduce) -> tuple[Statement, ...]:
        """The sum of a part is about the part's largest value; it is scaled to the largest of all."""
        n, part = s.result, (self.part,)
        self.writer.pass_on(f"{n}_part", s.dtype, self.kept_of(s), f"{n}_parts")
        self.writer.pass_on(f"{n}_top", s.dtype, self.kept_of(s), f"{n}_tops")
        self.joins += [
            Reduce(f"{n}_largest", Combine.MAX, f"{n}_tops", part, s.dtype),
            Map(f"{n}_below", Op.SUB, (f"{n}_tops", f"{n}_largest"), s.dtype),
            Map(f"{n}_scale", Op.EXP, (f"{n}_below",), s.dtype),
            Map(f"{n}_scaled", Op.MUL, (f"{n}_parts", f"{n}_scale"), s.dtype),
            Reduce(n, Combine.SUM, f"{n}_scaled", part, s.dtype),
        ]
        return (replace(s, result=f"{n}_part"), Reduce(f"{n}_top", Combine.MAX, s.operand, s.axes, s.dtype))

    def position(self, s: Reduce) -> tuple[Statement, ...]:
        """The first of the best parts holds the first of the best elements."""
        n, best = s.result, Combine.MAX if s.combine is Combine.ARGMAX else Combine.MIN
        dtype = self.problem.definitions()[s.operand].dtype
        axes = self.kept_of(s)
        self.writer.pass_on(f"{n}_best", dtype, axes, f"{n}_bests")
        at = self.writer.pass_on(f"{n}_in", DType.INT64, axes, f"{n}_ins")
        self.writer.loads.pop()
        inner = self.length * prod(self.extent(a) for a in s.axes if a != self.axis)
        indices = (Affine(), *(Affine.of(a) for a in axes[1:]))
        self.joins += [
            Reduce(f"{n}_part", s.combine, f"{n}_bests", (self.part,), DType.INT64),
            Gather(f"{n}_inside", Access(at, indices), 0, f"{n}_part", DType.INT64),
            Map(f"{n}_first", Op.MUL, (f"{n}_part", Const(inner)), DType.INT64),
            Map(n, Op.ADD, (f"{n}_first", f"{n}_inside"), DType.INT64),
        ]
        return (Reduce(f"{n}_best", best, s.operand, s.axes, dtype), replace(s, result=f"{n}_in"))

    def extent(self, axis: str) -> int:
        extent = self.problem.axis(axis).extent
        assert isinstance(extent, int)
        return extent
