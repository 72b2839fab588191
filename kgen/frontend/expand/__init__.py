"""Composite operations to primitive ones: softmax, attention, norms, losses and every reduction of torch.

Runs between the trace and the cut into kernels. What stays are pointwise operations, views, matrix products, index
operations, and `kgen.reduce.*` / `kgen.scan.*`, each with one operand and its axes removed from the result.
"""

from collections.abc import Callable

from kgen.frontend.bind import Call, bind
from kgen.frontend.expand.attention import ATTENTION
from kgen.frontend.expand.builder import Builder
from kgen.frontend.expand.distances import DISTANCES
from kgen.frontend.expand.losses import LOSSES
from kgen.frontend.expand.movement import MOVEMENT
from kgen.frontend.expand.norms import NORMS
from kgen.frontend.expand.positions import POSITIONS
from kgen.frontend.expand.reductions import REDUCTIONS
from kgen.frontend.expand.scaled import SCALED
from kgen.frontend.expand.softmax import SOFTMAX
from kgen.ir.graph import Argument, Mutation, Node, OpGraph, ValueRef, argument_refs

Rule = Callable[[Builder, Call], tuple[ValueRef, ...]]
EXPANSIONS: dict[str, tuple[str, dict[str, Argument], Rule]] = {
    **REDUCTIONS,
    **SOFTMAX,
    **NORMS,
    **LOSSES,
    **DISTANCES,
    **MOVEMENT,
    **POSITIONS,
    **SCALED,
    **ATTENTION,
}


def expand(graph: OpGraph) -> OpGraph:
    """Return the graph of what its results need, with composite operations written out and equal nodes joined."""
    builder = Builder(graph)
    values: dict[ValueRef, ValueRef] = {}

    def mapped(argument: Argument) -> Argument:
        if isinstance(argument, tuple):
            return tuple(mapped(a) for a in argument)
        return values.get(argument, argument) if isinstance(argument, ValueRef) else argument

    for node in _live(graph):
        args = tuple(mapped(a) for a in node.args)
        kwargs = tuple((k, mapped(v)) for k, v in node.kwargs)
        moved = Node(node.name, node.op, args, kwargs, node.types, node.where)
        if node.op in EXPANSIONS:
            names, defaults, rule = EXPANSIONS[node.op]
            builder.where = node.where
            results = rule(builder, bind(moved, names, **defaults))
        else:
            name = builder.add(moved)
            results = tuple(ValueRef(name, i) for i in range(len(node.types)))
        values.update({ValueRef(node.name, i): r for i, r in enumerate(results)})
    outputs = tuple(values.get(o, o) for o in graph.outputs)
    mutations = tuple(Mutation(m.input, values.get(m.value, m.value)) for m in graph.mutations)
    return OpGraph(graph.name, graph.inputs, tuple(builder.nodes), outputs, mutations, graph.returns_tuple)


def _live(graph: OpGraph) -> list[Node]:
    """Return the nodes that a result depends on, in order."""
    wanted = {ref.name for ref in (*graph.outputs, *(m.value for m in graph.mutations))}
    live = []
    for node in reversed(graph.nodes):
        if node.name in wanted:
            live.append(node)
            for argument in (*node.args, *(v for _, v in node.kwargs)):
                wanted.update(ref.name for ref in argument_refs(argument))
    return live[::-1]
