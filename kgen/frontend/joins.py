"""Concatenation, padding and writes into parts: values that come from one place here and from another there.

Two to four pieces of one size become an axis over the pieces, so that every load stays whole; other pieces are read
inside bounds. What is read outside of them is never used.
"""

from typing import TYPE_CHECKING

from kgen.errors.frontend import UnsupportedOpError
from kgen.frontend.bind import bind
from kgen.frontend.indices import ZERO, Indices, NotAffineError, add, divide, span
from kgen.frontend.lookups import index_value
from kgen.frontend.promotion import compute_dtype, rounded, widens
from kgen.ir.access import Affine, Bound
from kgen.ir.dtype import DType
from kgen.ir.graph import Node, ValueRef
from kgen.ir.pointwise import PointwiseOp as Op
from kgen.ir.problem import Const, Load, Operand

if TYPE_CHECKING:
    from kgen.frontend.body import Body

_MOST_EQUAL_PIECES = 4


def _cat(body: "Body", node: Node, indices: Indices) -> Operand:
    call = bind(node, "tensors dim", dim=0)
    refs = call.args["tensors"]
    assert isinstance(refs, tuple)
    rank = len(indices)
    pieces = [r for r in refs if isinstance(r, ValueRef) and len(body.shape(r)) == rank]
    dim = call.integer("dim") % rank
    sizes = [body.shape(r)[dim] for r in pieces]
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    least, most = span(indices[dim], body.axes.known)
    met = [(r, at, n) for r, at, n in zip(pieces, starts, sizes, strict=True) if n and at <= most and least < at + n]
    if len(met) == 1:
        ref, at, _ = met[0]
        return _piece(body, node, ref, _with(indices, dim, add(indices[dim], offset=-at)))
    if not met:
        return Const(0.0 if node.types[0].dtype.is_float else 0)
    if 2 <= len(met) <= _MOST_EQUAL_PIECES and len({n for *_, n in met}) == 1:
        found = _equal_pieces(body, node, indices, dim, met)
        if found is not None:
            return found
    return _bounded_pieces(body, node, indices, dim, met)


def _equal_pieces(
    body: "Body", node: Node, indices: Indices, dim: int, pieces: list[tuple[ValueRef, int, int]]
) -> Operand | None:
    """Return the choice among pieces by their number, or None if the index does not split into one."""
    _, first, size = pieces[0]
    try:
        number, inner = divide(add(indices[dim], offset=-first), size, body.axes.known)
    except NotAffineError:
        return None
    values = [_piece(body, node, ref, _with(indices, dim, inner)) for ref, _, _ in pieces]
    which, found = index_value(body, number), values[-1]
    for position in reversed(range(len(values) - 1)):
        here = body.map(Op.EQ, (which, Const(position)), DType.BOOL)
        found = _choose(body, node, here, values[position], found)
    return found


def _bounded_pieces(
    body: "Body", node: Node, indices: Indices, dim: int, pieces: list[tuple[ValueRef, int, int]]
) -> Operand:
    values = []
    for ref, at, size in pieces:
        index = add(indices[dim], offset=-at)
        with body.bounded(Bound(index, ZERO, Affine((), size))):
            values.append(_piece(body, node, ref, _with(indices, dim, index)))
    which, found = index_value(body, indices[dim]), values[-1]
    for position in reversed(range(len(values) - 1)):
        before = body.map(Op.LT, (which, Const(pieces[position + 1][1])), DType.BOOL)
        found = _choose(body, node, before, values[position], found)
    return found


def _piece(body: "Body", node: Node, ref: ValueRef, indices: Indices) -> Operand:
    """Return an element of a piece in the type of the whole."""
    value, source, target = body.value(ref, indices), body.graph.type_of(ref).dtype, node.types[0].dtype
    if isinstance(value, Const) or widens(source, target):
        return value
    return body.cast(value, target)


def _choose(body: "Body", node: Node, condition: Operand, yes: Operand, no: Operand) -> Operand:
    return body.map(Op.WHERE, (condition, yes, no), compute_dtype(node.types[0].dtype))


def _pad(body: "Body", node: Node, indices: Indices) -> Operand:
    call = bind(
        node, "self pad mode value" if node.op == "aten.pad.default" else "self pad value", mode="constant", value=0
    )
    if call.args["mode"] != "constant":
        place = f"with {call.args['mode']!r}"
        raise UnsupportedOpError(where=node.where, op=node.op, place=place, covered="covered: mode='constant'")
    source, pad = call.ref("self"), call.integers("pad")
    dtype = node.types[0].dtype
    number = rounded(call.number("value") if call.args["value"] is not None else 0.0, dtype, node.op, node.where)
    fill = Const(float(number) if dtype.is_float else number)
    before = {len(indices) - 1 - i: pad[2 * i] for i in range(len(pad) // 2)}
    moved = tuple(add(index, offset=-before.get(d, 0)) for d, index in enumerate(indices))
    bounds = leaving(body, moved, body.shape(source))
    with body.bounded(*bounds):
        value = body.value(source, moved)
    return inside(body, node, bounds, value, fill)


def leaving(body: "Body", indices: Indices, shape: tuple[int, ...]) -> tuple[Bound, ...]:
    """Return the bounds of a tensor that indices may leave."""
    found = []
    for index, extent in zip(indices, shape, strict=True):
        least, most = span(index, body.axes.known)
        if least < 0 or most >= extent:
            found.append(Bound(index, ZERO, Affine((), extent)))
    return tuple(found)


def inside(body: "Body", node: Node, bounds: tuple[Bound, ...], value: Operand, fill: Const) -> Operand:
    """Return the value inside the bounds and the number outside: by the load itself if that is all it takes."""
    if not bounds:
        return value
    definition = next((s for s in body.statements if s.result == value), None)
    if isinstance(definition, Load) and definition.access.valid == bounds:
        if fill.value == 0:
            return definition.result
        access = type(definition.access)(
            definition.access.tensor, definition.access.indices, bounds, float(fill.value), definition.access.gathered
        )
        return body.emit(Load("", access, definition.dtype), f"{access.tensor}_value")
    return _choose(body, node, _is_inside(body, bounds), value, fill)


def _is_inside(body: "Body", bounds: tuple[Bound, ...]) -> Operand:
    tests: list[str] = []
    for bound in bounds:
        index = index_value(body, bound.index)
        least, most = span(bound.index, body.axes.known)
        if least < bound.lo.offset:
            tests.append(body.map(Op.GE, (index, Const(bound.lo.offset)), DType.BOOL))
        if most >= bound.hi.offset:
            tests.append(body.map(Op.LT, (index, Const(bound.hi.offset)), DType.BOOL))
    found: Operand = tests[0]
    for test in tests[1:]:
        found = body.map(Op.LOGICAL_AND, (found, test), DType.BOOL)
    return found


def _slice_scatter(body: "Body", node: Node, indices: Indices) -> Operand:
    call = bind(node, "self src dim start end step", dim=0, start=None, end=None, step=1)
    if call.integer("step") != 1:
        raise UnsupportedOpError(where=node.where, op=node.op, place="with a step", covered="covered: step 1")
    source, extent = call.ref("src"), indices
    dim = call.integer("dim") % len(extent)
    size = node.types[0].static_shape[dim]
    start = call.integer("start") if call.args["start"] is not None else 0
    first = min(max(start + size if start < 0 else start, 0), size)
    return _written(body, node, source, indices, dim, first, body.shape(source)[dim])


def _select_scatter(body: "Body", node: Node, indices: Indices) -> Operand:
    call = bind(node, "self src dim index")
    dim = call.integer("dim") % len(indices)
    first = call.integer("index") % node.types[0].static_shape[dim]
    return _written(body, node, call.ref("src"), indices, dim, first, None)


def _written(
    body: "Body", node: Node, source: ValueRef, indices: Indices, dim: int, first: int, length: int | None
) -> Operand:
    """Return a value into which another is written from `first` on; without a length the other lacks the axis."""
    target = node.args[0]
    assert isinstance(target, ValueRef)
    index = add(indices[dim], offset=-first)
    bounds = leaving(body, (index,), (1 if length is None else length,))
    with body.bounded(*bounds):
        moved = _with(indices, dim, index) if length is not None else (*indices[:dim], *indices[dim + 1 :])
        value = _piece(body, node, source, moved)
    if not bounds:
        return value
    return _choose(body, node, _is_inside(body, bounds), value, body.value(target, indices))


def _with(indices: Indices, dim: int, index: Affine) -> Indices:
    return (*indices[:dim], index, *indices[dim + 1 :])


JOINS = {
    "aten.cat.default": _cat,
    "aten.concat.default": _cat,
    "aten.concatenate.default": _cat,
    "aten.pad.default": _pad,
    "aten.constant_pad_nd.default": _pad,
    "aten.slice_scatter.default": _slice_scatter,
    "aten.select_scatter.default": _select_scatter,
}
