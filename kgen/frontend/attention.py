"""Attentions in an expanded graph: two products with reductions between them that nothing else needs.

A first look, by what depends on what alone: whether the reductions are a softmax is read from the Problem.
"""

from collections.abc import Callable
from dataclasses import dataclass

from kgen.frontend.contractions import CONTRACTIONS, product_of
from kgen.frontend.expand.builder import REDUCE, SCAN
from kgen.frontend.lookups import GATHERS
from kgen.ir.graph import Node, OpGraph, ValueRef, argument_refs


@dataclass(frozen=True, slots=True)
class Attention:
    """The anchors of what may be an attention in the order of the graph, the second product last.

    `operands` are those of the first product, then of the second; None stands for the one that comes from the softmax.
    Where it is `paged`, operands that a table gathers are read through it; else earlier kernels copy them.
    """

    anchors: tuple[ValueRef, ...]
    operands: tuple[ValueRef | None, ...]
    paged: bool


def attentions(graph: OpGraph) -> dict[str, Attention]:
    """Return what may be an attention, by the name of its second product."""
    finder, found = _Finder(graph), {}
    for node in graph.nodes:
        if node.op in CONTRACTIONS and (attention := finder.attention(node)) is not None:
            found[node.name] = attention
    return found


class _Finder:
    """Walks back from what may be second products."""

    def __init__(self, graph: OpGraph) -> None:
        self.graph = graph
        self.nodes = {n.name: n for n in graph.nodes}

    def attention(self, node: Node) -> Attention | None:
        found = product_of(node, lambda r: self.graph.type_of(r).rank)
        for start, operands in ((found.lhs, (None, found.rhs)), (found.rhs, (found.lhs, None))):
            anchors = {n for n in self.behind(start, self.is_product) if self.is_anchor(n)}
            products = [n for n in anchors if self.is_product(n)]
            anchors -= {n for n in anchors if not self.behind(ValueRef(n), self.is_product).intersection(products)}
            reductions = [n for n in anchors if self.nodes[n].op.startswith(REDUCE)]
            if len(products) != 1 or not reductions or len(anchors) != 1 + len(reductions):
                continue
            beside = self.beside(anchors, node)
            if len(reductions) + len(beside) > 1 and all(self.nodes[n].op.startswith(REDUCE) for n in beside):
                anchors |= beside
                ordered = (*(ValueRef(n.name) for n in self.graph.nodes if n.name in anchors), ValueRef(node.name))
                first = product_of(self.nodes[products[0]], lambda r: self.graph.type_of(r).rank)
                loaded = (first.lhs, first.rhs, *operands)
                return Attention(ordered, loaded, any(self.is_gathered(ref) for ref in loaded if ref is not None))
        return None

    def beside(self, anchors: set[str], node: Node) -> set[str]:
        """Return the anchors beside an attention that are made from what it computes, as a sum of a row may be."""
        others = [n for n in self.graph.nodes if self.is_anchor(n.name) and n.name not in anchors and n is not node]
        ends = anchors | {node.name}
        return {
            other.name
            for other in others
            if any(anchors & self.behind(operand, ends.__contains__) for operand in _operands(other))
        }

    def is_gathered(self, ref: ValueRef) -> bool:
        """Return whether a value is made from what an index tensor picks, with nothing summed in between."""
        return any(self.nodes[n].op in GATHERS for n in self.behind(ref, self.is_anchor))

    def behind(self, ref: ValueRef, ends: Callable[[str], bool]) -> set[str]:
        """Return the nodes that a value is made from, itself included, and none behind those where the walk ends."""
        stack, met = [ref.name], {ref.name}
        while stack:
            name = stack.pop()
            if name in self.nodes and not ends(name):
                fresh = {r.name for r in _operands(self.nodes[name])} - met
                met |= fresh
                stack += fresh
        return {name for name in met if name in self.nodes}

    def is_anchor(self, name: str) -> bool:
        return self.is_product(name) or self.nodes[name].op.startswith((REDUCE, SCAN))

    def is_product(self, name: str) -> bool:
        return self.nodes[name].op in CONTRACTIONS


def _operands(node: Node) -> tuple[ValueRef, ...]:
    arguments = (*node.args, *(v for _, v in node.kwargs))
    return tuple(r for argument in arguments for r in argument_refs(argument))
