"""An OpGraph as a PyTorch function: one operation a line, in the words a person would use for it."""

import keyword
import math
from collections.abc import Callable, Mapping
from itertools import chain

import torch
import torch.nn.functional

from kgen.frontend.bind import IGNORED, Call, bind
from kgen.frontend.dtypes import TORCH_DTYPES
from kgen.ir.dtype import DType
from kgen.ir.graph import Argument, Node, OpGraph, ValueRef, argument_refs

_OPERATORS = {
    **{"add": "+", "sub": "-", "mul": "*", "div": "/", "matmul": "@", "bitwise_and": "&", "bitwise_or": "|"},
    **{"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="},
}
_ATTRIBUTES = {"numpy_T": "T", "mT": "mT", "mH": "mH"}
_METHODS = frozenset(
    [
        "view",
        "reshape",
        "permute",
        "transpose",
        "expand",
        "unsqueeze",
        "squeeze",
        "flatten",
        "unflatten",
        "contiguous",
        "clone",
        "detach",
        "masked_fill",
        "t",
        "split",
        "chunk",
        "narrow",
        "movedim",
        "expand_as",
        "view_as",
        "reshape_as",
        "type_as",
        "unbind",
        "tensor_split",
        "swapaxes",
        "swapdims",
    ]
)
_FUNCTIONAL = frozenset(
    [
        "linear",
        "gelu",
        "silu",
        "leaky_relu",
        "celu",
        "selu",
        "hardtanh",
        "relu6",
        "softplus",
        "softsign",
        "mish",
        "hardswish",
        "hardsigmoid",
        "dropout",
    ]
)
_FUNCTIONAL_NAMES = {"log_sigmoid": "logsigmoid"}
_METHOD_NAMES = {"_unsafe_view": "reshape"}
_CASTS = ("_to_copy", "to")
_RESERVED = frozenset({"torch", "F", *keyword.kwlist})


def print_graph(graph: OpGraph, entry: str) -> str:
    """Return the source of a Python module that defines `entry` as the graph's computation."""
    return _Printer(graph).module(entry)


class _Printer:
    """Prints the nodes that results and updated inputs depend on."""

    def __init__(self, graph: OpGraph) -> None:
        self.graph = graph
        self.names = _python_names(graph)

    def module(self, entry: str) -> str:
        body = [f"    {self.names[n.name]} = {self.expression(n)}" for n in _needed(self.graph)]
        arguments = ", ".join(f"{self.names[i.name]}: torch.Tensor" for i in self.graph.inputs)
        results = [self.value(o) for o in self.graph.outputs]
        single = len(results) == 1 and not self.graph.returns_tuple
        returned = results[0] if single else f"({', '.join(results)}{',' if len(results) == 1 else ''})"
        type_ = "torch.Tensor" if single else "tuple[torch.Tensor, ...]"
        functional = any("F." in line for line in body)
        lines = [
            f'"""The PyTorch meaning of {self.graph.name}, written out from its traced graph."""',
            "",
            "import torch",
            *(["import torch.nn.functional as F"] if functional else []),
            "",
            "",
            f"def {entry}({arguments}) -> {type_}:",
            *(f"    # {self.names[i.name]}: {i.type}" for i in self.graph.inputs),
            *body,
            *self.updates(),
            f"    return {returned}",
        ]
        return "\n".join(lines) + "\n"

    def updates(self) -> list[str]:
        """Print what is written back into inputs; of several values none may lie in an input that is written first."""
        written = [(self.names[m.input], self.value(m.value)) for m in self.graph.mutations]
        if len(written) == 1:
            return [f"    {name}.copy_({value})" for name, value in written]
        lines = [f"    {self.unused(f'{name}_new')} = {value}.clone()" for name, value in written]
        return lines + [f"    {name}.copy_({self.unused(f'{name}_new')})" for name, _ in written]

    def unused(self, name: str) -> str:
        """Return a name that no input and no node has."""
        return self.unused(f"{name}_") if name in self.names.values() else name

    def expression(self, node: Node) -> str:
        _, base, overload = node.op.split(".")
        args = [self.text(a) for a in node.args]
        kwargs = {k: self.text(v, k) for k, v in node.kwargs if k not in IGNORED}
        if base in _CASTS:
            return f"{args[0]}.to({_torch_dtype(node.types[0].dtype)})"
        if base in _OPERATORS and len(args) == 2:
            factor = f"{kwargs['alpha']} * " if "alpha" in kwargs else ""
            if not (kwargs.keys() - {"alpha"}):
                return f"{args[0]} {_OPERATORS[base]} {factor}{args[1]}"
        if base in _SPECIAL:
            return _SPECIAL[base](self, node)
        if base in _ATTRIBUTES:
            return f"{args[0]}.{_ATTRIBUTES[base]}"
        if base in _METHODS or base in _METHOD_NAMES:
            return _called(f"{args[0]}.{_METHOD_NAMES.get(base, base)}", args[1:], kwargs)
        if base in _FUNCTIONAL or base in _FUNCTIONAL_NAMES:
            return _called(f"F.{_FUNCTIONAL_NAMES.get(base, base)}", args, kwargs)
        if hasattr(torch, base) and not base.startswith("_"):
            return _called(f"torch.{base}", args, kwargs)
        return _called(f"torch.ops.aten.{base}.{overload}", args, kwargs)

    def text(self, argument: Argument, key: str = "") -> str:
        match argument:
            case ValueRef():
                return self.value(argument)
            case tuple():
                return f"[{', '.join(self.text(a) for a in argument)}]"
            case float() if not math.isfinite(argument):
                return f'float("{argument}")'
            case str() if key == "dtype":
                return _torch_dtype(DType(argument))
            case str():
                return f'"{argument}"'
        return repr(argument)

    def value(self, ref: ValueRef) -> str:
        name = self.names[ref.name]
        node = self.graph.node(ref.name)
        return f"{name}[{ref.index}]" if node and len(node.types) > 1 else name

    def indexed(self, node: Node) -> str:
        """Print a slice or a select as an index."""
        source = node.args[0]
        assert isinstance(source, ValueRef)
        rank = self.graph.type_of(source).rank
        if node.op == "aten.select.int":
            call = bind(node, "self dim index")
            dim, index = call.integer("dim") % rank, repr(call.integer("index"))
        else:
            call = bind(node, "self dim start end step", dim=0, start=None, end=None, step=1)
            dim, index = call.integer("dim") % rank, _slice_text(call)
        return f"{self.value(source)}[{', '.join([*(':' for _ in range(dim)), index])}]"

    def einsum(self, node: Node) -> str:
        call = bind(node, "equation operands")
        operands = argument_refs(call.args["operands"])
        return f'torch.einsum("{call.args["equation"]}", {", ".join(self.value(o) for o in operands)})'

    def elu(self, node: Node) -> str:
        """aten's elu takes scale and input_scale as well, which no public function does."""
        args = [self.text(a) for a in node.args]
        return _called("F.elu" if len(args) <= 2 else "torch.ops.aten.elu", args, {})

    def tensordot(self, node: Node) -> str:
        left, right, *dims = (self.text(a) for a in node.args)
        return f"torch.tensordot({left}, {right}, dims=({', '.join(dims)}))"


_SPECIAL: dict[str, Callable[[_Printer, Node], str]] = {
    "slice": _Printer.indexed,
    "select": _Printer.indexed,
    "einsum": _Printer.einsum,
    "elu": _Printer.elu,
    "tensordot": _Printer.tensordot,
}


def _called(function: str, args: list[str], kwargs: Mapping[str, str]) -> str:
    return f"{function}({', '.join([*args, *(f'{k}={v}' for k, v in kwargs.items())])})"


def _slice_text(call: Call) -> str:
    start, end, step = call.args["start"], call.args["end"], call.args["step"]
    last = "" if end is None or (isinstance(end, int) and end >= 2**62) else str(end)
    return f"{'' if start in (None, 0) else start}:{last}{'' if step == 1 else f':{step}'}"


def _torch_dtype(dtype: DType) -> str:
    return str(TORCH_DTYPES[dtype])


def _python_names(graph: OpGraph) -> dict[str, str]:
    names: dict[str, str] = {}
    for wanted in chain((i.name for i in graph.inputs), (n.name for n in graph.nodes)):
        name = wanted
        while name in _RESERVED or name in names.values():
            name += "_"
        names[wanted] = name
    return names


def _needed(graph: OpGraph) -> list[Node]:
    """Return the nodes that the results and updated inputs depend on, in order."""
    wanted = {ref.name for ref in (*graph.outputs, *(m.value for m in graph.mutations))}
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if node.name in wanted:
            kept.append(node)
            for argument in (*node.args, *(v for _, v in node.kwargs)):
                wanted |= {ref.name for ref in argument_refs(argument)}
    return kept[::-1]
