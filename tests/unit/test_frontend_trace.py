"""Tracing: functional graphs of whole operations, the user's line on each node, and nothing else disturbed."""

import functools
import logging
from pathlib import Path

import pytest
import torch
from torch import nn

from kgen.errors.frontend import NonTensorArgumentError, ReferenceLoadError, UnsupportedDTypeError
from kgen.frontend.importers import spec_from_callable
from kgen.frontend.lower import lower
from kgen.frontend.trace import trace, trace_live
from kgen.ir.graph import InputKind, OpGraph
from kgen.spec.load import parse_spec

A, B = torch.empty(4, 8, dtype=torch.bfloat16), torch.empty(8, 3, dtype=torch.bfloat16)


def graph_of(fn, *inputs: torch.Tensor) -> OpGraph:
    spec = spec_from_callable(fn, inputs or (A, B))
    return trace(spec, spec.cases[0])


def ops(graph: OpGraph) -> list[str]:
    return [n.op.split(".")[1] for n in graph.nodes]


INLINE = """name: gemm
inputs:
  a: {shape: [4, 8], dtype: bf16}
  b: {shape: [8, 4], dtype: bf16}
reference:
  entry: gemm
  source: |
    def scaled(x):
        return x * 2

    def gemm(a, b):
        y = scaled(a) @ b
        return y + 1
"""


def test_inline_lines_count_in_the_yaml_file_and_in_called_functions() -> None:
    spec = parse_spec(INLINE, Path("folder/gemm.yaml"))
    places = [(n.op, str(n.where), n.where.text.strip()) for n in trace(spec, spec.cases[0]).nodes if n.where]
    assert places == [
        ("aten.mul.Tensor", "gemm.yaml:9", "return x * 2"),
        ("aten.matmul.default", "gemm.yaml:12", "y = scaled(a) @ b"),
        ("aten.add.Tensor", "gemm.yaml:13", "return y + 1"),
    ]


def test_a_function_keeps_its_lines() -> None:
    def fn(a, b):
        y = a @ b
        return y.relu()

    first = fn.__code__.co_firstlineno
    assert [str(n.where) for n in graph_of(fn).nodes] == [f"{Path(__file__).name}:{first + i}" for i in (1, 2)]


def test_operations_stay_whole() -> None:
    def fn(x, w, b):
        y = nn.functional.gelu(nn.functional.linear(x, w, b))
        return nn.functional.layer_norm(torch.einsum("mn,nk->mk", y.softmax(-1), w), (8,))

    graph = graph_of(fn, A, B.t(), torch.empty(3, dtype=torch.bfloat16))
    assert ops(graph) == ["linear", "gelu", "softmax", "einsum", "layer_norm"]
    assert graph.inputs[1].type.strides == (1, 3)


def test_casts_to_the_same_type_are_kept_with_and_without_functionalising() -> None:
    assert ops(graph_of(lambda a, b: (a @ b).to(torch.bfloat16) * 3)) == ["matmul", "to", "mul"]
    assert ops(graph_of(lambda a, b: (a @ b).relu_().to(torch.bfloat16) * 3)) == ["matmul", "relu", "to", "mul"]
    both = graph_of(lambda a, b: (a.float() @ b.float()).relu_().to(torch.bfloat16))
    assert ops(both) == ["_to_copy", "_to_copy", "matmul", "relu", "_to_copy"]


def test_mutations_are_explicit() -> None:
    def fn(a, b):
        a.mul_(2)
        return a @ b

    graph = graph_of(fn)
    assert [str(m) for m in graph.mutations] == ["mutate %a <- %mul"]


class Counted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 3, dtype=torch.bfloat16)
        self.register_buffer("calls", torch.zeros(()))
        self.unused = nn.Parameter(torch.zeros(5))
        self.plain = torch.ones(3, dtype=torch.bfloat16)

    def forward(self, x):
        self.calls.add_(1)
        return self.linear(x) + self.plain


def test_module_state_becomes_inputs_with_live_values() -> None:
    module = Counted()
    spec = spec_from_callable(module, [A])
    traced = trace_live(spec, spec.cases[0])
    kinds = [(i.name, i.kind, i.path) for i in traced.graph.inputs]
    assert kinds == [
        ("x", InputKind.USER, ""),
        ("linear_weight", InputKind.PARAMETER, "linear.weight"),
        ("linear_bias", InputKind.PARAMETER, "linear.bias"),
        ("calls", InputKind.BUFFER, "calls"),
        ("plain", InputKind.CONSTANT, "plain"),
    ]
    assert [m.input for m in traced.graph.mutations] == ["calls"]
    assert traced.hidden["plain"] is module.plain or torch.equal(traced.hidden["plain"], module.plain)
    assert traced.hidden["linear_weight"].data_ptr() == module.linear.weight.data_ptr()
    assert module.calls == 0


def test_closures_lambdas_and_partials() -> None:
    scale, bias = 2.5, torch.arange(3.0).to(torch.bfloat16)
    spec = spec_from_callable(lambda a, b: (a @ b) * scale + bias, [A, B])
    traced = trace_live(spec, spec.cases[0])
    assert spec.name == "kernel" and traced.graph.nodes[1].args[1] == 2.5
    assert torch.equal(traced.hidden["constant_0"], bias)

    def fn(a, b, alpha):
        return a @ b * alpha

    assert ops(graph_of(functools.partial(fn, alpha=3.0))) == ["matmul", "mul"]


def test_results_in_a_tuple_are_told() -> None:
    assert not graph_of(lambda a, b: a @ b).returns_tuple
    assert graph_of(lambda a, b: (a @ b,)).returns_tuple


def test_nothing_is_printed_and_loggers_are_left_alone(capfd: pytest.CaptureFixture[str]) -> None:
    def fn(a, b):
        print("tracing")
        return a @ b if a.sum() > 0 else b

    logger = logging.getLogger("torch._subclasses.fake_tensor")
    with pytest.raises(NotImplementedError, match="reads the value of a tensor"):
        graph_of(fn)
    assert capfd.readouterr() == ("", "") and not logger.disabled


def test_names_that_python_or_the_graph_takes_do_not_clash() -> None:
    def fn(matmul, add):
        return matmul @ add + 1

    graph = graph_of(fn)
    assert [i.name for i in graph.inputs] == ["matmul", "add"]
    assert [n.name for n in graph.nodes] == ["matmul_1", "add_1"]
    spec = spec_from_callable(fn, [A, B])
    assert lower(graph, spec).problems


def test_the_examples_device_is_kept() -> None:
    weight = torch.empty(8, 3, device="meta", dtype=torch.bfloat16)
    spec = spec_from_callable(lambda a: a @ weight, [A.to("meta")])
    assert ops(trace(spec, spec.cases[0])) == ["matmul"]


def test_arguments_that_are_no_tensors_are_refused() -> None:
    with pytest.raises(NonTensorArgumentError, match="argument 1 of the reference is a float"):
        spec_from_callable(lambda a, s: a * s, [A, 2.0])  # type: ignore[list-item]
    with pytest.raises(UnsupportedDTypeError, match=r"argument a has the dtype torch\.complex64"):
        spec_from_callable(lambda a: a, [torch.empty(2, dtype=torch.complex64)])


def test_an_importable_reference() -> None:
    text = (
        "name: gemm\nreference: torch:mm\ninputs:\n  a: {shape: [4, 8], dtype: bf16}\n"
        "  b: {shape: [8, 4], dtype: bf16}\n"
    )
    spec = parse_spec(text, Path("gemm.yaml"))
    assert ops(trace(spec, spec.cases[0])) == ["mm"]
    missing = parse_spec(text.replace("torch:mm", "torch:m_m"), Path("gemm.yaml"))
    with pytest.raises(ReferenceLoadError, match="AttributeError"):
        trace(missing, missing.cases[0])


def test_a_constructor_draws_no_random_numbers(tmp_path):
    (tmp_path / "model.py").write_text(
        "import torch\n\n\nclass Model(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.linear = torch.nn.Linear(8, 4)\n        self.scale = torch.nn.Parameter(torch.randn(4))\n"
        "        torch.nn.init.normal_(self.scale)\n\n"
        "    def forward(self, x):\n        return self.linear(x) * self.scale\n"
    )
    text = "name: m\nreference: model.py::Model\ninputs:\n  x: {shape: [2, 8], dtype: fp32}\ntargets: [h200]\n"
    spec = parse_spec(text, tmp_path / "m.yaml")
    torch.manual_seed(3)
    wanted = torch.randn(4)  # what `torch.randn` itself draws in the constructor
    after = torch.rand(1)
    torch.manual_seed(3)
    graph = trace(spec, spec.cases[0])
    assert torch.equal(torch.rand(1), after), f"only the drawing of {tuple(wanted.shape)} values moves the generator"
    assert [i.kind for i in graph.inputs].count(InputKind.PARAMETER) == 3
