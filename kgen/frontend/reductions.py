"""Reductions and scans in a body."""

from math import inf, prod
from typing import TYPE_CHECKING

from kgen.errors.frontend import UnsupportedOpError
from kgen.frontend.indices import Indices, NotOneKernel
from kgen.frontend.joins import inside, leaving
from kgen.frontend.promotion import compute_dtype
from kgen.ir.dtype import DType
from kgen.ir.graph import Node, ValueRef
from kgen.ir.pointwise import PointwiseOp as Op
from kgen.ir.problem import Combine, Const, Operand, Reduce, Scan

if TYPE_CHECKING:
    from kgen.frontend.body import Body

_EMPTY: dict[Combine, float | bool] = {
    Combine.SUM: 0,
    Combine.PROD: 1,
    Combine.MAX: -inf,
    Combine.MIN: inf,
    Combine.M2: 0,
    Combine.ANY: False,
    Combine.ALL: True,
}
_ARGS = (Combine.ARGMAX, Combine.ARGMIN)
_COVERED = "covered: operands that vary along the axis"


def accumulator(node: Node) -> DType:
    """Return the type in which a reduction or scan accumulates."""
    return compute_dtype(node.types[0].dtype)


def reduction(body: "Body", node: Node, indices: Indices) -> Operand:
    """Return an element of a reduction: one `Reduce` over the axes that its operand varies along."""
    combine = Combine(node.op.rpartition(".")[2])
    operand, dims = node.args
    assert isinstance(operand, ValueRef) and isinstance(dims, tuple)
    dtype, shape = accumulator(node), body.shape(operand)
    if any(shape[d] == 0 for d in dims if isinstance(d, int)):
        return _identity(combine, dtype)
    body.once(node, indices)
    reduced = body.alignment.reduced_indices(node, indices)
    value = body.value(operand, body.alignment.full_indices(node, indices))
    axes = tuple(a for index in reduced for a in index.axes)
    varying = tuple(a for a in axes if a in body.varies(value))
    if combine in _ARGS and varying and varying != axes:
        covered = "covered: operands that vary along all the reduced axes, or along none"
        raise UnsupportedOpError(where=node.where, op=node.op, place="on an expanded operand", covered=covered)
    if varying:
        assert isinstance(value, str)
        result: Operand = body.emit(Reduce("", combine, value, varying, dtype), combine.value)
    else:
        result = _of_one(body, combine, value, dtype)
    return _repeated(body, combine, result, dtype, prod(body.axes.extents[a] for a in axes if a not in varying))


def _identity(combine: Combine, dtype: DType) -> Const:
    """Return the reduction of no elements."""
    value = _EMPTY[combine]
    return Const(float(value) if dtype.is_float else value)


def _of_one(body: "Body", combine: Combine, value: Operand, dtype: DType) -> Operand:
    """Return the reduction of a single element; NaN and infinities stay what they are in torch."""
    if combine in _ARGS:
        return Const(0)
    if combine is Combine.M2:
        difference = body.map(Op.SUB, (value, value), dtype)
        return body.map(Op.MUL, (difference, difference), dtype)
    same = isinstance(value, Const) or body.dtypes[value] is dtype
    return value if same else body.cast(value, dtype)


def _repeated(body: "Body", combine: Combine, value: Operand, dtype: DType, times: int) -> Operand:
    """Return the reduction of `times` copies of what a value was reduced from."""
    if times == 1 or combine not in (Combine.SUM, Combine.M2, Combine.PROD):
        return value
    number = Const(float(times) if dtype.is_float else times)
    return body.map(Op.POW if combine is Combine.PROD else Op.MUL, (value, number), dtype)


def scan(body: "Body", node: Node, indices: Indices) -> Operand:
    """Return an element of a scan.

    At an index that runs backwards it is a scan from the end; at one that lags behind, a scan of what lags behind, with
    nothing before the first element.
    """
    combine = Combine(node.op.rpartition(".")[2])
    operand, dim = node.args
    assert isinstance(operand, ValueRef) and isinstance(dim, int)
    dtype, extent, index = accumulator(node), body.shape(operand)[dim], indices[dim]
    if extent <= 1:
        return _of_one(body, combine, body.value(operand, indices), dtype)
    (axis, step) = index.terms[0] if len(index.terms) == 1 else ("", 0)
    last = body.axes.extents.get(axis, 0) - 1
    if not last + 1 or index.offset > {1: 0, -1: last}.get(step, index.offset - 1):
        raise NotOneKernel(f"{node.name} is needed in another order than it runs in")
    body.once(node, indices)
    bounds = leaving(body, (index,), (extent,))
    with body.bounded(*bounds):
        value = body.value(operand, indices)
    if axis not in body.varies(value):
        raise UnsupportedOpError(where=node.where, op=node.op, place="on an expanded operand", covered=_COVERED)
    value = inside(body, node, bounds, value, _identity(combine, dtype))
    assert isinstance(value, str)
    return body.emit(Scan("", combine, value, axis, step < 0, dtype), f"cum{combine.value}")
