"""What a package's `shapes.json` and `input.py` say of every argument in a case."""

from dataclasses import dataclass

from kgen.ir.dtype import DType
from kgen.ir.graph import InputKind, OpGraph
from kgen.ir.tensor import TensorType


@dataclass(frozen=True, slots=True)
class InputDescriptor:
    """One argument of the kernel: shape and strides in elements, and the elements of storage they reach into."""

    name: str
    kind: InputKind
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    storage: int


def input_descriptors(graph: OpGraph) -> tuple[InputDescriptor, ...]:
    """Return the descriptors of the graph's inputs, in argument order."""
    return tuple(
        InputDescriptor(i.name, i.kind, i.type.dtype, i.type.static_shape, i.type.strides, _reach(i.type))
        for i in graph.inputs
    )


def _reach(type_: TensorType) -> int:
    """Return how many elements of storage a tensor spans, gaps of padded strides included."""
    if 0 in type_.static_shape:
        return 0
    return 1 + sum((extent - 1) * stride for extent, stride in zip(type_.static_shape, type_.strides, strict=True))
