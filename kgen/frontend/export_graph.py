"""An exported program to an OpGraph: torch's graph in values of the IR, with the user's line on every node."""

import operator
import re

import torch
from torch._ops import HigherOrderOperator
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind as TorchInputKind
from torch.export.graph_signature import InputSpec as TorchInput
from torch.export.graph_signature import OutputKind, TensorArgument

from kgen.errors.base import Where
from kgen.errors.frontend import DataDependentError, NonTensorResultError, UnsupportedOpError
from kgen.frontend.dtypes import dtype_of, type_of
from kgen.frontend.places import place_of_trace
from kgen.ir.graph import Argument, GraphInput, InputKind, Mutation, Node, OpGraph, ValueRef
from kgen.ir.tensor import TensorType
from kgen.spec.model import Reference, Spec

_KINDS = {
    TorchInputKind.PARAMETER: InputKind.PARAMETER,
    TorchInputKind.BUFFER: InputKind.BUFFER,
    TorchInputKind.CONSTANT_TENSOR: InputKind.CONSTANT,
}
_ASSERTED = "aten._assert_tensor_metadata.default"
_FLAT = (
    "operations outside of regions: autocast, torch.cond and loops of torch keep their bodies in graphs of their own"
)
_COPIES = ("aten._to_copy.default", "aten.to.dtype")


def graph_of(program: ExportedProgram, spec: Spec, types: tuple[TensorType, ...]) -> OpGraph:
    """Return the OpGraph of an exported program; user inputs take their names from the spec."""
    builder = _Builder(spec.reference)
    inputs = builder.inputs(program, tuple(i.name for i in spec.inputs), types)
    for node in program.graph.nodes:
        if node.op == "call_function":
            builder.call(node)
    outputs, mutations = builder.results(program)
    return_spec = program.call_spec.out_spec
    returns_tuple = not (return_spec is not None and return_spec.is_leaf())
    return OpGraph(spec.name, inputs, tuple(builder.nodes), outputs, mutations, returns_tuple)


def hidden_values(program: ExportedProgram, graph: OpGraph) -> dict[str, torch.Tensor]:
    """Return the live tensors of the graph's parameters, buffers and constants, by input name."""
    values = {**program.constants, **program.state_dict}
    return {i.name: values[i.path] for i in graph.inputs if i.kind is not InputKind.USER}


class _Builder:
    """Walks the exported graph once, mapping torch's nodes to values of the OpGraph."""

    def __init__(self, reference: Reference) -> None:
        self.reference = reference
        self.nodes: list[Node] = []
        self.refs: dict[str, ValueRef] = {}
        self.names: set[str] = set()

    def fresh(self, wanted: str) -> str:
        base = re.sub(r"\W", "_", wanted)
        if base[:1].isdigit():  # the path of a parameter of an nn.Sequential: "0.weight"
            base = f"module_{base}"
        name, count = base, 0
        while name in self.names:
            count += 1
            name = f"{base}_{count}"
        self.names.add(name)
        return name

    def inputs(
        self, program: ExportedProgram, names: tuple[str, ...], types: tuple[TensorType, ...]
    ) -> tuple[GraphInput, ...]:
        """Return user inputs first, in signature order, then the hidden ones that are used."""
        nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
        user = [s for s in program.graph_signature.input_specs if s.kind is TorchInputKind.USER_INPUT]
        found = []
        for torch_input, name, type_ in zip(user, names, types, strict=True):
            self.refs[torch_input.arg.name] = ValueRef(self.fresh(name))
            found.append(GraphInput(name, InputKind.USER, type_))
        written = set(program.graph_signature.buffers_to_mutate.values())
        for torch_input in program.graph_signature.input_specs:
            node = nodes[torch_input.arg.name]
            if torch_input.kind in _KINDS and (node.users or torch_input.target in written):
                found.append(self.hidden(torch_input, node.meta["val"]))
        return tuple(found)

    def hidden(self, torch_input: TorchInput, value: torch.Tensor) -> GraphInput:
        path = torch_input.target or ""
        wanted = path if path.isidentifier() or "." in path else torch_input.arg.name
        name = self.fresh(wanted.replace(".", "_").replace("lifted_tensor", "constant"))
        self.refs[torch_input.arg.name] = ValueRef(name)
        return GraphInput(name, _KINDS[torch_input.kind], type_of(value, path), path)

    def call(self, node: torch.fx.Node) -> None:
        where = place_of_trace(node.meta.get("stack_trace"), self.reference)
        if node.target is operator.getitem:
            source, index = node.args
            assert isinstance(source, torch.fx.Node) and isinstance(index, int)
            self.refs[node.name] = ValueRef(self.refs[source.name].name, index)
            return
        op = str(node.target)
        if op == _ASSERTED:
            self.asserted(node, where)
            return
        if isinstance(node.target, HigherOrderOperator):
            place = where or self.place_inside(node)
            raise UnsupportedOpError(where=place, op=op, place="in a reference", covered=_FLAT)
        value = node.meta["val"]
        results = value if isinstance(value, list | tuple) else [value]
        if not all(isinstance(r, torch.Tensor) for r in results):
            raise DataDependentError(where=where, op=op)
        if any(isinstance(extent, torch.SymInt) for r in results for extent in (*r.shape, *r.stride())):
            raise DataDependentError(where=where, op=f"{op}, whose shape depends on it")
        name = self.fresh(node.name)
        self.refs[node.name] = ValueRef(name)
        args = tuple(self.argument(a) for a in node.args)
        kwargs = tuple((k, self.argument(v)) for k, v in node.kwargs.items())
        self.nodes.append(Node(name, op, args, kwargs, tuple(type_of(r, op) for r in results), where))

    def place_inside(self, node: torch.fx.Node) -> Where | None:
        """Return the line of the first operation in the graphs that a higher-order operation holds."""
        bodies = [getattr(node.graph.owning_module, str(n.target)) for n in node.all_input_nodes if n.op == "get_attr"]
        graphs = [body.graph for body in bodies if isinstance(body, torch.fx.GraphModule)]
        traces = (inner.meta.get("stack_trace") for graph in graphs for inner in graph.nodes)
        return next(filter(None, (place_of_trace(trace, self.reference) for trace in traces)), None)

    def asserted(self, node: torch.fx.Node, where: Where | None) -> None:
        """Keep a cast to a value's own type: decomposition leaves only its assertion, and it says where to round."""
        value = node.args[0]
        assert isinstance(value, torch.fx.Node)
        follower = node.next
        if str(follower.target) in _COPIES and follower.args[0] is value:
            return
        ref, fake = self.refs[value.name], value.meta["val"]
        name = self.fresh("to")
        dtype = dtype_of(fake.dtype, "cast")
        self.nodes.append(Node(name, "aten.to.dtype", (ref, dtype.value), (), (type_of(fake, "cast"),), where))
        self.refs[value.name] = ValueRef(name)

    def argument(self, value: object) -> Argument:
        match value:
            case torch.fx.Node():
                return self.refs[value.name]
            case torch.dtype():
                return dtype_of(value, "argument").value
            case list() | tuple():
                return tuple(self.argument(v) for v in value)
            case None | bool() | int() | float() | str():
                return value
        return str(value)  # devices, layouts and memory formats: no operation depends on them

    def results(self, program: ExportedProgram) -> tuple[tuple[ValueRef, ...], tuple[Mutation, ...]]:
        outputs, mutations = [], []
        inputs = program.graph_signature.input_specs
        for result in program.graph_signature.output_specs:
            if not isinstance(result.arg, TensorArgument):
                raise NonTensorResultError(where=self._last_place(), found=_described(result.arg))
            ref = self.refs[result.arg.name]
            if result.kind is OutputKind.USER_OUTPUT:
                outputs.append(ref)
                continue
            target = next(i for i in inputs if result.target in (i.target, i.arg.name))
            mutations.append(Mutation(self.refs[target.arg.name].name, ref))
        if not outputs:
            raise NonTensorResultError(where=self._last_place(), found="nothing")
        self._check_flat(program)
        return tuple(outputs), tuple(mutations)

    def _check_flat(self, program: ExportedProgram) -> None:
        spec = program.call_spec.out_spec
        if spec is None or spec.is_leaf():
            return
        if not issubclass(spec.type or object, tuple | list) or not all(child.is_leaf() for child in spec.children()):
            raise NonTensorResultError(where=self._last_place(), found="a nested structure")

    def _last_place(self) -> Where | None:
        return self.nodes[-1].where if self.nodes else Where(self.reference.file)


def _described(argument: object) -> str:
    value = getattr(argument, "value", argument)
    return "None" if value is None else f"the {type(value).__name__} {value!r}"
