"""One kernel: the Problem that stores given values, if it is one that a kernel can compute in a single pass."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from kgen.errors.frontend import ChainTooLongError
from kgen.frontend.body import Body
from kgen.frontend.indices import AxisSplit, Indices, NotOneKernel
from kgen.frontend.kernel_axes import Axes, split_axis
from kgen.frontend.products import Products
from kgen.frontend.promotion import compute_dtype
from kgen.ir.access import Access
from kgen.ir.attention import attention_body, paged_load
from kgen.ir.graph import OpGraph, ValueRef
from kgen.ir.grouped import without_groups
from kgen.ir.problem import (
    Axis,
    Const,
    Contract,
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
from kgen.ir.scaled import is_scaled
from kgen.ir.tensor import TensorType


class Kind(StrEnum):
    """What a kernel may hold besides loads, pointwise operations and stores."""

    LOOP = "loop"  # reductions and scans
    PRODUCT = "product"  # one matrix product
    SCALED = "scaled"  # one matrix product of narrow operands with their scales
    SCALED_IN_PLACE = "scaled in place"  # the same; a scale may serve runs of an axis that they do not divide
    GATED = "gated"  # two products that share an operand, or one at two places
    ATTENTION = "attention"  # two products with a softmax between them


@dataclass(frozen=True, slots=True)
class Target:
    """A value that a kernel stores, and the tensor it goes to."""

    ref: ValueRef
    name: str
    type: TensorType
    role: TensorRole = TensorRole.OUTPUT


@dataclass(frozen=True, slots=True)
class Source:
    """The graph, and the tensors that hold values which other kernels compute."""

    graph: OpGraph
    external: Mapping[ValueRef, ProblemTensor]


# What the bodies of each kind may hold of matrix products.
_PRODUCTS = {
    Kind.LOOP: Products.ONE,
    Kind.PRODUCT: Products.ONE,
    Kind.SCALED: Products.ONE,
    Kind.SCALED_IN_PLACE: Products.ONE,
    Kind.GATED: Products.SIDE_BY_SIDE,
    Kind.ATTENTION: Products.CHAINED,
}
OF_SCALED = (Kind.SCALED, Kind.SCALED_IN_PLACE)
OF_PRODUCTS = (Kind.PRODUCT, *OF_SCALED, Kind.GATED)


def write(name: str, source: Source, targets: tuple[Target, ...], kind: Kind) -> Problem:
    """Return the Problem that stores the targets, with working names for its axes.

    Raises `NotOneKernel` if no single kernel does, and an `UnsupportedError` if no kernel does.
    """
    problem, body = _drafted(name, source, targets, kind)
    if kind in OF_PRODUCTS:
        _check_product(problem, 2 if kind is Kind.GATED else 1)
        if kind in OF_SCALED and not is_scaled(problem):
            raise NotOneKernel("its operands are no narrow elements times scales")
        return problem
    problem = _without_unused(problem)
    if kind is Kind.ATTENTION:
        if attention_body(problem) is None:
            raise NotOneKernel("it is no softmax between two matrix products")
        return problem
    _check_reduction(problem, body)
    return problem


def draft(source: Source, target: Target, kind: Kind) -> Problem:
    """Return the Problem of matrix products, whatever their operands are."""
    return _drafted("draft", source, (target,), kind)[0]


def _drafted(name: str, source: Source, targets: tuple[Target, ...], kind: Kind) -> tuple[Problem, Body]:
    splits: dict[str, tuple[int, ...]] = {}
    while True:
        axes = Axes(splits, keeps_units=kind in OF_PRODUCTS, may_divide=kind is Kind.SCALED_IN_PLACE)
        names = {ref: tensor.name for ref, tensor in source.external.items()}
        try:
            body = Body(source.graph, axes, names, _PRODUCTS[kind])
            stores = _stores(body, targets)
            return _problem(name, source, body, targets, stores), body
        except AxisSplit as split:
            split_axis(splits, axes, split)
        except RecursionError:  # a value asks for its operands, and so a chain of operations nests calls
            nodes = source.graph.nodes
            raise ChainTooLongError(where=nodes[-1].where if nodes else None, count=len(nodes)) from None


def _stores(body: Body, targets: tuple[Target, ...]) -> dict[str, Store]:
    """Return the store of each target; the largest comes first, so that it gives the axes their order."""
    places: dict[str, Indices] = {}
    for target in sorted(targets, key=lambda t: -t.type.numel):
        label = "out" if not places else f"{target.name}:out"
        places[target.name] = body.alignment.stored_indices(target.ref, target.type.static_shape, label)
    stores = {}
    for target in targets:
        value = body.value(target.ref, places[target.name])
        if isinstance(value, Const):
            value = body.cast(value, compute_dtype(target.type.dtype))
        stores[target.name] = Store(value, Access(target.name, places[target.name]))
    return stores


def _problem(
    name: str, source: Source, body: Body, targets: tuple[Target, ...], stores: Mapping[str, Store]
) -> Problem:
    read = {s.access.tensor for s in body.statements if isinstance(s, Load | Gather)}
    updated = {t.name for t in targets if t.role is TensorRole.UPDATED}
    tensors = [
        ProblemTensor(i.name, i.type, TensorRole.UPDATED if i.name in updated else TensorRole.INPUT)
        for i in source.graph.inputs
        if i.name in read | updated
    ]
    tensors += [t for t in source.external.values() if t.name in read]
    tensors += [ProblemTensor(t.name, t.type, t.role) for t in targets if t.role is TensorRole.OUTPUT]
    axes = tuple(Axis(axis, extent) for axis, extent in body.axes.extents.items())
    return Problem(name, axes, tuple(tensors), (*body.statements, *stores.values()))


def _without_unused(problem: Problem) -> Problem:
    """Return the problem without statements, axes and inputs that no store needs."""
    needed: set[str] = set()
    kept: list[Statement] = []
    for statement in reversed(problem.body):
        if isinstance(statement, Store) or statement.result in needed:
            kept.append(statement)
            needed.update(operands_of(statement))
    body = tuple(reversed(kept))
    accesses = [s.access for s in body if isinstance(s, Load | Gather | Store)]
    used = {a for access in accesses for a in access.axes} | {s.axis for s in body if isinstance(s, Index)}
    read = {access.tensor for access in accesses}
    axes = tuple(a for a in problem.axes if a.name in used)
    return replace(problem, axes=axes, tensors=tuple(t for t in problem.tensors if t.name in read), body=body)


def _check_product(problem: Problem, count: int) -> None:
    """Require `count` matrix products of two loaded operands with pointwise operations around them, and one store."""
    problem = without_groups(problem)
    products = [s for s in problem.body if isinstance(s, Contract)]
    other = [s for s in problem.body if not isinstance(s, Load | Map | Contract | Store)]
    if len(products) != count or other or sum(isinstance(s, Store) for s in problem.body) != 1:
        raise NotOneKernel("it is more than one matrix product with one result")
    if count == 2:
        _check_gate(problem, *products)
    if any(isinstance(s, Load) and s.access.valid for s in problem.body):
        raise NotOneKernel("a matrix product reads no tensor inside bounds")


def _check_gate(problem: Problem, first: Contract, last: Contract) -> None:
    """Require two products that sum over the same axes and share the operand along which no row of the result runs."""
    shared = next((o for o in (first.lhs, first.rhs) if o in (last.lhs, last.rhs)), None)
    if shared is None or first.axes != last.axes:
        raise NotOneKernel("its matrix products share no operand")
    if any(isinstance(s, Contract) for p in (first, last) for o in (p.lhs, p.rhs) for s in problem.needed(o)):
        raise NotOneKernel("one of its matrix products is an operand of the other")
    along = {a for s in problem.needed(shared) if isinstance(s, Load) for a in s.access.axes}
    (store,) = (s for s in problem.body if isinstance(s, Store))
    strides = problem.tensor(store.access.tensor).type.strides
    rows = [i.axes for i, stride in zip(store.access.indices, strides, strict=True) if stride == 1]
    if any(along.intersection(axes) for axes in rows):
        raise NotOneKernel("its rows run along the operand that its matrix products share")


def simple_operands(problem: Problem, *, paged: bool = False) -> dict[str, bool]:
    """Return whether each operand of a product is one loaded element with pointwise operations on it.

    With `paged` the element may be gathered by a table; groups of rows may pick it.
    """
    problem = without_groups(problem)

    def simple(value: str) -> bool:
        needed = problem.needed(value)
        loads = [s for s in needed if isinstance(s, Load)]
        steps = [c for s in loads for i in s.access.indices for _, c in i.terms]
        plain = all(isinstance(s, Load | Map) for s in needed) and all(c > 0 for c in steps)
        return plain and len(loads) == 1 and not loads[0].access.valid

    operands = [o for s in problem.body if isinstance(s, Contract) for o in (s.lhs, s.rhs)]
    return {o: simple(o) or (paged and paged_load(problem, o) is not None) for o in operands}


def updates_in_place(problem: Problem, name: str) -> bool:
    """Return whether a kernel may write an input: no other point, and no other store, may read what it overwrites."""
    (store,) = (s for s in problem.body if isinstance(s, Store) and s.access.tensor == name)
    reads = [s for s in problem.body if isinstance(s, Load | Gather) and s.access.tensor == name]
    if any(isinstance(s, Gather) or s.access.indices != store.access.indices for s in reads):
        return False
    if not reads or set(store.access.axes) == {a.name for a in problem.axes}:
        return True
    tainted = {s.result for s in reads}
    for statement in problem.body:
        if tainted.intersection(operands_of(statement)):
            if isinstance(statement, Store) and statement is not store:
                return False
            if not isinstance(statement, Store):
                tainted.add(statement.result)
    return True


def _check_reduction(problem: Problem, body: Body) -> None:
    """Require one set R of reduced axes; stores on the other axes K, on K and R, or on none; a reduction along K."""
    if any(isinstance(s, Contract) for s in problem.body):
        raise NotOneKernel("a matrix product has a kernel of its own")
    runs = {s.result: frozenset(s.axes) for s in problem.body if isinstance(s, Reduce)}
    runs |= {s.result: frozenset({s.axis}) for s in problem.body if isinstance(s, Scan)}
    if len(set(runs.values())) > 1:
        raise NotOneKernel("it reduces over different axes")
    reduced = next(iter(runs.values()), frozenset())
    stores = [s for s in problem.body if isinstance(s, Store)]
    used = frozenset().union(*(body.along[r] for r in runs), *(s.access.axes for s in stores))
    kept = used - reduced
    if any(frozenset(s.access.axes) not in (kept, kept | reduced, frozenset()) for s in stores):
        raise NotOneKernel("its results have different axes")
    empty = frozenset(a for a in used if body.axes.extents[a] == 0)
    if any(not empty <= frozenset(s.access.axes) for s in stores):
        raise NotOneKernel("it has no point at which to store a result that is not empty")
    if runs and all(body.along[r] - reduced != kept for r in runs):
        raise NotOneKernel("no reduction runs along all of its axes")
