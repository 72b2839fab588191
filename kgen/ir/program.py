"""Program: the kernels of one reference, the buffers between them, and the signature they serve."""

from dataclasses import dataclass

from kgen.ir.graph import GraphInput
from kgen.ir.problem import Problem
from kgen.ir.tensor import TensorType


@dataclass(frozen=True, slots=True)
class Buffer:
    """A workspace tensor one kernel writes and a later one reads."""

    name: str
    type: TensorType

    def __str__(self) -> str:
        return f"buffer {self.name}: {self.type}"


@dataclass(frozen=True, slots=True)
class Program:
    """Problems in launch order, the buffers between them, and the signature of the reference.

    `arguments` are the graph inputs in signature order (user tensors, then parameters, buffers and constants, which a
    kernel takes as arguments too). `results` names the output tensors in return order. Where a kernel is an attention,
    a gate or a product of scaled operands, `plain` is the same program with less in it: a gate's products, and what is
    made of them, are kernels of their own; scaled operands are values that kernels of their own store; an attention
    through a table reads copies there, and the products and the softmax of any other one are kernels of their own.
    """

    name: str
    arguments: tuple[GraphInput, ...]
    results: tuple[str, ...]
    problems: tuple[Problem, ...]
    buffers: tuple[Buffer, ...] = ()
    returns_tuple: bool = False
    plain: "Program | None" = None

    def __str__(self) -> str:
        arguments = ", ".join(f"%{a.name}" for a in self.arguments)
        head = f"program {self.name}({arguments}) -> {', '.join(self.results)}"
        return "\n".join([head, *(f"  {b}" for b in self.buffers), *(str(p) for p in self.problems)])
