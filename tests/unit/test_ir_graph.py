"""OpGraphs print one line a node, and their verifier names what is broken."""

from dataclasses import replace

import pytest

from kgen.errors.base import Where
from kgen.ir.dtype import DType
from kgen.ir.graph import (
    GraphInput,
    GraphInvariantError,
    InputKind,
    Mutation,
    Node,
    OpGraph,
    ValueRef,
    verify_graph,
)
from kgen.ir.tensor import TensorType

X = TensorType.contiguous(DType.BF16, (4, 8))
HALF = TensorType(DType.BF16, (4, 4), (8, 1))
GRAPH = OpGraph(
    "chunks",
    (GraphInput("x", InputKind.USER, X), GraphInput("w", InputKind.PARAMETER, X, "linear.weight")),
    (
        Node("add", "aten.add.Tensor", (ValueRef("x"), ValueRef("w")), (("alpha", 2),), (X,), Where("m.py", 3)),
        Node("chunk", "aten.chunk.default", (ValueRef("add"), 2, -1), (), (HALF, HALF)),
    ),
    (ValueRef("chunk", 1),),
    (Mutation("x", ValueRef("add")),),
)


def test_graph_prints_one_line_a_node() -> None:
    verify_graph(GRAPH)
    assert (
        str(GRAPH)
        == """\
graph chunks
  %x: bf16[4,8] (user)
  %w: bf16[4,8] (parameter linear.weight)
  %add: bf16[4,8] = aten.add.Tensor(%x, %w, alpha=2)  # m.py:3
  %chunk: bf16[4,4]/(8,1), bf16[4,4]/(8,1) = aten.chunk.default(%add, 2, -1)
  mutate %x <- %add
  return %chunk.1"""
    )


@pytest.mark.parametrize(
    ("broken", "invariant"),
    [
        (replace(GRAPH, nodes=GRAPH.nodes[::-1]), "chunk uses %add before it is defined"),
        (replace(GRAPH, nodes=(*GRAPH.nodes, GRAPH.nodes[0])), "add is defined once"),
        (replace(GRAPH, inputs=(*GRAPH.inputs, GRAPH.inputs[0])), "input names are unique"),
        (replace(GRAPH, outputs=(ValueRef("chunk", 2),)), "the result %chunk.2 is defined"),
    ],
)
def test_broken_graph_is_refused(broken: OpGraph, invariant: str) -> None:
    with pytest.raises(GraphInvariantError) as caught:
        verify_graph(broken)
    assert invariant in str(caught.value)
