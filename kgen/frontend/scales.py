"""Products of scaled operands in an expanded graph, which one kernel may compute with their scales.

    ((x.float().unflatten(-1, (-1, 128)) * sx[..., None]).flatten(-2) @ ...

A first look, by what an operand depends on alone: whether its scales can be taken out of sums over k is seen when the
kernel is written.
"""

from dataclasses import dataclass

from kgen.frontend.contractions import CONTRACTIONS, product_of
from kgen.frontend.expand.builder import REDUCE, SCAN
from kgen.ir.dtype import DType
from kgen.ir.graph import Node, OpGraph, ValueRef, argument_refs

_NARROW = (DType.FP8_E4M3, DType.FP8_E5M2)


@dataclass(frozen=True, slots=True)
class Scaled:
    """A product whose operands may be narrow elements times scales.

    `may_divide`: scales are read in place where the last of their blocks is not full.
    """

    anchors: tuple[ValueRef]
    may_divide: bool = True


def scaled_products(graph: OpGraph) -> dict[str, Scaled]:
    """Return what may be products of scaled operands, by name."""
    nodes = {n.name: n for n in graph.nodes}
    found = {}
    for node in graph.nodes:
        if node.op in CONTRACTIONS:
            product = product_of(node, lambda ref: graph.type_of(ref).rank)
            if any(_is_scaled(graph, nodes, ref) for ref in (product.lhs, product.rhs)):
                found[node.name] = Scaled((ValueRef(node.name),))
    return found


def _is_scaled(graph: OpGraph, nodes: dict[str, Node], operand: ValueRef) -> bool:
    """Return whether an operand is made of narrow values by multiplying them, with no product or reduction before."""
    met, stack = {operand}, [operand]
    multiplies = is_narrow = False
    while stack:
        ref = stack.pop()
        is_narrow |= graph.type_of(ref).dtype in _NARROW
        node = nodes.get(ref.name)
        if node is None or node.op in CONTRACTIONS or node.op.startswith((REDUCE, SCAN)):
            continue
        multiplies |= node.op == "aten.mul.Tensor"
        refs = [r for a in (*node.args, *(v for _, v in node.kwargs)) for r in argument_refs(a)]
        stack += [r for r in refs if r not in met]
        met.update(refs)
    return multiplies and is_narrow
