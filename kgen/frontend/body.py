"""The body of a Problem, written backwards from the result: each value of the graph at each place it is needed.

A value is asked for at indices over the kernel's axes. Views only change the indices, so no view ever becomes a copy,
and elements that a later slice drops are never computed.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from itertools import chain, count

from kgen.errors.frontend import (
    RandomOpError,
    SecondContractionError,
    UnsupportedOpError,
    UnsupportedViewError,
)
from kgen.frontend.contractions import CONTRACTIONS, Labels, Product, product_of
from kgen.frontend.indices import ZERO, Indices, NotAffineError, add, scale
from kgen.frontend.pointwise import PointwiseCall
from kgen.frontend.pointwise_rules import POINTWISE
from kgen.frontend.promotion import compute_dtype
from kgen.frontend.views import broadcast, pull_view, view_operand
from kgen.ir.access import Access, Affine
from kgen.ir.dtype import DType
from kgen.ir.graph import Node, OpGraph, ValueRef
from kgen.ir.pointwise import PointwiseOp
from kgen.ir.problem import Const, Contract, Load, Map, Operand, Statement

_RANDOM = ("dropout", "native_dropout", "bernoulli", "rand", "randn", "rand_like", "randn_like", "multinomial")
_COVERED = (
    "covered: one matrix product in any spelling, views that strides can express, and pointwise operations on floats"
)


@dataclass(slots=True)
class Axes:
    """The axes of the iteration space: each tensor axis is one or, once it had to be split, several of them."""

    splits: Mapping[str, tuple[int, ...]]
    extents: dict[str, int] = field(default_factory=dict)

    def index(self, root: str, extent: int) -> Affine:
        """Return the index of a tensor axis over its kernel axes, which are created at the first call."""
        factors = self.splits.get(root, (extent,))
        total = ZERO
        for position, factor in enumerate(factors):
            name = root if len(factors) == 1 else f"{root}.{position}"
            self.extents[name] = factor
            total = add(scale(total, factor), Affine.of(name))
        return total


class Body:
    """Writes statements for the values that are asked for; asking twice gives the same value."""

    def __init__(self, graph: OpGraph, axes: Axes) -> None:
        self.graph = graph
        self.axes = axes
        self.statements: list[Statement] = []
        self.nodes = {n.name: n for n in graph.nodes}
        self.same = _duplicates(graph)
        self.values: dict[tuple[ValueRef, Indices], Operand] = {}
        self.results: dict[str, str] = {}
        self.dtypes: dict[str, DType] = {}
        self.product: Node | None = None

    def shape(self, ref: ValueRef) -> tuple[int, ...]:
        """Return the shape of a value of the graph."""
        return self.graph.type_of(ref).static_shape

    def value(self, ref: ValueRef, indices: Indices) -> Operand:
        """Return the element of a graph value at the given indices, in the type it is carried in."""
        ref = ValueRef(self.same.get(ref.name, ref.name), ref.index)
        key = (ref, indices)
        if key not in self.values:
            node = self.nodes.get(ref.name)
            self.values[key] = self.load(ref.name, indices) if node is None else self.computed(node, ref, indices)
        return self.values[key]

    def load(self, name: str, indices: Indices) -> str:
        dtype = self.graph.type_of(ValueRef(name)).dtype
        return self.emit(Load("", Access(name, indices), dtype), f"{name}_value")

    def computed(self, node: Node, ref: ValueRef, indices: Indices) -> Operand:
        if (operand := view_operand(node)) is not None:
            try:
                inner = pull_view(node, ref.index, self.shape(operand), self.axes.extents, indices)
            except NotAffineError as error:
                raise UnsupportedViewError(where=node.where, op=node.op, reason=str(error)) from None
            return self.value(operand, inner)
        if node.op in CONTRACTIONS:
            return self.contraction(node, indices)
        if node.op in POINTWISE and ref.index == 0:
            names, defaults, rule = POINTWISE[node.op]
            return rule(PointwiseCall(self, node, names, defaults, indices))
        if node.op.split(".")[1] in _RANDOM:
            raise RandomOpError(where=node.where, op=node.op)
        raise UnsupportedOpError(where=node.where, op=node.op, place="in a kernel", covered=_COVERED)

    def contraction(self, node: Node, indices: Indices) -> str:
        if self.product is not None:
            raise self.second_product(self.product, node)
        self.product = node
        product = product_of(node, lambda ref: len(self.shape(ref)))
        bound, summed = self.label_indices(node, product, indices)
        lhs = self.operand(product.lhs, product.lhs_labels, bound)
        rhs = self.operand(product.rhs, product.rhs_labels, bound)
        axes = self.summed_axes(node, summed, (lhs, rhs))
        dtype = node.types[0].dtype
        result = self.emit(Contract("", lhs, rhs, axes, dtype.accumulator), "acc")
        if not dtype.is_float and dtype is not dtype.accumulator:
            result = self.cast(result, dtype)
        return self.with_addend(product, node, result, indices)

    def second_product(self, one: Node, other: Node) -> SecondContractionError:
        """Return the refusal of two products, or of one that is needed at two places of its result."""
        first, second = sorted((one, other), key=self.graph.nodes.index)
        line = first.where.line if first.where else 0
        what = f"the one in line {line}" if first is not second else "the same at other places of its result"
        return SecondContractionError(where=second.where, op=second.op, first=what)

    def label_indices(self, node: Node, product: Product, indices: Indices) -> tuple[dict[str, Affine], Labels]:
        """Return the index of every label, and the labels that are summed."""
        bound = dict(zip(product.result, indices, strict=True))
        summed = tuple(label for label in product.lhs_labels if label not in bound)
        extents = dict(zip(product.lhs_labels, self.shape(product.lhs), strict=True))
        for label in summed:
            bound[label] = self.axes.index(f"{node.name}:{label}", extents[label])
        return bound, summed

    def operand(self, ref: ValueRef, labels: Labels, bound: dict[str, Affine]) -> str:
        """Return an operand of the product in its torch dtype: the tensor core takes no wider one."""
        shape = self.shape(ref)
        indices = tuple(
            ZERO if extent == 1 and not self.is_unit(bound[label]) else bound[label]
            for label, extent in zip(labels, shape, strict=True)
        )
        value = self.value(ref, indices)
        dtype = self.graph.type_of(ref).dtype
        if isinstance(value, Const) or self.dtypes[value] is not dtype:
            return self.cast(value, dtype)
        return value

    def is_unit(self, index: Affine) -> bool:
        """Whether an index runs over one element, so that an operand of extent 1 is not broadcast along it."""
        return all(self.axes.extents[axis] == 1 for axis in index.axes)

    def summed_axes(self, node: Node, summed: Labels, operands: tuple[str, str]) -> tuple[str, ...]:
        roots = [f"{node.name}:{label}" for label in summed]
        axes = [a for a in self.axes.extents if a in roots or a.rpartition(".")[0] in roots]
        kept = []
        for axis in axes:
            if all(axis in self.varies(operand) for operand in operands):
                kept.append(axis)
            elif self.axes.extents[axis] != 1:
                reason = "an operand is expanded along the summed axis"
                raise UnsupportedViewError(where=node.where, op=node.op, reason=reason)
        if not kept:
            raise UnsupportedOpError(where=node.where, op=node.op, place="as an outer product", covered=_COVERED)
        return tuple(kept)

    def varies(self, value: str) -> set[str]:
        """Return the axes along which a value varies."""
        wanted, found = {value}, set[str]()
        for statement in reversed(self.statements):  # a use stands after its definition, so one walk meets them all
            match statement:
                case Load(result=result, access=access) if result in wanted:
                    found.update(access.axes)
                case Map(result=result, operands=operands) if result in wanted:
                    wanted.update(o for o in operands if isinstance(o, str))
        return found

    def with_addend(self, product: Product, node: Node, result: str, indices: Indices) -> str:
        compute = compute_dtype(node.types[0].dtype)
        if product.alpha != 1:
            result = self.map(PointwiseOp.MUL, (result, Const(product.alpha)), compute)
        if product.addend is None or product.beta == 0:
            return result
        where = broadcast(self.shape(product.addend), node.types[0].static_shape, indices)
        addend = self.value(product.addend, where)
        if product.beta != 1:
            addend = self.map(PointwiseOp.MUL, (addend, Const(product.beta)), compute)
        return self.map(PointwiseOp.ADD, (result, addend), compute)

    def cast(self, value: Operand, dtype: DType) -> str:
        """Return the value rounded to a type."""
        return self.map(PointwiseOp.CAST, (value,), dtype)

    def map(self, op: PointwiseOp, operands: tuple[Operand, ...], dtype: DType) -> str:
        """Return the result of a pointwise op computed in `dtype`."""
        return self.emit(Map("", op, operands, dtype), op.value)

    def emit(self, statement: Load | Contract | Map, wanted: str) -> str:
        """Append a statement under a fresh name, or return the name of an equal one."""
        key = str(statement)  # unlike equality, text tells 0.0 from -0.0
        if key in self.results:
            return self.results[key]
        name = free_name(wanted, self.dtypes)
        self.results[key] = name
        self.dtypes[name] = statement.dtype
        self.statements.append(_named(statement, name))
        return name


def free_name(wanted: str, taken: Container[str]) -> str:
    """Return the wanted name or, where that is taken, the first free one of `wanted_1`, `wanted_2`, ..."""
    return next(n for n in chain((wanted,), (f"{wanted}_{i}" for i in count(1))) if n not in taken)


def _named(statement: Load | Contract | Map, name: str) -> Statement:
    match statement:
        case Load(access=access, dtype=dtype):
            return Load(name, access, dtype)
        case Contract(lhs=lhs, rhs=rhs, axes=axes, dtype=dtype):
            return Contract(name, lhs, rhs, axes, dtype)
        case Map(op=op, operands=operands, dtype=dtype):
            return Map(name, op, operands, dtype)


def _duplicates(graph: OpGraph) -> dict[str, str]:
    """Return, for each node that repeats an earlier one, the earlier one's name."""
    first: dict[tuple[object, ...], str] = {}
    same: dict[str, str] = {}

    def canonical(argument: object) -> object:
        if isinstance(argument, ValueRef):
            return ValueRef(same.get(argument.name, argument.name), argument.index)
        if isinstance(argument, tuple):
            return tuple(canonical(a) for a in argument)
        return repr(argument)  # 1, 1.0 and True are equal and not the same, as are 0.0 and -0.0

    for node in graph.nodes:
        kwargs = tuple((k, canonical(v)) for k, v in node.kwargs)
        key = (node.op, tuple(canonical(a) for a in node.args), kwargs)
        if first.setdefault(key, node.name) != node.name:
            same[node.name] = first[key]
    return same
