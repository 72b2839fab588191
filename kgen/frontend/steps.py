"""A reduction over several axes as two: the first step joins the kernel that has its operand at hand."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import combinations

from kgen.frontend.body import free_name
from kgen.frontend.expand.builder import REDUCE
from kgen.frontend.promotion import compute_dtype
from kgen.ir.graph import Node, OpGraph, ValueRef
from kgen.ir.problem import Combine
from kgen.ir.tensor import TensorType

_IN_STEPS = (Combine.SUM, Combine.PROD, Combine.MAX, Combine.MIN, Combine.ANY, Combine.ALL)


def steps_of(node: Node, graph: OpGraph, taken: Collection[str]) -> Iterator[tuple[Node, Node]]:
    """Yield the ways to reduce in two steps, those with the most axes in the first step first."""
    if not node.op.startswith(REDUCE) or Combine(node.op.rpartition(".")[2]) not in _IN_STEPS:
        return
    operand, dims = node.args
    assert isinstance(operand, ValueRef) and isinstance(dims, tuple)
    shape = graph.type_of(operand).static_shape
    name = free_name(f"{node.name}_part", taken)
    for size in reversed(range(1, len(dims))):
        for first in combinations(dims, size):
            left = [d for d in range(len(shape)) if d not in first]
            type_ = TensorType.contiguous(compute_dtype(node.types[0].dtype), tuple(shape[d] for d in left))
            rest = tuple(i for i, d in enumerate(left) if d in dims)
            inner = replace(node, name=name, args=(operand, first), types=(type_,))
            yield inner, replace(node, args=(ValueRef(name), rest))
