"""OpGraph: the traced reference, functional, at torch's own level (linear, softmax, sdpa stay whole).

Made by the front end from `torch.export`; holds no torch object. `str(graph)` prints one line per node.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from kgen.errors.base import Where
from kgen.ir.tensor import TensorType

Scalar = None | bool | int | float | str


@dataclass(frozen=True, slots=True)
class ValueRef:
    """A use of a graph input or of a node's result; `index` picks one of several results."""

    name: str
    index: int = 0

    def __str__(self) -> str:
        return f"%{self.name}" if self.index == 0 else f"%{self.name}.{self.index}"


Argument = ValueRef | Scalar | tuple["Argument", ...]


class InputKind(StrEnum):
    """Where a graph input comes from."""

    USER = "user"
    PARAMETER = "parameter"
    BUFFER = "buffer"
    CONSTANT = "constant"  # a tensor the reference closed over


@dataclass(frozen=True, slots=True)
class GraphInput:
    """One input of the graph; `path` is the module attribute of a parameter, buffer or constant."""

    name: str
    kind: InputKind
    type: TensorType
    path: str = ""

    def __str__(self) -> str:
        source = f" ({self.kind} {self.path})" if self.path else f" ({self.kind})"
        return f"%{self.name}: {self.type}{source}"


@dataclass(frozen=True, slots=True)
class Node:
    """One operation: `op` is torch's overload name such as `aten.linear.default`."""

    name: str
    op: str
    args: tuple[Argument, ...]
    kwargs: tuple[tuple[str, Argument], ...]
    types: tuple[TensorType, ...]
    where: Where | None = None

    def __str__(self) -> str:
        shown = [print_argument(a) for a in self.args] + [f"{k}={print_argument(v)}" for k, v in self.kwargs]
        types = ", ".join(str(t) for t in self.types)
        place = f"  # {self.where}" if self.where else ""
        return f"%{self.name}: {types} = {self.op}({', '.join(shown)}){place}"


@dataclass(frozen=True, slots=True)
class Mutation:
    """The value `value` is written back into the input `input` when the graph ends."""

    input: str
    value: ValueRef

    def __str__(self) -> str:
        return f"mutate %{self.input} <- {self.value}"


@dataclass(frozen=True, slots=True)
class OpGraph:
    """A functional graph: inputs, nodes in order, outputs, and explicit mutations of inputs."""

    name: str
    inputs: tuple[GraphInput, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[ValueRef, ...]
    mutations: tuple[Mutation, ...] = ()
    returns_tuple: bool = False
    _by_name: dict[str, Node] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {n.name: n for n in self.nodes})

    def node(self, name: str) -> Node | None:
        """Return the node of that name, or None for a graph input."""
        return self._by_name.get(name)

    def type_of(self, ref: ValueRef) -> TensorType:
        """Return the type of a value."""
        if node := self.node(ref.name):
            return node.types[ref.index]
        return next(i.type for i in self.inputs if i.name == ref.name)

    def __str__(self) -> str:
        lines = [f"graph {self.name}"]
        lines += [f"  {i}" for i in self.inputs]
        lines += [f"  {n}" for n in self.nodes]
        lines += [f"  {m}" for m in self.mutations]
        lines.append(f"  return {', '.join(str(o) for o in self.outputs)}")
        return "\n".join(lines)


class GraphInvariantError(AssertionError):
    """An OpGraph breaks an invariant: a fault in kgen, not in the user's input."""


def print_argument(argument: Argument) -> str:
    """Return an argument as it is printed in the graph."""
    if isinstance(argument, tuple):
        return f"[{', '.join(print_argument(a) for a in argument)}]"
    return str(argument) if isinstance(argument, ValueRef) else repr(argument)


def argument_refs(argument: Argument) -> tuple[ValueRef, ...]:
    """Return the values used inside an argument."""
    if isinstance(argument, tuple):
        return tuple(ref for part in argument for ref in argument_refs(part))
    return (argument,) if isinstance(argument, ValueRef) else ()


def verify_graph(graph: OpGraph) -> None:
    """Raise `GraphInvariantError` unless names are unique and every use follows its definition."""
    results = {i.name: 1 for i in graph.inputs}
    if len(results) != len(graph.inputs):
        raise GraphInvariantError(f"{graph.name}: input names are unique")
    for node in graph.nodes:
        for argument in (*node.args, *(value for _, value in node.kwargs)):
            for ref in argument_refs(argument):
                if not 0 <= ref.index < results.get(ref.name, 0):
                    raise GraphInvariantError(f"{graph.name}: {node.name} uses {ref} before it is defined")
        if node.name in results:
            raise GraphInvariantError(f"{graph.name}: {node.name} is defined once")
        results[node.name] = len(node.types)
    for ref in (*graph.outputs, *(m.value for m in graph.mutations)):
        if not 0 <= ref.index < results.get(ref.name, 0):
            raise GraphInvariantError(f"{graph.name}: the result {ref} is defined")
