"""Gates in an expanded graph: what two products with one operand in common, or two parts of one product, are made into.

    silu(x @ gate.T) * (x @ up.T)    or    h = x @ weight.T; silu(h[:, :n]) * h[:, n:]

A first look, by what depends on what alone: whether one kernel computes a gate is seen when it is written.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from kgen.frontend.contractions import CONTRACTIONS, Labels, product_of
from kgen.frontend.expand.builder import REDUCE, SCAN
from kgen.frontend.views import view_operand
from kgen.ir.graph import Node, OpGraph, ValueRef, argument_refs

# Each result of these is a part of the operand.
_PART_OPS = frozenset(
    f"aten.{name}"
    for name in (
        "slice.Tensor",
        "narrow.default",
        "select.int",
        "unbind.int",
        "split.Tensor",
        "split.sizes",
        "split_with_sizes.default",
        "chunk.default",
        "unsafe_split.Tensor",
        "unsafe_chunk.default",
        "tensor_split.sections",
        "tensor_split.indices",
    )
)
_HALVING_OPS = frozenset({"aten.glu.default"})  # which read two parts of their operand


@dataclass(frozen=True, slots=True)
class Gate:
    """The products of what may be a gate in the order of the graph: two, or one of which two parts are taken."""

    anchors: tuple[ValueRef, ...]


def gates(graph: OpGraph) -> dict[str, Gate]:
    """Return what may be a gate, by the name of its last product; those of two products come first."""
    finder = _Finder(graph)
    found: dict[str, Gate] = {}
    for gate in (*finder.of_two(), *finder.of_parts()):
        found.setdefault(gate.anchors[-1].name, gate)
    return found


class _Finder:
    """Walks forward from products through what is pointwise."""

    def __init__(self, graph: OpGraph) -> None:
        self.graph = graph
        self.nodes = {n.name: n for n in graph.nodes}
        self.products = [n for n in graph.nodes if n.op in CONTRACTIONS]

    def of_two(self) -> Iterator[Gate]:
        """Yield pairs of products of one shape that share an operand, and what is made of both."""
        behind = {n.name: {m.name for m in self.made_of(n)} for n in self.products}
        for one, other in combinations(self.products, 2):
            if behind[one.name] & behind[other.name] and self.are_alike(one, other):
                yield Gate((ValueRef(one.name), ValueRef(other.name)))

    def of_parts(self) -> Iterator[Gate]:
        """Yield products of which two parts or more are read."""
        for product in self.products:
            made = self.made_of(product)
            parts = sum(len(n.types) for n in made if n.op in _PART_OPS)
            if parts + 2 * sum(n.op in _HALVING_OPS for n in made) >= 2:
                yield Gate((ValueRef(product.name),))

    def are_alike(self, one: Node, other: Node) -> bool:
        """Return whether two products of one shape share an operand and sum over the same axes of it."""
        first, second = (product_of(n, lambda r: self.graph.type_of(r).rank) for n in (one, other))
        sides = (
            (first.lhs, first.lhs_labels, second.lhs, second.lhs_labels),
            (first.rhs, first.rhs_labels, second.rhs, second.rhs_labels),
        )
        return one.types == other.types and any(
            self.is_same(mine, theirs) and _summed(labels, first.result) == _summed(others, second.result)
            for mine, labels, theirs, others in sides
        )

    def is_same(self, one: ValueRef, other: ValueRef) -> bool:
        """Return whether two values are one, or the same view of one."""
        if one == other:
            return True
        mine, theirs = self.nodes.get(one.name), self.nodes.get(other.name)
        if mine is None or theirs is None or one.index != other.index:
            return False
        shown, other_shown = view_operand(mine), view_operand(theirs)
        alike = (mine.op, mine.args[1:], mine.kwargs) == (theirs.op, theirs.args[1:], theirs.kwargs)
        return alike and shown is not None and other_shown is not None and self.is_same(shown, other_shown)

    def made_of(self, product: Node) -> list[Node]:
        """Return the nodes that are made of a product with no other product, reduction or scan in between."""
        reached, found = {product.name}, []
        for node in self.graph.nodes:
            is_anchor = node.op in CONTRACTIONS or node.op.startswith((REDUCE, SCAN))
            if not is_anchor and any(r.name in reached for r in _operands(node)):
                reached.add(node.name)
                found.append(node)
        return found


def _summed(labels: Labels, result: Labels) -> tuple[str | None, ...]:
    """Return the labels of an operand that a product sums over, each in its place."""
    return tuple(None if label in result else label for label in labels)


def _operands(node: Node) -> tuple[ValueRef, ...]:
    arguments = (*node.args, *(v for _, v in node.kwargs))
    return tuple(r for argument in arguments for r in argument_refs(argument))
