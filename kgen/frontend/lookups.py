"""Reads of tensors: plain loads, and gathers where an index is itself a value.

A value that serves as an index is an axis of its own kind in the index arithmetic (`@value`), so that views and
pointwise operations on what is gathered need no rules of their own.
"""

from typing import TYPE_CHECKING

from kgen.errors.frontend import UnsupportedOpError
from kgen.frontend.bind import Call, bind
from kgen.frontend.indices import ZERO, Indices, NotOneKernel, add
from kgen.frontend.promotion import compute_dtype
from kgen.frontend.views import broadcast, view_operand
from kgen.ir.access import Access, Affine
from kgen.ir.dtype import DType
from kgen.ir.graph import Node, ValueRef
from kgen.ir.pointwise import PointwiseOp as Op
from kgen.ir.problem import Const, Gather, Index, Load, Operand

if TYPE_CHECKING:
    from kgen.frontend.body import Body

_ONE_INDEX = "covered: one index tensor along one axis of a tensor, and index tensors that are torch.arange"


def load(body: "Body", name: str, dtype: DType, indices: Indices) -> str:
    """Return an element of a tensor in memory."""
    dynamic = [p for p, index in enumerate(indices) if any(a in body.axes.dynamic for a in index.axes)]
    if not dynamic:
        return body.emit(Load("", Access(name, indices, body.valid), dtype), f"{name}_value")
    position = dynamic[0]
    index = indices[position]
    terms = [(a, c) for a, c in index.terms if a in body.axes.dynamic]
    if len(dynamic) > 1 or len(terms) > 1:
        node = body.lookups[terms[0][0]]
        place = f"with two indices into {name}"
        raise UnsupportedOpError(where=node.where, op=node.op, place=place, covered=_ONE_INDEX)
    rest = Affine(tuple(t for t in index.terms if t not in terms), index.offset)
    (axis, step) = terms[0]
    value = axis.removeprefix("@")
    if step != 1:
        value = body.map(Op.MUL, (value, Const(step)), DType.INT64)
    access = Access(name, (*indices[:position], rest, *indices[position + 1 :]), body.valid)
    return body.emit(Gather("", access, position, value, dtype), f"{name}_value")


def index_value(body: "Body", index: Affine) -> Operand:
    """Return an index as an int64 value."""
    if index.divisor != 1:
        raise NotOneKernel(f"the index {index} is a value")
    total: Operand | None = None
    for axis, step in index.terms:
        part = axis.removeprefix("@") if axis in body.axes.dynamic else body.emit(Index("", axis), "index")
        part = part if step == 1 else body.map(Op.MUL, (part, Const(step)), DType.INT64)
        total = part if total is None else body.map(Op.ADD, (total, part), DType.INT64)
    if total is None:
        return Const(index.offset)
    return body.map(Op.ADD, (total, Const(index.offset)), DType.INT64) if index.offset else total


def _looked_up(
    body: "Body", node: Node, ref: ValueRef, indices: Indices, extent: int, *, wraps: bool = False
) -> Affine:
    """Return the index that an element of an index tensor is; negative ones count from the end if `wraps`."""
    if (plain := _counted(body, ref, indices)) is not None:
        return plain
    value = body.value(ref, indices)
    if isinstance(value, Const):
        return Affine((), int(value.value) % max(extent, 1))
    if body.dtypes[value] is not DType.INT64:
        value = body.cast(value, DType.INT64)
    if wraps:
        wrapped = body.map(Op.ADD, (value, Const(extent)), DType.INT64)
        value = body.map(Op.WHERE, (body.map(Op.LT, (value, Const(0)), DType.BOOL), wrapped, value), DType.INT64)
    return index_by(body, node, value, extent)


def index_by(body: "Body", node: Node, value: str, extent: int) -> Affine:
    """Return the index that a value is, of one of `extent` elements; `node` is what picks by it."""
    name = f"@{value}"
    body.axes.dynamic[name] = extent
    body.lookups[name] = node
    return Affine.of(name)


def _counted(body: "Body", ref: ValueRef, indices: Indices) -> Affine | None:
    """Return the element of an index tensor that only counts, as torch.arange does, if it is one."""
    node = None if ref in body.external else body.nodes.get(ref.name)
    if node is None:
        return None
    if (operand := view_operand(node)) is not None:
        return _counted(body, operand, body.pulled(node, operand, ref.index, indices))
    if node.op not in ("aten.arange.default", "aten.arange.start", "aten.arange.start_step"):
        return None
    start, step = _counting(node)
    if not isinstance(start, int) or not isinstance(step, int) or start < 0 or step < 0:
        return None
    return Affine(tuple((a, c * step) for a, c in indices[0].terms), indices[0].offset * step + start)


def _counting(node: Node) -> tuple[int | float, int | float]:
    names = "end" if node.op == "aten.arange.default" else "start end step"
    args = bind(node, names, start=0, step=1).args
    start, step = args["start"], args["step"]
    assert isinstance(start, int | float) and isinstance(step, int | float)
    return start, step


def _arange(body: "Body", node: Node, indices: Indices) -> Operand:
    start, step = _counting(node)
    dtype = node.types[0].dtype
    if not dtype.is_float and isinstance(start, int) and isinstance(step, int):
        (index,) = indices
        value = index_value(body, Affine(tuple((a, c * step) for a, c in index.terms), index.offset * step + start))
        return value if dtype is DType.INT64 or isinstance(value, Const) else body.cast(value, dtype)
    value = body.cast(index_value(body, indices[0]), DType.FP32)
    scaled = body.map(Op.MUL, (value, Const(float(step))), DType.FP32)
    return body.map(Op.ADD, (scaled, Const(float(start))), DType.FP32)


def _gather(body: "Body", node: Node, indices: Indices) -> Operand:
    call = bind(node, "self dim index")
    return _along(body, call, call.ref("index"), call.integer("dim"), indices)


def _take_along(body: "Body", node: Node, indices: Indices) -> Operand:
    call = bind(node, "self indices dim", dim=None)
    if call.args["dim"] is None:
        raise UnsupportedOpError(where=node.where, op=node.op, place="without dim", covered="covered: with dim")
    return _along(body, call, call.ref("indices"), call.integer("dim"), indices)


def _along(body: "Body", call: Call, index: ValueRef, dim: int, indices: Indices) -> Operand:
    source = call.ref("self")
    shape = body.shape(source)
    dim %= max(len(shape), 1)
    found = _looked_up(
        body, call.node, index, broadcast(body.shape(index), call.node.types[0].static_shape, indices), shape[dim]
    )
    places = (*indices[:dim], found, *indices[dim + 1 :])
    return body.value(source, tuple(ZERO if e == 1 else p for e, p in zip(shape, places, strict=True)))


def _index_select(body: "Body", node: Node, indices: Indices) -> Operand:
    call = bind(node, "self dim index")
    source, dim = call.ref("self"), call.integer("dim") % max(len(indices), 1)
    index = call.ref("index")
    where = (indices[dim],) if body.shape(index) else ()
    found = _looked_up(body, node, index, where, body.shape(source)[dim])
    return body.value(source, (*indices[:dim], found, *indices[dim + 1 :]))


def _embedding(body: "Body", node: Node, indices: Indices) -> Operand:
    call = bind(node, "weight indices")
    weight = call.ref("weight")
    found = _looked_up(body, node, call.ref("indices"), indices[:-1], body.shape(weight)[0])
    return body.value(weight, (found, indices[-1]))


def _index(body: "Body", node: Node, indices: Indices) -> Operand:
    """Indexing with tensors: their joint axes stand where they stood if they are neighbours, else in front."""
    call = bind(node, "self indices")
    source, given = call.ref("self"), call.args["indices"]
    assert isinstance(given, tuple)
    shape = body.shape(source)
    refs = {d: r for d, r in enumerate(given) if isinstance(r, ValueRef)}
    if any(body.graph.type_of(r).dtype is DType.BOOL for r in refs.values()):
        raise UnsupportedOpError(where=node.where, op=node.op, place="with a mask", covered="use torch.where")
    result = node.types[0].static_shape
    joint = len(result) - (len(shape) - len(refs))
    dims = sorted(refs)
    start = dims[0] if dims == list(range(dims[0], dims[-1] + 1)) else 0
    picked, around = indices[start : start + joint], [*indices[:start], *indices[start + joint :]]
    target = result[start : start + joint]
    found = []
    for d, extent in enumerate(shape):
        if d in refs:
            where = broadcast(body.shape(refs[d]), target, picked)
            found.append(_looked_up(body, node, refs[d], where, extent, wraps=True))
        else:
            found.append(around.pop(0))
    return body.value(source, tuple(found))


def _one_hot(body: "Body", node: Node, indices: Indices) -> Operand:
    call = bind(node, "self num_classes")
    value = body.value(call.ref("self"), indices[:-1])
    same = body.map(Op.EQ, (value, index_value(body, indices[-1])), DType.BOOL)
    return body.cast(same, DType.INT64)


def _eye(body: "Body", node: Node, indices: Indices) -> Operand:
    row, column = indices
    same = body.map(Op.EQ, (index_value(body, row), index_value(body, column)), DType.BOOL)
    return body.cast(same, node.types[0].dtype)


def triangle(body: "Body", node: Node, indices: Indices, op: Op) -> Operand:
    """Return a triangular part: `op` compares column - row with the diagonal."""
    call = bind(node, "self diagonal", diagonal=0)
    value = body.value(call.ref("self"), indices)
    row, column = indices[-2:]
    diagonal = add(row, offset=call.integer("diagonal"))
    inside = body.map(op, (index_value(body, column), index_value(body, diagonal)), DType.BOOL)
    dtype = body.dtypes[value] if isinstance(value, str) else node.types[0].dtype
    compute = compute_dtype(dtype)
    zero = Const(0.0 if compute.is_float else 0)
    return body.map(Op.WHERE, (inside, value, zero), compute)


GATHERS = {
    "aten.gather.default": _gather,
    "aten.take_along_dim.default": _take_along,
    "aten.index_select.default": _index_select,
    "aten.embedding.default": _embedding,
    "aten.index.Tensor": _index,
}
LOOKUPS = {
    **GATHERS,
    **dict.fromkeys(("aten.arange.default", "aten.arange.start", "aten.arange.start_step"), _arange),
    "aten.one_hot.default": _one_hot,
    "aten.eye.default": _eye,
    "aten.eye.m": _eye,
    "aten.tril.default": lambda body, node, indices: triangle(body, node, indices, Op.LE),
    "aten.triu.default": lambda body, node, indices: triangle(body, node, indices, Op.GE),
}
