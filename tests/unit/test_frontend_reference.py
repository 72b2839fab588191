"""The text of `reference.py`: printed from the graph it computes what the original computes; else it is verbatim."""

from pathlib import Path

import pytest
import spellings
import torch

from kgen.errors.frontend import NonTensorArgumentError
from kgen.frontend.importers import spec_from_callable
from kgen.frontend.reference import init_kwargs, reference_text
from kgen.frontend.trace import trace, trace_live
from kgen.ir.graph import InputKind
from kgen.spec.load import load_spec, parse_spec


def run(text: str, entry: str, tensors: list[torch.Tensor]) -> object:
    names: dict[str, object] = {}
    exec(compile(text, "reference.py", "exec"), names)
    function = names[entry]
    assert callable(function)
    return function(*tensors)


@pytest.mark.parametrize("name", spellings.ALL)
def test_printed_reference_computes_the_same(name: str) -> None:
    fn, *inputs = spellings.ALL[name]
    spec = spec_from_callable(fn, inputs, name="case")
    traced = trace_live(spec, spec.cases[0])
    printed = reference_text(spec, traced.graph)
    assert not printed.verbatim
    hidden = [traced.hidden[i.name] for i in traced.graph.inputs if i.kind is not InputKind.USER]
    out = run(printed.text, printed.entry, [*(x.clone() for x in inputs), *hidden])
    expected = fn(*(x.clone() for x in inputs))
    torch.testing.assert_close(out, expected, rtol=0, atol=0, equal_nan=True)


def test_printed_reference_reads_like_torch() -> None:
    def fn(x, w, b):
        return torch.nn.functional.gelu(x[:, 1:] @ w.t() + b, approximate="tanh").to(torch.float16)

    spec = spec_from_callable(fn, [torch.empty(4, 9), torch.empty(3, 8), torch.empty(3)])
    text = reference_text(spec, trace(spec, spec.cases[0])).text
    body = [line.strip() for line in text.splitlines() if " = " in line]
    assert body == [
        "slice_1 = x[:, 1:]",
        "t = w.t()",
        "matmul = slice_1 @ t",
        "add = matmul + b",
        'gelu = F.gelu(add, approximate="tanh")',
        "to = gelu.to(torch.float16)",
    ]


def test_a_printed_reference_updates_what_the_original_updates() -> None:
    def fn(a, b, c):
        old = a.clone()
        a.copy_(b.t())
        b.copy_(old * 2)
        c.addmm_(old, b)
        return c * 2

    inputs = [torch.randn(5, 5, generator=torch.Generator().manual_seed(seed)) for seed in range(3)]
    spec = spec_from_callable(fn, inputs, name="case")
    printed = reference_text(spec, trace_live(spec, spec.cases[0]).graph)
    given, expected = ([x.clone() for x in inputs] for _ in range(2))
    torch.testing.assert_close(run(printed.text, printed.entry, given), fn(*expected), rtol=0, atol=0)
    for found, wanted in zip(given, expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=0)


INLINE = """name: gemm
reference: |
  import torch

  def gemm(a, b):
      # rows times columns
      return torch.mm(a, b)
inputs:
  a: {shape: [4, 8], dtype: fp32}
  b: {shape: [8, 4], dtype: fp32, layout: col, leading: 12}
"""


def test_inline_reference_is_verbatim() -> None:
    spec = parse_spec(INLINE, Path("gemm.yaml"))
    text = reference_text(spec, trace(spec, spec.cases[0]))
    assert text.verbatim and text.entry == "gemm"
    assert text.text == "import torch\n\ndef gemm(a, b):\n    # rows times columns\n    return torch.mm(a, b)\n"


def test_inputs_of_the_graph_have_the_strides_of_the_spec() -> None:
    spec = parse_spec(INLINE, Path("gemm.yaml"))
    a, b = (i.type for i in trace(spec, spec.cases[0]).inputs)
    assert (a.shape, a.strides) == ((4, 8), (8, 1))
    assert (b.shape, b.strides) == ((8, 4), (1, 12))


MODULE = """import torch
import torch.nn as nn

rows = 2**20


class Model(nn.Module):
    def __init__(self, width, depth=3):
        super().__init__()
        self.linear = nn.Linear(width, depth, dtype=torch.bfloat16)
        self.scale = torch.full((depth,), 0.5, dtype=torch.bfloat16)

    def forward(self, x):
        return torch.relu(self.linear(x)) * self.scale


def get_inputs():
    return [torch.rand(rows, 4096, rows, dtype=torch.bfloat16)[..., :64]]


def get_init_inputs():
    return [64]
"""


def test_module_file_allocates_nothing_and_is_verbatim(tmp_path: Path) -> None:
    path = tmp_path / "8_Wide Linear.py"
    path.write_text(MODULE)
    spec = load_spec(path)
    assert spec.name == "kernel_8_wide_linear"
    assert spec.inputs[0].shape == (2**20, 4096, 64) and spec.inputs[0].strides == (2**32, 2**20, 1)
    graph = trace(spec, spec.cases[0])
    assert [(i.name, i.kind.value, i.path) for i in graph.inputs] == [
        ("x", "user", ""),
        ("linear_weight", "parameter", "linear.weight"),
        ("linear_bias", "parameter", "linear.bias"),
        ("scale", "constant", "scale"),
    ]
    text = reference_text(spec, graph)
    assert text.verbatim and text.is_module and text.text == MODULE
    assert init_kwargs(spec.reference) == {"width": 64}


def test_a_source_with_foreign_imports_is_printed(tmp_path: Path) -> None:
    (tmp_path / "ops.py").write_text("import ruamel.yaml\n\n\ndef gemm(a, b):\n    return a @ b\n")
    spec = parse_spec(
        "name: gemm\nreference: ops.py::gemm\ninputs:\n  a: {shape: [4, 8], dtype: fp32}\n"
        "  b: {shape: [8, 4], dtype: fp32}\n",
        tmp_path / "gemm.yaml",
    )
    text = reference_text(spec, trace(spec, spec.cases[0]))
    assert not text.verbatim and "    matmul = a @ b\n" in text.text


NUMBERS = """import torch


class Model(torch.nn.Module):
    def forward(self, x, s: float, flag: bool = (
        False
    ), more=2, é=None):
        return torch.where(x > 0, x * s, x * more) if flag else x


def get_inputs():
    return [torch.rand(8, 16), 3.25, True, -7]


def get_init_inputs():
    return []
"""


def test_numbers_behind_the_tensors_are_defaults_in_the_text(tmp_path: Path) -> None:
    path = tmp_path / "5_scaled.py"
    path.write_text(NUMBERS)
    spec = load_spec(path)
    assert [i.name for i in spec.inputs] == ["x"]
    text = reference_text(spec, trace(spec, spec.cases[0])).text
    assert "def forward(self, x, s: float = 3.25, flag: bool = (\n        True\n    ), more=-7, é=None):\n" in text
    x = torch.randn(8, 16)
    assert torch.equal(run(text, "Model", [])(x), torch.where(x > 0, x * 3.25, x * -7))


@pytest.mark.parametrize(
    ("inputs", "kind"),
    [("3, torch.rand(4)", "int"), ("torch.rand(4), float('nan')", "float"), ("torch.rand(4), 'a'", "str")],
)
def test_other_arguments_than_numbers_behind_tensors_are_refused(tmp_path: Path, inputs: str, kind: str) -> None:
    path = tmp_path / "model.py"
    path.write_text(NUMBERS.replace("torch.rand(8, 16), 3.25, True, -7", inputs))
    with pytest.raises(NonTensorArgumentError, match=f"is a {kind}.*\n.*finite Python numbers behind its tensors"):
        load_spec(path)
