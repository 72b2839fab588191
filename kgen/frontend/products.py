"""Matrix products in a body: the operands at their labels' indices, one `Contract`, then scale and addend."""

from typing import TYPE_CHECKING

from kgen.errors.frontend import UnsupportedOpError, UnsupportedViewError
from kgen.frontend.contractions import Labels, Product, product_of
from kgen.frontend.indices import ZERO, Indices, NotOneKernel
from kgen.frontend.promotion import compute_dtype
from kgen.frontend.views import broadcast
from kgen.ir.access import Affine
from kgen.ir.graph import Node, ValueRef
from kgen.ir.pointwise import PointwiseOp
from kgen.ir.problem import Const, Contract, Operand

if TYPE_CHECKING:
    from kgen.frontend.body import Body

_COVERED = "covered: products that sum over an axis longer than one element"


def product(body: "Body", node: Node, indices: Indices) -> Operand:
    """Return an element of a matrix product."""
    if body.product is not None:
        raise NotOneKernel(
            "there are two matrix products" if body.product is not node else f"{node.name} is used twice"
        )
    body.product = node
    found = product_of(node, lambda ref: len(body.shape(ref)))
    bound, summed = _label_indices(body, node, found, indices)
    lhs = _operand(body, found.lhs, found.lhs_labels, bound)
    rhs = _operand(body, found.rhs, found.rhs_labels, bound)
    axes = _summed_axes(body, node, summed, (lhs, rhs))
    dtype = node.types[0].dtype
    result = body.emit(Contract("", lhs, rhs, axes, dtype.accumulator), "acc")
    if not dtype.is_float and dtype is not dtype.accumulator:
        result = body.cast(result, dtype)
    return _with_addend(body, found, node, result, indices)


def _label_indices(body: "Body", node: Node, found: Product, indices: Indices) -> tuple[dict[str, Affine], Labels]:
    """Return the index of every label, and the labels that are summed."""
    bound = dict(zip(found.result, indices, strict=True))
    summed = tuple(label for label in found.lhs_labels if label not in bound)
    extents = dict(zip(found.lhs_labels, body.shape(found.lhs), strict=True))
    for label in summed:
        bound[label] = body.axes.index(f"{node.name}:{label}", extents[label])
    return bound, summed


def _operand(body: "Body", ref: ValueRef, labels: Labels, bound: dict[str, Affine]) -> str:
    """Return an operand of the product in its torch dtype: the tensor core takes no wider one."""
    shape = body.shape(ref)
    indices = tuple(
        ZERO if extent == 1 and not _is_unit(body, bound[label]) else bound[label]
        for label, extent in zip(labels, shape, strict=True)
    )
    value = body.value(ref, indices)
    dtype = body.graph.type_of(ref).dtype
    if isinstance(value, Const) or body.dtypes[value] is not dtype:
        return body.cast(value, dtype)
    return value


def _is_unit(body: "Body", index: Affine) -> bool:
    """Return whether an index runs over one element, so that an operand of extent 1 is not broadcast along it."""
    return all(body.axes.extents[axis] == 1 for axis in index.axes)


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
