"""Problem -> GemmForm: find the contraction or the two of a gate, give every axis its role, fold axes of one stride.

Runs after lowering and before the facts for the rules are taken; makes no choice that affects speed.
"""

from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

from kgen.errors.family import (
    MixedOperandError,
    NotOneProductError,
    TooManyBatchAxesError,
    UnfoldableAxesError,
)
from kgen.families.extents import static_extents
from kgen.families.gemm.form import (
    BlockScale,
    EpilogueLoad,
    GemmForm,
    InputOps,
    MatrixAccess,
    OutputAccess,
    SecondProduct,
)
from kgen.families.gemm.groups import form_groups
from kgen.families.gemm.scales import Fold, block_scale
from kgen.ir.access import Access
from kgen.ir.dtype import DType
from kgen.ir.grouped import of_one_group, row_groups
from kgen.ir.pointwise import PointwiseOp
from kgen.ir.problem import Const, Contract, Definition, Load, Map, Precision, Problem, Store
from kgen.ir.scaled import is_scaled, scaled_operands

HALVES = frozenset({DType.BF16, DType.FP16})  # every target multiplies them
MAX_BATCH_MODES = 3  # a TMA tensor has at most five dimensions, two of them are the tile's

Folds = tuple[Fold, Fold, Fold, tuple[Fold, ...]]  # m, n, k and the batch modes


@dataclass(frozen=True, slots=True)
class _Strides:
    """Element stride of one access along each axis, and its constant offset."""

    access: Access
    along: dict[str, int]
    offset: int

    def of(self, fold: Fold) -> int:
        return self.along.get(fold[-1], 0) if fold else 0


def classify_gemm(problem: Problem, narrow: frozenset[DType] = HALVES, *, has_tf32: bool = False) -> GemmForm:
    """Return the GEMM that a Problem is.

    `narrow` are the types whose widened values are multiplied as they were before; `has_tf32`: the device multiplies
    tf32, of operands along k alone. Raises an `UnsupportedError` naming what stands in the way when it is not exactly
    one matrix product, or two that share an operand.
    """
    groups = row_groups(problem)
    if groups is None:
        return _Classifier(problem, narrow, has_tf32).run()
    form = _Classifier(of_one_group(problem, groups), narrow, has_tf32).run()
    return replace(form, groups=form_groups(problem, groups, form))


def strides_of(problem: Problem, access: Access) -> _Strides:
    """Return the strides of an access along the iteration axes, in elements."""
    strides = problem.tensor(access.tensor).type.strides
    if access.valid or access.gathered or any(i.divisor != 1 for i in access.indices):
        raise NotOneProductError(problem=problem.name, found=f"the access {access} is padded, gathered or divided")
    if any(coefficient < 0 for index in access.indices for _, coefficient in index.terms):
        raise NotOneProductError(problem=problem.name, found=f"the access {access} runs backwards")
    along: dict[str, int] = {}
    for index, stride in zip(access.indices, strides, strict=True):
        for axis, coefficient in index.terms:
            along[axis] = along.get(axis, 0) + coefficient * stride
    offset = sum(index.offset * stride for index, stride in zip(access.indices, strides, strict=True))
    return _Strides(access, along, offset)


class _Classifier:
    """The steps of one classification over one Problem."""

    def __init__(self, problem: Problem, narrow: frozenset[DType], has_tf32: bool) -> None:
        self.problem = problem
        self.narrow = narrow
        self.has_tf32 = has_tf32
        self.definitions = problem.definitions()
        self.extents = static_extents(problem)

    def run(self) -> GemmForm:
        products, store = self.statements()
        product, shared = products[0], self.shared(products)
        elements, (a_factors, b_factors) = self.without_scales(self.operands(products, shared), product)
        a_ops, b_ops, *more = self.without_widening(*(self.input_ops(o) for o in elements))
        loads, epilogue_ops = self.epilogue(products, store)
        d = strides_of(self.problem, store.access)
        a, b = self.load_strides(a_ops), self.load_strides(b_ops)
        if not more and self.unit_axis(d) in set(a.along) - set(b.along):
            a, b, a_ops, b_ops = b, a, b_ops, a_ops  # D's rows run along lhs: swap, so that they run along n
            a_factors, b_factors = b_factors, a_factors
        load_strides = [strides_of(self.problem, load.access) for load in loads]
        m, n, batch = self.roles(a, b, d, load_strides)
        k = self.fold_k(self.live(product.axes), a, b)
        fold = (m, n, k, batch)
        mma_dtype = self.mma_dtype(a_ops, b_ops, *more)
        matrices = self.matrix(a, m, fold), self.matrix(b, n, fold)
        if a_factors or b_factors:
            self.require_narrow(mma_dtype)
        return GemmForm(
            m=self.extent(m),
            n=self.extent(n),
            k=self.extent(product.axes),
            batch=tuple(self.extent(f) for f in batch),
            a=matrices[0],
            b=matrices[1],
            a_ops=a_ops,
            b_ops=b_ops,
            mma_dtype=mma_dtype,
            accumulator=product.result,
            epilogue_loads=tuple(
                EpilogueLoad(load.result, self.output(s, fold)) for load, s in zip(loads, load_strides, strict=True)
            ),
            epilogue_ops=epilogue_ops,
            result=store.value,
            d=self.written(d, fold),
            precision=self.precision(product, mma_dtype, matrices),
            second=self.second(more[0], products[1], b_ops, b, fold) if more else None,
            a_scales=self.scales(a_factors, m, fold),
            b_scales=self.scales(b_factors, n, fold),
        )

    def precision(self, product: Contract, dtype: DType, matrices: tuple[MatrixAccess, ...]) -> Precision:
        """Return how fp32 operands are multiplied: rounding to tf32 needs both of them along k."""
        if dtype is not DType.FP32:
            return Precision.DEFAULT
        can_round = self.has_tf32 and all(matrix.k == 1 for matrix in matrices)
        return Precision.DEFAULT if product.precision is Precision.TF32 and not can_round else product.precision

    def statements(self) -> tuple[list[Contract], Store]:
        """Return the product, or the two of a gate, and the store."""
        body = self.problem.body
        products = [s for s in body if isinstance(s, Contract)]
        stores = [s for s in body if isinstance(s, Store)]
        other = [s for s in body if not isinstance(s, Load | Map | Contract | Store)]
        if len(products) not in (1, 2):
            raise NotOneProductError(problem=self.problem.name, found=f"it has {len(products)} Contract statements")
        if len(stores) != 1 or other:
            what = f"it has `{other[0]}`" if other else f"it has {len(stores)} Store statements"
            raise NotOneProductError(problem=self.problem.name, found=what)
        return products, stores[0]

    def shared(self, products: list[Contract]) -> str:
        """Return the operand that all products have, which becomes A of a gate."""
        first, last = products[0], products[-1]
        shared = next((o for o in (first.lhs, first.rhs) if o in (last.lhs, last.rhs)), None)
        if shared is None or first.axes != last.axes:
            raise NotOneProductError(problem=self.problem.name, found=f"`{first}` and `{last}` share no operand")
        return shared

    def operands(self, products: list[Contract], shared: str) -> tuple[str, ...]:
        """Return A and the Bs of the products."""
        return (shared, *(p.rhs if p.lhs == shared else p.lhs for p in products))

    def second(self, ops: InputOps, product: Contract, first: InputOps, b: _Strides, fold: Folds) -> SecondProduct:
        """Return the second product of a gate, whose B has to be read as that of the first one is."""
        strides = self.load_strides(ops)
        if strides.along != b.along or self.steps(ops) != self.steps(first):
            what = f"{b.access} and {strides.access} are read with different strides, types or operations"
            raise NotOneProductError(problem=self.problem.name, found=what)
        return SecondProduct(self.matrix(strides, fold[1], fold), ops, product.result)

    def steps(self, ops: InputOps) -> tuple[object, ...]:
        """Return what happens to a loaded element, whatever its values are called."""
        place = {ops.source: 0} | {s.result: i for i, s in enumerate(ops.ops, 1)}
        operands = (tuple(place.get(o, o) if isinstance(o, str) else o for o in s.operands) for s in ops.ops)
        steps = ((s.op, s.dtype, taken) for s, taken in zip(ops.ops, operands, strict=True))
        return (self.definitions[ops.source].dtype, *steps)

    def without_scales(
        self, operands: tuple[str, ...], product: Contract
    ) -> tuple[tuple[str, ...], tuple[tuple[str, ...], tuple[str, ...]]]:
        """Return A and B as widened elements where both are narrow ones times scales, and the scales of each."""
        if not is_scaled(self.problem):
            return operands, ((), ())
        found = scaled_operands(self.problem, product)
        assert found is not None
        by_value = dict(zip((product.lhs, product.rhs), found, strict=True))
        lhs, rhs = (by_value[value] for value in operands)
        return (lhs.element, rhs.element), (lhs.factors, rhs.factors)

    def require_narrow(self, dtype: DType) -> None:
        """Require that elements are multiplied as they are, for their scales multiply the sums."""
        if dtype not in self.narrow:
            raise NotOneProductError(problem=self.problem.name, found=f"it scales elements of {dtype}")

    def scales(self, factors: tuple[str, ...], rows: Fold, fold: Folds) -> tuple[BlockScale, ...]:
        """Return the scales of an operand."""
        return tuple(block_scale(self.problem, value, (rows, fold[2], fold[3])) for value in factors)

    def input_ops(self, value: str) -> InputOps:
        """Return the pointwise ops that lead from one loaded element to an operand of the product."""
        needed = self.needed(value)
        loads = [s for s in needed if isinstance(s, Load)]
        other = [s for s in needed if not isinstance(s, Load | Map)]
        if other or len(loads) != 1:
            stands = f"`{other[0]}` stands before it" if other else None
            mixes = f"`{self.definitions[value]}` before it mixes {len(loads)} tensors"
            raise NotOneProductError(problem=self.problem.name, found=stands or mixes)
        return InputOps(loads[0].result, tuple(s for s in needed if isinstance(s, Map)), value)

    def needed(self, value: str, known: frozenset[str] = frozenset()) -> list[Definition]:
        """Return what a value is computed from by pointwise ops, itself included, in order; not through `known`."""
        found: set[str] = set()
        stack = [value]
        while stack:
            name = stack.pop()
            if name in found or name in known:
                continue
            found.add(name)
            statement = self.definitions[name]
            if isinstance(statement, Map):
                stack += [o for o in statement.operands if not isinstance(o, Const)]
        return [s for s in self.problem.body if not isinstance(s, Store) and s.result in found]

    def without_widening(self, *operands: InputOps) -> tuple[InputOps, ...]:
        """Drop casts of all operands from one narrow type to that of its sums, in which their products are exact."""
        sources = {self.definitions[ops.source].dtype for ops in operands}
        if len(sources) == 1 and sources <= self.narrow and all(self.only_widens(ops) for ops in operands):
            return tuple(InputOps(ops.source, (), ops.source) for ops in operands)
        return operands

    def only_widens(self, ops: InputOps) -> bool:
        match ops.ops:
            case (Map(op=PointwiseOp.CAST, dtype=dtype),):
                return dtype is self.definitions[ops.source].dtype.accumulator
            case _:
                return False

    def load_strides(self, ops: InputOps) -> _Strides:
        load = self.definitions[ops.source]
        assert isinstance(load, Load)
        return strides_of(self.problem, load.access)

    def epilogue(self, products: list[Contract], store: Store) -> tuple[list[Load], tuple[Map, ...]]:
        """Return the loads and pointwise ops between the products and the store, in program order."""
        ordered = self.needed(store.value, known=frozenset(p.result for p in products))
        loads = [s for s in ordered if isinstance(s, Load)]
        return loads, tuple(s for s in ordered if isinstance(s, Map))

    def mma_dtype(self, *operands: InputOps) -> DType:
        lhs, *others = (self.definitions[ops.result].dtype for ops in operands)
        for rhs in others:
            if lhs is not rhs:
                raise MixedOperandError(problem=self.problem.name, lhs=lhs, rhs=rhs)
        return lhs

    def live(self, axes: tuple[str, ...]) -> Fold:
        return tuple(a for a in axes if self.extents[a] != 1)

    def unit_axis(self, strides: _Strides) -> str | None:
        unit = [a for a, s in strides.along.items() if s == 1 and self.extents[a] != 1]
        return unit[0] if unit else None

    def extent(self, axes: Fold) -> int:
        return prod(self.extents[axis] for axis in axes)

    def roles(
        self, a: _Strides, b: _Strides, d: _Strides, loads: list[_Strides]
    ) -> tuple[Fold, Fold, tuple[Fold, ...]]:
        """Split the output's axes into m, n and batch folds; what does not fold into m or n becomes a batch mode."""
        outer_first = sorted(
            (x for x in d.along if self.extents[x] != 1), key=lambda x: (-abs(d.along[x]), list(d.along).index(x))
        )
        in_a, in_b = set(a.along), set(b.along)
        everyone = (a, b, d, *loads)
        m_folds = self.folds([x for x in outer_first if x in in_a and x not in in_b], everyone)
        n_folds = self.folds([x for x in outer_first if x in in_b and x not in in_a], everyone)
        batch = [x for x in outer_first if (x in in_a) == (x in in_b)]
        modes = [*self.folds(batch, everyone), *m_folds[:-1], *n_folds[:-1]]
        modes.sort(key=lambda f: outer_first.index(f[-1]))
        if len(modes) > MAX_BATCH_MODES:
            axes = ", ".join("*".join(f) for f in modes)
            raise TooManyBatchAxesError(problem=self.problem.name, count=len(modes), axes=axes, limit=MAX_BATCH_MODES)
        return (m_folds or [()])[-1], (n_folds or [()])[-1], tuple(modes)

    def folds(self, axes: list[str], everyone: tuple[_Strides, ...]) -> list[Fold]:
        """Join neighbouring axes that every access walks with one stride."""
        folds: list[Fold] = []
        for axis in axes:
            if folds and all(self.composes(folds[-1][-1], axis, s) for s in everyone):
                folds[-1] = (*folds[-1], axis)
            else:
                folds.append((axis,))
        return folds

    def composes(self, outer: str, inner: str, strides: _Strides) -> bool:
        return strides.along.get(outer, 0) == strides.along.get(inner, 0) * self.extents[inner]

    def fold_k(self, k: Fold, a: _Strides, b: _Strides) -> Fold:
        ordered = tuple(sorted(k, key=lambda x: -abs(a.along[x])))
        for outer, inner in pairwise(ordered):
            for strides in (a, b):
                if not self.composes(outer, inner, strides):
                    raise UnfoldableAxesError(
                        problem=self.problem.name,
                        axes=" and ".join(ordered),
                        tensor=strides.access.tensor,
                        strides=", ".join(f"{x}: {strides.along[x]}" for x in ordered),
                    )
        return ordered

    def matrix(self, s: _Strides, outer: Fold, fold: Folds) -> MatrixAccess:
        _, _, k, batch = fold
        outer_stride, k_stride = free_strides(s.of(outer), s.of(k), self.extent(outer), self.extent(k))
        return MatrixAccess(
            tensor=s.access.tensor,
            dtype=self.problem.tensor(s.access.tensor).type.dtype,
            offset=s.offset,
            outer=outer_stride,
            k=k_stride,
            batch=tuple(s.of(f) or None for f in batch),
        )

    def output(self, s: _Strides, fold: Folds) -> OutputAccess:
        m, n, _, batch = fold
        return OutputAccess(
            tensor=s.access.tensor,
            dtype=self.problem.tensor(s.access.tensor).type.dtype,
            offset=s.offset,
            m=s.of(m),
            n=s.of(n),
            batch=tuple(s.of(f) for f in batch),
        )

    def written(self, s: _Strides, fold: Folds) -> OutputAccess:
        m, n, _, _ = fold
        m_stride, n_stride = free_strides(s.of(m), s.of(n), self.extent(m), self.extent(n))
        return replace(self.output(s, fold), m=m_stride, n=n_stride)


def free_strides(outer: int, inner: int, outer_extent: int, inner_extent: int) -> tuple[int, int]:
    """Give an axis of extent 1, whose stride means nothing, the stride that suits a matrix.

    The other axis stays or becomes the contiguous one; the padded row length is a multiple of 16 elements, so that it
    is aligned for every element type.
    """
    if outer_extent == inner_extent == 1:
        return _padded(1), 1
    if inner_extent == 1:
        return (1, _padded(outer_extent)) if outer == 1 else (outer, 1)
    if outer_extent == 1:
        return (_padded(inner_extent), 1) if inner == 1 else (1, inner)
    return outer, inner


def _padded(extent: int) -> int:
    return max(-(-extent // 16), 1) * 16
