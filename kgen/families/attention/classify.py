"""Problem -> AttentionForm: give every axis its role, fold axes that one stride walks, read scale and mask.

The parts are those of `kgen.ir.attention`. Makes no choice that affects speed.
"""

from dataclasses import dataclass
from math import prod

from kgen.errors.family import NotOneAttentionError, TooManyBatchAxesError
from kgen.families.attention.bounds import KeyBounds, key_bounds
from kgen.families.attention.form import (
    AttentionForm,
    Coordinate,
    EpilogueLoad,
    LogsumexpAccess,
    PageTable,
    ScoreLoad,
    TokenAccess,
)
from kgen.families.attention.pages import Pages, pages_of
from kgen.families.extents import static_extents
from kgen.families.gemm.classify import MAX_BATCH_MODES, strides_of
from kgen.ir.access import Access
from kgen.ir.attention import AttentionBody, attention_body, paged_load
from kgen.ir.dtype import DType
from kgen.ir.pointwise import PointwiseOp as Op
from kgen.ir.problem import Const, Gather, Index, Load, Map, Problem, operands_of

Fold = tuple[str, ...]  # axes that act as one, outermost first
NARROW_RESULTS = frozenset({DType.BF16, DType.FP16})


@dataclass(frozen=True, slots=True)
class _Walk:
    """Element strides of one access along each axis, and its constant offset."""

    access: Access
    along: dict[str, int]
    offset: int

    def of(self, fold: Fold) -> int:
        return self.along.get(fold[-1], 0) if fold else 0


@dataclass(frozen=True, slots=True)
class _Roles:
    """The folded axes by what they do."""

    m: Fold
    n: Fold
    d: Fold
    dv: Fold
    group: Fold
    batch: tuple[Fold, ...]


def classify_attention(problem: Problem) -> AttentionForm:
    """Return the attention that a Problem is. Raises an `UnsupportedError` naming what stands in the way."""
    body = attention_body(problem)
    if body is None:
        raise NotOneAttentionError(problem=problem.name, found="there is no softmax between its products")
    return _Classifier(problem, body).run()


class _Classifier:
    """The steps of one classification over one Problem."""

    def __init__(self, problem: Problem, body: AttentionBody) -> None:
        self.problem, self.body = problem, body
        self.definitions = problem.definitions()
        self.extents = static_extents(problem)
        self.pages = pages_of(problem, body, self.extents)
        self.table = self.walk(self.pages.table) if self.pages else None
        self.q, self.k, self.v = (self.operand(o) for o in (body.query, body.key, body.value))
        self.out = self.walk(body.out.access)
        self.lse = self.walk(body.logsumexp.store.access) if body.logsumexp else None
        known = frozenset({body.scores.result})
        self.score_statements = self.problem.needed(body.score, known)
        self.score_loads = [s for s in self.score_statements if isinstance(s, Load)]
        self.output = self.divided()
        self.epilogue = self.problem.needed(body.out.value, frozenset({self.output}))
        self.epilogue_loads = [s for s in self.epilogue if isinstance(s, Load)]

    def run(self) -> AttentionForm:
        body, roles = self.body, self.roles()
        scale, scaled, score_ops = self.scaled()
        queries = roles.m[0] if len(roles.m) == 1 else ""
        return AttentionForm(
            m=self.extent(roles.m),
            n=self.extent(roles.n),
            d=self.extent(roles.d),
            dv=self.extent(roles.dv),
            ratio=self.extent(roles.group),
            batch=tuple(self.extent(f) for f in roles.batch),
            q=self.tokens(self.q, roles.m, roles.d, roles),
            k=self.tokens(self.k, roles.n, roles.d, roles),
            v=self.tokens(self.v, roles.n, roles.dv, roles),
            pages=self.page_table(roles),
            out=self.tokens(self.out, roles.m, roles.dv, roles),
            mma_dtype=self.mma_dtype(),
            input_ops=any(self.computes(o) for o in (body.query, body.key, body.value)),
            scale=scale,
            scaled=scaled,
            score=body.score,
            score_ops=score_ops,
            score_loads=tuple(self.score_load(s, roles) for s in self.score_loads),
            coordinates=tuple(self.coordinate(s, roles) for s in self.score_statements if isinstance(s, Index)),
            keys=self.bounds(queries, roles.n),
            empty_rows=body.empty_rows,
            output=self.output,
            epilogue_loads=tuple(self.epilogue_load(s, roles) for s in self.epilogue_loads),
            epilogue_ops=tuple(s for s in self.epilogue if isinstance(s, Map)),
            result=body.out.value,
            logsumexp=self.logsumexp(roles),
        )

    def refused(self, found: str) -> NotOneAttentionError:
        return NotOneAttentionError(problem=self.problem.name, found=found)

    def walk(self, access: Access) -> _Walk:
        found = strides_of(self.problem, access)
        return _Walk(access, {a: s for a, s in found.along.items() if self.extents[a] != 1}, found.offset)

    def operand(self, value: str) -> _Walk:
        if self.pages is not None and (paged := paged_load(self.problem, value)) is not None:
            return self.through_pages(self.walk(paged.gather.access), self.pages)
        load = next(s for s in self.problem.needed(value) if isinstance(s, Load))
        return self.walk(load.access)

    def through_pages(self, walk: _Walk, pages: Pages) -> _Walk:
        """Return a walk over the keys of a page that goes on over the table's entries as if pages were neighbours."""
        token = min(walk.along.get(axis, 0) for axis in self.body.output.axes if axis in walk.along)
        further = {pages.entries: token * pages.size} if pages.entries else {}
        return _Walk(walk.access, {**walk.along, **further}, walk.offset)

    def divided(self) -> str:
        """Return the value at which a row of the output is divided by its sum."""
        output = self.body.output.result
        if self.body.divided:
            return output
        total = self.body.total.result
        return next(s.result for s in self.definitions.values() if operands_of(s) == (output, total))

    def extent(self, axes: Fold) -> int:
        return prod(self.extents[axis] for axis in axes)

    # Roles of the axes.

    def roles(self) -> _Roles:
        live = [a for a, extent in self.extents.items() if extent != 1]
        d, n = set(self.body.scores.axes), set(self.body.output.axes)
        paged = set(self.table.along) - n if self.table else set()
        in_k, in_v, scored = set(self.k.along) | paged, set(self.v.along) | paged, self.scored_axes()
        dv = {a for a in live if a in in_v and a in self.out.along and a not in scored}
        rows = [a for a in live if a in self.out.along and a not in in_k | in_v]
        if any(a not in self.out.along and a not in d | n for a in live):
            raise self.refused("an axis is neither of its results nor summed over")
        keys = self.one([a for a in live if a in n], "keys")
        m = self.query_axis(rows, keys)
        group_folds = self.folds([a for a in rows if a != m])
        batch = [a for a in live if a in self.out.along and a in in_k | in_v and a not in dv]
        modes = (*self.folds(batch), *group_folds[:-1])
        if len(modes) > MAX_BATCH_MODES - bool(group_folds):
            axes, limit = ", ".join("*".join(f) for f in modes), MAX_BATCH_MODES - bool(group_folds)
            raise TooManyBatchAxesError(problem=self.problem.name, count=len(modes), axes=axes, limit=limit)
        return _Roles(
            (m,) if m else (),
            keys,
            self.one([a for a in live if a in d], "head dim"),
            self.one([a for a in live if a in dv], "head dim of V"),
            (group_folds or [()])[-1],
            modes,
        )

    def scored_axes(self) -> set[str]:
        """Return the axes that scores vary along."""
        loaded = {a for s in self.score_loads for a in s.access.axes}
        counted = {s.axis for s in self.score_statements if isinstance(s, Index)}
        return (set(self.q.along) | set(self.k.along) | loaded | counted) - set(self.body.scores.axes)

    def query_axis(self, rows: list[str], keys: Fold) -> str | None:
        """Return the axis of the queries: the one that a mask compares with the keys, else the longest of the rows."""
        for axis in rows:
            bounds = self.bounds(axis, keys)
            sliding = bounds.lengths is not None and bounds.lengths.sliding
            if sliding or (bounds.least, bounds.most) != (None, None):
                return axis
        counted = {s.axis for s in self.score_statements if isinstance(s, Index)}
        ordered = sorted(rows, key=lambda a: (a in counted, self.extents[a]))
        return ordered[-1] if ordered else None

    def everyone(self) -> list[_Walk]:
        loads = [self.walk(s.access) for s in (*self.score_loads, *self.epilogue_loads)]
        return [self.q, self.k, self.v, self.out, *([self.lse] if self.lse else []), *self.table_rows(), *loads]

    def table_rows(self) -> list[_Walk]:
        """Return how the rows of the table are walked, one for each sequence."""
        if self.table is None:
            return []
        rows = {axis: step for axis, step in self.table.along.items() if axis not in self.body.output.axes}
        return [_Walk(self.table.access, rows, self.table.offset)]

    def folds(self, axes: list[str]) -> list[Fold]:
        """Join axes that every access walks with one stride, outermost in Q or else in the output first."""
        order = {**self.out.along, **self.k.along, **self.v.along, **self.q.along}
        folds: list[Fold] = []
        for axis in sorted(axes, key=lambda a: -order[a]):
            if folds and all(self.composes(folds[-1][-1], axis, walk) for walk in self.everyone()):
                folds[-1] = (*folds[-1], axis)
            else:
                folds.append((axis,))
        return folds

    def composes(self, outer: str, inner: str, walk: _Walk) -> bool:
        return walk.along.get(outer, 0) == walk.along.get(inner, 0) * self.extents[inner]

    def one(self, axes: list[str], what: str) -> Fold:
        folds = self.folds(axes)
        if len(folds) > 1:
            raise self.refused(f"no single stride walks its {what} ({', '.join('*'.join(f) for f in folds)})")
        return folds[0] if folds else ()

    # The tensors at these axes.

    def tokens(self, walk: _Walk, tokens: Fold, dim: Fold, roles: _Roles) -> TokenAccess:
        return TokenAccess(
            tensor=walk.access.tensor,
            dtype=self.problem.tensor(walk.access.tensor).type.dtype,
            offset=walk.offset,
            tokens=walk.of(tokens),
            dim=walk.of(dim),
            group=walk.of(roles.group),
            batch=tuple(walk.of(f) for f in roles.batch),
        )

    def page_table(self, roles: _Roles) -> PageTable | None:
        if self.pages is None or self.table is None:
            return None
        pages, table = self.pages, self.problem.tensor(self.pages.table.tensor).type
        caches = [
            (p.gather.position, self.problem.tensor(p.gather.access.tensor).type) for p in (pages.key, pages.value)
        ]
        (position, cache), _ = caches
        k_page, v_page = (type_.strides[at] for at, type_ in caches)
        return PageTable(
            tensor=pages.table.tensor,
            dtype=table.dtype,
            offset=self.table.offset,
            entries=self.table.along.get(pages.entries, 0),
            group=self.table.of(roles.group),
            batch=tuple(self.table.of(f) for f in roles.batch),
            size=pages.size,
            pages=cache.static_shape[position],
            k_page=k_page,
            v_page=v_page,
            wraps=pages.key.wraps,
        )

    def score_load(self, load: Load, roles: _Roles) -> ScoreLoad:
        walk = self.walk(load.access)
        return ScoreLoad(
            value=load.result,
            tensor=load.access.tensor,
            dtype=self.problem.tensor(load.access.tensor).type.dtype,
            offset=walk.offset,
            queries=walk.of(roles.m),
            keys=walk.of(roles.n),
            group=walk.of(roles.group),
            batch=tuple(walk.of(f) for f in roles.batch),
        )

    def epilogue_load(self, load: Load, roles: _Roles) -> EpilogueLoad:
        return EpilogueLoad(load.result, self.tokens(self.walk(load.access), roles.m, roles.dv, roles))

    def coordinate(self, index: Index, roles: _Roles) -> Coordinate:
        folds = {"queries": roles.m, "keys": roles.n, "group": roles.group}
        folds |= {f"batch_{i}": fold for i, fold in enumerate(roles.batch)}
        for along, fold in folds.items():
            if index.axis in fold:
                inner = fold[fold.index(index.axis) + 1 :]
                return Coordinate(index.result, along, self.extent(inner), self.extents[index.axis])
        return Coordinate(index.result, "keys", 1, 1)  # an axis of extent 1, whose only coordinate is 0

    def logsumexp(self, roles: _Roles) -> LogsumexpAccess | None:
        if self.lse is None or self.body.logsumexp is None:
            return None
        return LogsumexpAccess(
            tensor=self.lse.access.tensor,
            dtype=self.problem.tensor(self.lse.access.tensor).type.dtype,
            offset=self.lse.offset,
            queries=self.lse.of(roles.m),
            group=self.lse.of(roles.group),
            batch=tuple(self.lse.of(f) for f in roles.batch),
            empty_rows=self.body.logsumexp.empty_rows,
        )

    # Element types, scale and mask.

    def source(self, value: str) -> DType:
        paged = paged_load(self.problem, value)
        return paged.gather.dtype if paged else next(s.dtype for s in self.problem.needed(value) if isinstance(s, Load))

    def mma_dtype(self) -> DType:
        """Return the type that both products are taken in: that of Q, K and V in memory.

        Where V is widened before its product, weights are in fp32; rounding them is right for narrow results alone.
        """
        types = {self.source(o) for o in (self.body.query, self.body.key, self.body.value)}
        if len(types) != 1:
            raise self.refused(f"Q, K and V have the types {', '.join(sorted(types))}")
        (dtype,) = types
        widened = self.definitions[self.body.value].dtype is not dtype
        stored = self.problem.tensor(self.body.out.access.tensor).type.dtype
        if widened and stored not in NARROW_RESULTS:
            raise self.refused(f"its second product is {self.definitions[self.body.value].dtype}, and so is its result")
        return dtype

    def factor(self, value: str, *, rounded: bool = True) -> tuple[float, str]:
        """Return the constant that a value is a multiple of another one by, and that other value.

        With `rounded`, casts to narrower types are passed over, too: a product that is scaled after it rounds less.
        """
        match self.definitions[value]:
            case Map(op=Op.MUL, operands=(str(inner), Const(value=number)) | (Const(value=number), str(inner))):
                pass
            case Map(op=Op.DIV, operands=(str(inner), Const(value=number))) if number:
                number = 1 / number
            case Map(op=Op.CAST, operands=(str(inner),), dtype=dtype) if dtype.is_float and (
                rounded or dtype.bytes >= self.definitions[inner].dtype.bytes
            ):
                number = 1
            case _:
                return 1.0, value
        rest, source = self.factor(inner, rounded=rounded)
        return float(number) * rest, source

    def computes(self, value: str) -> bool:
        """Return whether an operand is more than a multiple of a loaded element."""
        return not isinstance(self.definitions[self.factor(value)[1]], Load | Gather)

    def scaled(self) -> tuple[float, str, tuple[Map, ...]]:
        """Return the scale of the products, the scaled value, and what leads from there to the score."""
        product = self.body.scores.result
        value, scale = product, 1.0
        left = [s for s in self.score_statements if isinstance(s, Map)]
        while value != self.body.score and len(users := [s for s in left if value in s.operands]) == 1:
            number, source = self.factor(users[0].result, rounded=False)
            if source != product:
                break
            value, scale = users[0].result, number
            left.remove(users[0])
        operands = self.factor(self.body.query)[0] * self.factor(self.body.key)[0]
        return scale * operands, value, tuple(left)

    def bounds(self, queries: str, keys: Fold) -> KeyBounds:
        steps = {axis: self.extent(keys[i + 1 :]) for i, axis in enumerate(keys)}
        return key_bounds(self.definitions, self.body.score, queries, steps)
