"""Matrix products in a body: the operands at their labels' indices, one `Contract`, then scale and addend."""

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING

from kgen.errors.frontend import UnsupportedOpError, UnsupportedViewError
from kgen.frontend.contractions import GROUP, Labels, Product, product_of
from kgen.frontend.grouped import group_index
from kgen.frontend.indices import ZERO, Indices, NotOneKernel
from kgen.frontend.kernel_axes import Axes
from kgen.frontend.promotion import compute_dtype
from kgen.frontend.views import broadcast
from kgen.ir.access import Affine
from kgen.ir.graph import Node, OpGraph, ValueRef
from kgen.ir.pointwise import PointwiseOp
from kgen.ir.problem import Const, Contract, Operand

if TYPE_CHECKING:
    from kgen.frontend.body import Body

_COVERED = "covered: products that sum over an axis longer than one element"


class Products(Enum):
    """Which matrix products a body may hold: one; two that sum over the same axes; or one of another one."""

    ONE = 1
    SIDE_BY_SIDE = 2
    CHAINED = 3

    @property
    def most(self) -> int:
        """How many they may be."""
        return 1 if self is Products.ONE else 2


def product(body: "Body", node: Node, indices: Indices) -> Operand:
    """Return an element of a matrix product."""
    side_by_side = body.may_hold is Products.SIDE_BY_SIDE
    if node in body.products and not side_by_side:
        raise NotOneKernel(f"{node.name} is used twice")
    if len(body.products) == body.may_hold.most:
        raise NotOneKernel("there are more matrix products than it may hold")
    body.products.append(node)
    found = product_of(node, lambda ref: len(body.shape(ref)))
    summed_by = body.products[0] if side_by_side else node
    group = {GROUP: group_index(body, summed_by, found, indices)} if found.ends else {}
    places = operand_places(node, found, body.graph, body.axes, indices, summed_by, group)
    lhs, rhs = (_operand(body, ref, where) for ref, where in places)
    axes = _summed_axes(body, summed_by, _summed(found), (lhs, rhs))
    dtype = node.types[0].dtype
    result = body.emit(Contract("", lhs, rhs, axes, dtype.accumulator), "acc")
    if not dtype.is_float and dtype is not dtype.accumulator:
        result = body.cast(result, dtype)
    return _with_addend(body, found, node, result, indices)


def operand_places(
    node: Node,
    found: Product,
    graph: OpGraph,
    axes: Axes,
    indices: Indices,
    summed_by: Node | None = None,
    known: Mapping[str, Affine] | None = None,
) -> tuple[tuple[ValueRef, Indices], tuple[ValueRef, Indices]]:
    """Return the operands of a product at the indices of its labels; those of some may be `known`.

    Those that are summed bring axes of their own, or have those of the product `summed_by`, which sums as many.
    """
    bound = {**(known or {}), **dict(zip(found.result, indices, strict=True))}
    extents = dict(zip(found.lhs_labels, graph.type_of(found.lhs).static_shape, strict=True))
    for label in _summed(found):
        bound[label] = axes.index(f"{(summed_by or node).name}:{label}", extents[label])

    def place(ref: ValueRef, labels: Labels) -> tuple[ValueRef, Indices]:
        shape = graph.type_of(ref).static_shape
        pairs = zip(shape, (bound[label] for label in labels), strict=True)
        return ref, tuple(ZERO if extent == 1 and not _is_unit(axes, index) else index for extent, index in pairs)

    return place(found.lhs, found.lhs_labels), place(found.rhs, found.rhs_labels)


def _summed(found: Product) -> Labels:
    """Return the labels that a product sums over."""
    return tuple(label for label in found.lhs_labels if label not in found.result)


def _operand(body: "Body", ref: ValueRef, indices: Indices) -> str:
    """Return an operand of the product in its torch dtype: the tensor core takes no wider one."""
    value = body.value(ref, indices)
    dtype = body.graph.type_of(ref).dtype
    if isinstance(value, Const) or body.dtypes[value] is not dtype:
        return body.cast(value, dtype)
    return value


def _is_unit(axes: Axes, index: Affine) -> bool:
    """Return whether an index runs over one element, so that an operand of extent 1 is not broadcast along it."""
    return all(axes.known[axis] == 1 for axis in index.axes)


def _summed_axes(body: "Body", node: Node, summed: Labels, operands: tuple[str, str]) -> tuple[str, ...]:
    roots = [f"{node.name}:{label}" for label in summed]
    axes = [a for a in body.axes.extents if a in roots or a.rpartition(".")[0] in roots]
    kept = []
    for axis in axes:
        if all(axis in body.varies(operand) for operand in operands):
            kept.append(axis)
        elif body.axes.extents[axis] != 1:
            reason = "an operand is expanded along the summed axis"
            raise UnsupportedViewError(where=node.where, op=node.op, reason=reason)
    if not kept:
        raise UnsupportedOpError(where=node.where, op=node.op, place="as an outer product", covered=_COVERED)
    return tuple(kept)


def _with_addend(body: "Body", found: Product, node: Node, result: str, indices: Indices) -> str:
    compute = compute_dtype(node.types[0].dtype)
    if found.alpha != 1:
        result = body.map(PointwiseOp.MUL, (result, Const(found.alpha)), compute)
    if found.addend is None or found.beta == 0:
        return result
    where = broadcast(body.shape(found.addend), node.types[0].static_shape, indices)
    addend = body.value(found.addend, where)
    if found.beta != 1:
        addend = body.map(PointwiseOp.MUL, (addend, Const(found.beta)), compute)
    return body.map(PointwiseOp.ADD, (result, addend), compute)
