"""Views: each maps the indices of its result to indices of its operand, so that no view is ever a copy."""

from collections.abc import Callable, Mapping

from kgen.frontend.bind import Call, bind
from kgen.frontend.indices import ZERO, Indices, Reshape, add, divide, scale
from kgen.ir.access import Affine
from kgen.ir.graph import Node, ValueRef

Shape = tuple[int, ...]


class View:
    """What a view rule sees: the call, the shapes of operand and result, and the extents of the axes."""

    def __init__(self, call: Call, source: Shape, results: tuple[Shape, ...], extents: Mapping[str, int]) -> None:
        self.call, self.source, self.results, self.extents = call, source, results, extents

    def dim(self, name: str, default: int | None = None) -> int:
        """Return an argument that names an axis of the operand, counted from the front."""
        value = default if name not in self.call.args and default is not None else self.call.integer(name)
        return value % len(self.source) if self.source else 0


Rule = Callable[[View, Indices, int], Indices]


def view_operand(node: Node) -> ValueRef | None:
    """Return the operand of a view, or None if the node is no view that is known here."""
    if node.op not in VIEWS:
        return None
    operand = node.args[0]
    assert isinstance(operand, ValueRef)
    return operand


def pull_view(node: Node, index: int, source: Shape, extents: Mapping[str, int], indices: Indices) -> Indices:
    """Return the indices of the view's operand for the given indices of its result number `index`."""
    names, rule = VIEWS[node.op]
    view = View(bind(node, names), source, tuple(t.static_shape for t in node.types), extents)
    return rule(view, indices, index)


def run_index(node: Node, indices: Indices) -> Indices | None:
    """Return the indices of the operand of a view that repeats each element, one of them over runs of an axis."""
    if node.op != "aten.repeat_interleave.self_int":
        return None
    view = View(bind(node, VIEWS[node.op][0]), node.types[0].static_shape, (), {})
    dim = view.dim("dim")
    if (axis := indices[dim].axis) is None:
        return None
    return _with(indices, dim, Affine(((axis, 1),), divisor=view.call.integer("repeats")))


def _same(view: View, indices: Indices, result: int) -> Indices:
    return indices


def _reshape(view: View, indices: Indices, result: int) -> Indices:
    return Reshape(view.source, view.results[result], view.extents).pull(indices)


def _permuted(order: tuple[int, ...], indices: Indices) -> Indices:
    """Return operand indices where result axis i is operand axis `order[i]`."""
    found = [ZERO] * len(order)
    for position, axis in enumerate(order):
        found[axis % len(order)] = indices[position]
    return tuple(found)


def _permute(view: View, indices: Indices, result: int) -> Indices:
    return _permuted(view.call.integers("dims"), indices)


def _transpose(view: View, indices: Indices, result: int) -> Indices:
    order = list(range(len(indices)))
    if order:
        a, b = view.dim("dim0"), view.dim("dim1")
        order[a], order[b] = order[b], order[a]
    return _permuted(tuple(order), indices)


def _reversed(view: View, indices: Indices, result: int) -> Indices:
    return indices[::-1]


def _last_two(view: View, indices: Indices, result: int) -> Indices:
    return (*indices[:-2], indices[-1], indices[-2])


def _movedim(view: View, indices: Indices, result: int) -> Indices:
    rank = len(indices)
    moved = [d % rank for d in view.call.integers("source")]
    places = [d % rank for d in view.call.integers("destination")]
    order = [-1] * rank
    for axis, place in zip(moved, places, strict=True):
        order[place] = axis
    rest = iter(axis for axis in range(rank) if axis not in moved)
    return _permuted(tuple(next(rest) if axis < 0 else axis for axis in order), indices)


def _expand(view: View, indices: Indices, result: int) -> Indices:
    return broadcast(view.source, view.results[result], indices)


def broadcast(source: Shape, target: Shape, indices: Indices) -> Indices:
    """Return indices into a tensor of shape `source` that is broadcast to `target`."""
    kept = len(target) - len(source)
    pairs = zip(source, target[kept:], indices[kept:], strict=True)
    return tuple(index if extent == wanted else ZERO for extent, wanted, index in pairs)


def _with(indices: Indices, dim: int, index: Affine) -> Indices:
    return (*indices[:dim], index, *indices[dim + 1 :])


def _slice(view: View, indices: Indices, result: int) -> Indices:
    dim = view.dim("dim", 0)
    start, step = view.call.args.get("start") or 0, view.call.args.get("step") or 1
    assert isinstance(start, int) and isinstance(step, int)
    extent = view.source[dim]
    first = min(max(start + extent if start < 0 else start, 0), extent)
    return _with(indices, dim, add(scale(indices[dim], step), offset=first))


def _narrow(view: View, indices: Indices, result: int) -> Indices:
    dim = view.dim("dim")
    start = view.call.integer("start") % max(view.source[dim], 1)
    return _with(indices, dim, add(indices[dim], offset=start))


def _select(view: View, indices: Indices, result: int) -> Indices:
    dim = view.dim("dim")
    return (*indices[:dim], Affine((), view.call.integer("index") % view.source[dim]), *indices[dim:])


def _unbind(view: View, indices: Indices, result: int) -> Indices:
    dim = view.dim("dim", 0)
    return (*indices[:dim], Affine((), result), *indices[dim:])


def _split(view: View, indices: Indices, result: int) -> Indices:
    dim = view.dim("dim", 0)
    first = sum(shape[dim] for shape in view.results[:result])
    return _with(indices, dim, add(indices[dim], offset=first))


def _flip(view: View, indices: Indices, result: int) -> Indices:
    found = indices
    for dim in view.call.integers("dims"):
        dim %= max(len(indices), 1)
        found = _with(found, dim, add(scale(found[dim], -1), offset=view.source[dim] - 1))
    return found


def _repeat(view: View, indices: Indices, result: int) -> Indices:
    """Every axis runs through the operand's several times; axes in front are new."""
    kept = indices[len(indices) - len(view.source) :]
    return tuple(divide(i, max(n, 1), view.extents)[1] for i, n in zip(kept, view.source, strict=True))


def _repeat_each(view: View, indices: Indices, result: int) -> Indices:
    dim = view.dim("dim")
    return _with(indices, dim, divide(indices[dim], view.call.integer("repeats"), view.extents)[0])


def _diagonal(view: View, indices: Indices, result: int) -> Indices:
    offset, rank = view.call.args.get("offset") or 0, len(view.source)
    assert isinstance(offset, int)
    one, other = view.dim("dim1", 0), view.dim("dim2", 1)
    rest = iter(indices[:-1])
    along = {one: add(indices[-1], offset=max(-offset, 0)), other: add(indices[-1], offset=max(offset, 0))}
    return tuple(along[d] if d in along else next(rest) for d in range(rank))


def _table(names: str, rule: Rule, *ops: str) -> dict[str, tuple[str, Rule]]:
    return {f"aten.{op}": (names, rule) for op in ops}


VIEWS: dict[str, tuple[str, Rule]] = {
    **_table("self", _same, "clone.default", "contiguous.default", "detach.default", "alias.default"),
    **_table("self", _same, "lift_fresh_copy.default", "lift_fresh.default", "positive.default"),
    **_table("self", _reshape, "view.default", "reshape.default", "_unsafe_view.default", "flatten.using_ints"),
    **_table("self", _reshape, "unflatten.int", "view_as.default", "reshape_as.default", "unsqueeze.default"),
    **_table("self", _reshape, "squeeze.default", "squeeze.dim", "squeeze.dims", "ravel.default"),
    **_table("self", _reversed, "t.default", "numpy_T.default"),
    **_table("self", _last_two, "mT.default", "adjoint.default", "mH.default"),
    **_table("self dim0 dim1", _transpose, "transpose.int", "swapaxes.default", "swapdims.default"),
    **_table("self dims", _permute, "permute.default"),
    **_table("self source destination", _movedim, "movedim.int", "movedim.intlist", "moveaxis.int", "moveaxis.intlist"),
    **_table("self", _expand, "expand.default", "expand_as.default", "broadcast_to.default"),
    **_table("self dim start end step", _slice, "slice.Tensor"),
    **_table("self dim start length", _narrow, "narrow.default"),
    **_table("self dim index", _select, "select.int"),
    **_table("self dim", _unbind, "unbind.int"),
    **_table("self size dim", _split, "split.Tensor", "split_with_sizes.default", "split.sizes", "chunk.default"),
    **_table("self size dim", _split, "unsafe_split.Tensor", "unsafe_chunk.default", "tensor_split.sections"),
    **_table("self size dim", _split, "tensor_split.indices"),
    **_table("self dims", _flip, "flip.default"),
    **_table("self repeats", _repeat, "repeat.default", "tile.default"),
    **_table("self repeats dim", _repeat_each, "repeat_interleave.self_int"),
    **_table("self offset dim1 dim2", _diagonal, "diagonal.default"),
}
