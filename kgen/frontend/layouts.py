"""How a value lies in memory between two kernels: in the order in which a later reshape joins its axes.

Heads that attention leaves as (batch, heads, tokens, dim) and a projection reads as (batch, tokens, heads * dim) are
stored with the tokens before the heads, so that the projection sums over one row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kgen.frontend.indices import AxisSplit, Indices, NotAffineError, NotOneKernel
from kgen.frontend.kernel_axes import Axes, split_axis
from kgen.frontend.views import pull_view, view_operand
from kgen.ir.graph import Node, OpGraph, ValueRef
from kgen.ir.tensor import TensorType
from kgen.spec.model import ordered_strides

Views = Mapping[ValueRef, Sequence[Node]]


def views_of(graph: OpGraph) -> Views:
    """Return the views of each value."""
    found: dict[ValueRef, list[Node]] = {}
    for node in graph.nodes:
        if (operand := view_operand(node)) is not None:
            found.setdefault(operand, []).append(node)
    return found


def stored_type(graph: OpGraph, views: Views, ref: ValueRef) -> TensorType:
    """Return the type of the tensor that holds a value between two kernels: dense, in row-major order by default.

    Of several reshapes that join axes of the value, the first one decides.
    """
    type_ = graph.type_of(ref)
    order = _joined_order(graph, views, ref) or tuple(range(type_.rank))
    return replace(type_, strides=ordered_strides(type_.static_shape, order))


def _joined_order(graph: OpGraph, views: Views, ref: ValueRef) -> tuple[int, ...] | None:
    """Return the axes of a value, slowest first, in the order in which the first of its reshapes joins some."""
    numel = graph.type_of(ref).numel
    chains: list[tuple[Node, ...]] = [(node,) for node in views.get(ref, ())]
    while chains:
        chain = chains.pop(0)
        if numel == 0 or chain[-1].types[0].numel != numel or len(chain[-1].types) > 1:
            continue
        if (order := _order(graph, chain)) is not None:
            return order
        chains += [(*chain, node) for node in views.get(ValueRef(chain[-1].name), ())]
    return None


def _order(graph: OpGraph, chain: tuple[Node, ...]) -> tuple[int, ...] | None:
    """Return the axes of what is viewed in the order of the last view, if that has joined some of them."""
    splits: dict[str, tuple[int, ...]] = {}
    while True:
        axes = Axes(splits, keeps_units=False)
        indices = tuple(axes.index(str(d), e) for d, e in enumerate(chain[-1].types[0].static_shape))
        try:
            for node in reversed(chain):
                operand = view_operand(node)
                assert operand is not None
                indices = pull_view(node, 0, graph.type_of(operand).static_shape, axes.known, indices)
            break
        except AxisSplit as split:
            split_axis(splits, axes, split)
        except (NotAffineError, NotOneKernel):
            return None
    return _order_of(indices, axes)


def _order_of(indices: Indices, axes: Axes) -> tuple[int, ...] | None:
    """Return the axes that have these indices by where they stand among the axes of the view, slowest first.

    None if the view interleaves their parts, or joins none of them.
    """
    position = {axis: i for i, axis in enumerate(axes.extents)}
    runs: dict[int, list[int]] = {}
    owner: dict[str, int] = {}
    for dim, index in enumerate(indices):
        parts = [axis for axis, _ in sorted(index.terms, key=lambda term: -term[1])]
        runs[dim] = [position[axis] for axis in parts]
        owner |= dict.fromkeys(parts, dim)
        if parts and runs[dim] != list(range(runs[dim][0], runs[dim][0] + len(parts))):
            return None
    joined = [{owner[a] for a in axes.extents if a.partition(".")[0] == root and a in owner} for root in axes.splits]
    if all(len(dims) < 2 for dims in joined):
        return None
    return tuple(sorted(runs, key=lambda dim: runs[dim][:1] or [-1]))
