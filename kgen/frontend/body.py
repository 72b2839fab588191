"""The body of a Problem, written backwards from what it stores: each value of the graph at each place it is needed.

A value is asked for at indices over the kernel's axes. Views only change the indices, so no view ever becomes a copy,
and elements that a later slice drops are never computed.
"""

from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, count

from kgen.errors.frontend import RandomOpError, UnsupportedOpError, UnsupportedViewError
from kgen.frontend.alignment import Alignment
from kgen.frontend.contractions import CONTRACTIONS
from kgen.frontend.expand.builder import CARRY, REDUCE, SCAN
from kgen.frontend.indices import Indices, NotAffineError, NotOneKernel
from kgen.frontend.joins import JOINS
from kgen.frontend.kernel_axes import Axes
from kgen.frontend.lookups import LOOKUPS, load
from kgen.frontend.pointwise import PointwiseCall
from kgen.frontend.pointwise_rules import POINTWISE
from kgen.frontend.products import Products, product
from kgen.frontend.reductions import reduction, scan
from kgen.frontend.views import pull_view, run_index, view_operand
from kgen.ir.access import Bound
from kgen.ir.dtype import DType
from kgen.ir.graph import Node, OpGraph, ValueRef
from kgen.ir.pointwise import PointwiseOp
from kgen.ir.problem import Const, Contract, Definition, Gather, Index, Load, Map, Operand, Reduce, Scan

_RANDOM = ("dropout", "native_dropout", "bernoulli", "rand", "randn", "rand_like", "randn_like", "multinomial")
_COVERED = (
    "covered: matrix products, pointwise operations, reductions, scans, norms, losses, index operations and views"
)


class Body:
    """Writes statements for the values that are asked for; asking twice gives the same value.

    `external` names the tensors that hold values which other kernels compute, `may_hold` says which matrix products
    the body may have.
    """

    def __init__(
        self,
        graph: OpGraph,
        axes: Axes,
        external: Mapping[ValueRef, str] | None = None,
        may_hold: Products = Products.ONE,
    ) -> None:
        self.graph = graph
        self.axes = axes
        self.external = external or {}
        self.statements: list[Definition] = []
        self.nodes = {n.name: n for n in graph.nodes}
        self.may_hold = may_hold
        through_products = may_hold is Products.CHAINED
        self.alignment = Alignment(graph, self.nodes, axes, self.external, through_products=through_products)
        self.values: dict[tuple[ValueRef, Indices, tuple[Bound, ...]], Operand] = {}
        self.results: dict[str, str] = {}
        self.dtypes: dict[str, DType] = {}
        self.along: dict[str, frozenset[str]] = {}
        self.places: dict[str, Indices] = {}
        self.products: list[Node] = []
        self.lookups: dict[str, Node] = {}
        self.valid: tuple[Bound, ...] = ()

    def shape(self, ref: ValueRef) -> tuple[int, ...]:
        """Return the shape of a value of the graph."""
        return self.graph.type_of(ref).static_shape

    def value(self, ref: ValueRef, indices: Indices) -> Operand:
        """Return the element of a graph value at the given indices, in the type it is carried in."""
        key = (ref, indices, self.valid)
        if key not in self.values:
            node = None if ref in self.external else self.nodes.get(ref.name)
            name = self.external.get(ref, ref.name)
            self.values[key] = (
                load(self, name, self.graph.type_of(ref).dtype, indices)
                if node is None
                else self.computed(node, ref, indices)
            )
        return self.values[key]

    def computed(self, node: Node, ref: ValueRef, indices: Indices) -> Operand:
        """Return a value that a node computes in this kernel."""
        if (operand := view_operand(node)) is not None:
            return self.value(operand, self.pulled(node, operand, ref.index, indices))
        if node.op in CONTRACTIONS:
            return product(self, node, indices)
        if (writer := _writer(node)) is not None:
            return writer(self, node, indices)
        if node.op in POINTWISE and ref.index == 0:
            names, defaults, rule = POINTWISE[node.op]
            return rule(PointwiseCall(self, node, names, defaults, indices))
        if node.op.split(".")[1] in _RANDOM:
            raise RandomOpError(where=node.where, op=node.op)
        raise UnsupportedOpError(where=node.where, op=node.op, place="in a kernel", covered=_COVERED)

    def pulled(self, node: Node, operand: ValueRef, result: int, indices: Indices) -> Indices:
        """Return the indices of a view's operand."""
        try:
            return pull_view(node, result, self.shape(operand), self.axes.known, indices)
        except NotAffineError as error:
            if self.axes.may_divide and (found := run_index(node, indices)) is not None:
                return found
            view = ValueRef(node.name, result)
            raise UnsupportedViewError(where=node.where, op=node.op, reason=str(error), view=view) from None

    def once(self, node: Node, indices: Indices) -> None:
        """Refuse to reduce or scan the same at a second place: its rows would be walked twice."""
        if self.places.setdefault(node.name, indices) != indices:
            raise NotOneKernel(f"{node.name} is needed at two places")

    @contextmanager
    def bounded(self, *bounds: Bound) -> Iterator[None]:
        """Read tensors inside these bounds only; outside them values are defined and mean nothing."""
        before = self.valid
        self.valid = tuple(dict.fromkeys((*before, *bounds)))
        try:
            yield
        finally:
            self.valid = before

    def varies(self, value: Operand) -> frozenset[str]:
        """Return the axes along which a value varies."""
        return frozenset() if isinstance(value, Const) else self.along[value]

    def cast(self, value: Operand, dtype: DType) -> str:
        """Return the value rounded to a type."""
        return self.map(PointwiseOp.CAST, (value,), dtype)

    def map(self, op: PointwiseOp, operands: tuple[Operand, ...], dtype: DType) -> str:
        """Return the result of a pointwise op computed in `dtype`."""
        return self.emit(Map("", op, operands, dtype), op.value)

    def emit(self, statement: Definition, wanted: str) -> str:
        """Append a statement under a fresh name, or return the name of an equal one."""
        key = str(statement)  # unlike equality, text tells 0.0 from -0.0
        if key in self.results:
            return self.results[key]
        name = free_name(wanted, self.dtypes)
        self.results[key] = name
        self.dtypes[name] = statement.dtype
        self.along[name] = self._along(statement)
        self.statements.append(replace(statement, result=name))
        return name

    def _along(self, statement: Definition) -> frozenset[str]:
        match statement:
            case Load(access=access):
                return frozenset(access.axes)
            case Gather(access=access, index=index):
                return frozenset(access.axes) | self.along[index]
            case Index(axis=axis):
                return frozenset({axis})
            case Contract(lhs=lhs, rhs=rhs, axes=axes):
                return (self.along[lhs] | self.along[rhs]) - set(axes)
            case Reduce(operand=operand, axes=axes):
                return self.along[operand] - set(axes)
            case Scan(operand=operand):
                return self.along[operand]
            case Map(operands=operands):
                return frozenset().union(*(self.varies(o) for o in operands))


def _carry(body: Body, node: Node, indices: Indices) -> Operand:
    operand = node.args[0]
    assert isinstance(operand, ValueRef)
    return body.value(operand, indices)


Writer = Callable[[Body, Node, Indices], Operand]
_WRITERS: dict[str, Writer] = {CARRY: _carry, **JOINS, **LOOKUPS}


def _writer(node: Node) -> Writer | None:
    if node.op.startswith(REDUCE):
        return reduction
    return scan if node.op.startswith(SCAN) else _WRITERS.get(node.op)


def free_name(wanted: str, taken: Container[str]) -> str:
    """Return the wanted name or, where that is taken, the first free one of `wanted_1`, `wanted_2`, ..."""
    return next(n for n in chain((wanted,), (f"{wanted}_{i}" for i in count(1))) if n not in taken)
