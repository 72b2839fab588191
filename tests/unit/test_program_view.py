"""kernel.py of several kernels: distinct names, parts in launch order, clean text, a host that launches in order."""

import ast
import contextlib
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import mixed_specs
import pytest
import torch

from kgen.backends.cutedsl.program import FOLDER, view_program
from kgen.backends.cutedsl.program_views import AloneHostView, ProgramHostView
from kgen.backends.program.views import ProgramFileView
from kgen.backends.registry import backend_of
from kgen.backends.source.names import host_names
from kgen.backends.source.statements import fitted, joined, numbered, statements_of
from kgen.errors.backend import CasesDifferError, ModuleNameError
from kgen.pipeline import run
from kgen.render.fields import unread_fields
from kgen.spec.load import parse_spec
from kgen.target import load_device

ROOT = Path(__file__).resolve().parents[2]
ALL = tuple(mixed_specs.FUNCTIONS)
DEVICES = ("h200", "mi300x", "mi355x")


def kernel(name: str, device: str = "h200") -> str:
    return mixed_specs.files_of(name, device)["kernel.py"]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ALL)
def test_the_names_of_a_file_are_distinct(name: str, device: str) -> None:
    names = [s.name for s in statements_of(kernel(name, device))]
    assert len(names) == len(set(names))
    assert names.count("kernel") == 1
    tree = ast.parse(kernel(name, device))
    imported = {a.asname or a.name for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom) for a in n.names}
    assert not imported.intersection(names)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ALL)
def test_the_parts_stand_in_launch_order(name: str, device: str) -> None:
    text = kernel(name, device)
    plan = mixed_specs.plan_of(name, device)
    kernels = plan.kernels_of("default")
    numbers = list(range(len(kernels)))
    titles = numbers if len(kernels) > 1 else []
    is_attention = len(kernels) == 1 and plan.variants[0].family == "attention"  # alone, it has no number
    assert [int(n) for n in re.findall(r"^# Kernel (\d+), ", text, re.MULTILINE)] == titles
    head = ast.get_docstring(ast.parse(text)) or ""
    assert [int(n) for n in re.findall(r"^Kernel (\d+):$", head, re.MULTILINE)] == ([] if is_attention else numbers)
    names = [s.name for s in statements_of(text)]
    if "VARIANTS_0" in names:  # a kernel alone keeps its names
        tables = [names.index(f"VARIANTS_{number}") for number in numbers]
        assert tables == sorted(tables) and names.index("VARIANTS") > tables[-1]
    assert ("VARIANTS_0" in names) == (len(kernels) > 1)
    variants = [v.name for v in plan.variants]
    assert re.findall(r'^(?:        name=|    Variant(?:_\d+)?\()"(\w+)"', text, re.MULTILINE) == variants


def test_a_product_has_all_its_text_under_its_number() -> None:
    names = [s.name for s in statements_of(kernel("attention"))]
    for number in (0, 2):
        own = {n for n in names if n.endswith(f"_{number}")}
        assert own >= {
            f"{n}_{number}" for n in ("Variant", "gemm_tma" if number == 0 else "gemm_staged", "mainloop", "OUT")
        }
    assert names.count("digits") == names.count("INDEX") == 1


@pytest.mark.parametrize("command", [["check", "--output-format", "concise"], ["format", "--check"]])
def test_lint_and_format(tmp_path: Path, command: list[str]) -> None:
    for device in DEVICES:
        for name in ALL:
            (tmp_path / f"{device}_{name}.py").write_text(kernel(name, device), encoding="utf-8")
    settings = ["--config", str(ROOT / "pyproject.toml"), "--no-cache"]
    found = subprocess.run(
        [sys.executable, "-m", "ruff", *command, *settings, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr


def test_every_field_is_read() -> None:
    assert unread_fields(f"{FOLDER}/kernel.py.j2", ProgramFileView) == ()
    assert unread_fields(f"{FOLDER}/host.py.j2", ProgramHostView) == ()
    assert unread_fields(f"{FOLDER}/host_alone.py.j2", AloneHostView) == ()


def test_this_back_end_takes_products_among_several_kernels() -> None:
    plans = [mixed_specs.plan_of(name) for name in ("linear_softmax", "odd_chain")]
    assert [plan.family for plan in plans] == ["gemm+reduction", "gemm"]
    assert all(backend_of(plan).view is view_program for plan in plans)


def test_a_product_on_tensors_of_the_host_function_needs_no_guard() -> None:
    plan = mixed_specs.plan_of("two_linears")
    assert [str(v.guard) for v in plan.variants] == [
        "x on 16 bytes, w on 16 bytes",
        "any base address",
        "v on 16 bytes",
        "any base address",
    ]
    assert '"default_1_tma": (\n        (cutlass.Float16, (64, 256), (256, 1), 16),  # v_\n' in kernel(
        "two_linears"
    ).replace("# v\n", "# v_\n")


def test_a_product_stores_into_a_tensor_of_the_caller_element_by_element() -> None:
    first = mixed_specs.plan_of("in_place").variants[0]
    assert (first.name, first.choice.candidate.value("store_path")) == ("default_0_tma", "direct")
    assert "(cutlass.BFloat16, (64, 64), (64, 1), 2),  # c\n" in kernel("in_place")


# The host function, with stand-ins for the compiled functions and for torch.cuda.


class Host:
    """The host code of a kernel.py on CPU tensors; `launched` are (variant, tensors) in order."""

    def __init__(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        statements = {s.name: s.text for s in statements_of(kernel(name))}
        self.launched: list[tuple[str, tuple[object, ...]]] = []
        on_gpu = {"kernel": [(r"not \w+\.is_cuda", "False")]}
        self.scope: dict[str, Any] = {"torch": torch, "compiled": self.compiled}
        wanted_names = ("NAME", "PERSISTENT", "ACCEPTS", "PLAN", "refusal", "aligned", "run", "kernel")
        for wanted in filter(statements.__contains__, wanted_names):
            text = statements[wanted]
            for pattern, new in on_gpu.get(wanted, ()):
                text = re.sub(pattern, new, text)
            exec(text, self.scope)
        monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())

    def compiled(self, name: str, device: object) -> tuple[object, tuple[int, ...]]:
        after = (132,) if name in self.scope.get("PERSISTENT", ()) else ()
        if "run" not in self.scope:  # the host code of one attention, which takes the number itself
            return (lambda *taken: self.launched.append((name, taken[:-1]))), 132
        return (lambda *tensors: self.launched.append((name, tensors))), after

    def __call__(self, *tensors: torch.Tensor) -> object:
        return self.scope["kernel"](*tensors)


@pytest.mark.parametrize("name", ALL)
def test_the_host_launches_every_kernel_in_order(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    host, tensors, plan = Host(name, monkeypatch), mixed_specs.zeros(name), mixed_specs.plan_of(name)
    result = host(*tensors)
    firsts = [plan.variants_of("default", k)[0] for k in plan.kernels_of("default")]
    assert [n for n, _ in host.launched] == [v.name for v in firsts if not v.form.is_empty]
    (program,) = mixed_specs.made_of(name)["lower"].values()
    types = {t.name: t.type for p in program.problems for t in p.tensors}
    results = result if isinstance(result, tuple) else (result,)
    for made, wanted in zip(results, program.results, strict=True):
        assert (made.shape, made.stride()) == (types[wanted].static_shape, types[wanted].strides)
        assert str(made.dtype) == types[wanted].dtype.torch_name
    pointers = {t.data_ptr() for t in tensors}
    for (_, given), following in zip(host.launched, host.launched[1:], strict=False):
        made = {t.data_ptr() for t in given if isinstance(t, torch.Tensor)} - pointers
        pointers |= made
        assert all(t.data_ptr() in pointers or t.numel() for t in following[1] if isinstance(t, torch.Tensor))


def test_what_one_kernel_makes_the_next_one_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    host, (q, k, v) = Host("attention", monkeypatch), mixed_specs.zeros("attention")
    out = host(q, k, v)
    (_, first), (_, second), (_, third) = host.launched
    assert first[0] is q and first[1] is k and first[-1] == 132 == third[-1]
    assert first[2] is second[0] and any(second[1] is t for t in third[:2]) and third[2] is out
    assert len(second) == 2


def test_the_host_takes_the_variant_that_the_addresses_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host("two_linears", monkeypatch)
    host(*mixed_specs.zeros("two_linears", shift=2))
    assert [name for name, _ in host.launched] == ["default_0_staged_any", "default_1_staged_any"]


def test_bools_are_launched_as_bytes_where_a_loop_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    host, tensors = Host("mask", monkeypatch), mixed_specs.zeros("mask")
    result = host(*tensors)
    product, *loops = host.launched
    assert any(t.dtype is torch.bool for t in product[1] if isinstance(t, torch.Tensor))
    assert all(t.dtype is not torch.bool for _, given in loops for t in given)
    assert result[0].dtype is torch.bool and [len(r.shape) for r in result] == [1, 1, 2]


def test_an_updated_tensor_is_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    host, tensors = Host("in_place", monkeypatch), mixed_specs.zeros("in_place")
    host(*tensors)
    (_, product), _ = host.launched
    assert product[0] is product[3] is tensors[0]


def test_other_tensors_are_refused_with_what_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host("linear_softmax", monkeypatch)
    x, w, b = mixed_specs.zeros("linear_softmax")
    with pytest.raises(ValueError, match=r"takes CUDA tensors: default: x bf16\[64,128\], w bf16.* Found: torch.bf"):
        host(x[:3], w, b)


def test_no_name_of_the_host_function_is_left_to_the_user() -> None:
    function = next(n for n in ast.parse(kernel("running_mean")).body if getattr(n, "name", "") == "kernel")
    inner = {
        n.id
        for c in ast.walk(function)
        if isinstance(c, ast.comprehension)
        for n in ast.walk(c.target)
        if isinstance(n, ast.Name)
    }
    used = {n.id for n in ast.walk(function) if isinstance(n, ast.Name)} - inner
    left = {n for n in used if host_names((n,))[n] == n}
    assert left == {"mean", "x", "w", "out", "buffer_0"}


# Modules and cases.

MODULE = """
name: case
reference:
  source: |
    import torch
    from torch import nn

    {constant} = 8


    class Layer(nn.Module):
        def __init__(self, count):
            super().__init__()
            self.gemm, self.norm = nn.Linear(count, 64), nn.GroupNorm({constant}, 64)

        def forward(self, x):
            return self.norm(self.gemm(x))
  entry: Layer
  init_args: [128]
inputs:
  x: {{shape: [B, 128], dtype: fp32}}
extents: {{B: 100}}
cases:
  one: {{}}
  two: {{B: 37}}
"""


def emitted(text: str) -> str:
    return run(parse_spec(text, Path("case.yaml")), load_device("h200"), stop_after="view").made["view"].render()


def test_a_module_of_two_cases_shares_the_text() -> None:
    text = emitted(MODULE.format(constant="GROUPS"))
    assert "class Layer(nn.Module):" in text and text.rstrip().endswith("Model = Layer")
    assert "        self.norm.weight.detach()," in text.replace("            self.norm", "        self.norm")
    assert re.findall(r"^CASE_(\w+)_0 = ", text, re.MULTILINE) == ["ONE", "TWO"]
    plan = ast.literal_eval(next(s.text for s in statements_of(text) if s.name == "PLAN").partition(" = ")[2])
    assert [shapes[0] for shapes in plan] == [(100, 128), (37, 128)]


@pytest.mark.parametrize("constant", ["OUT_0", "VARIANTS_1", "PERSISTENT"])
def test_a_module_that_takes_a_name_of_the_file_is_refused(constant: str) -> None:
    with pytest.raises(ModuleNameError, match=f"case.yaml defines {constant}"):
        emitted(MODULE.format(constant=constant))


LOOP_OF_CASES = """
name: scaled
reference: |
  import torch


  def scaled(a, b):
      return torch.softmax(a @ b, -1) * (a.shape[0] / 3)
inputs:
  a: {shape: [M, 256], dtype: bf16}
  b: {shape: [256, 512], dtype: bf16}
extents: {M: 64}
cases:
  one: {}
  two: {M: 144}
"""


def test_cases_whose_loops_differ_have_functions_of_their_own() -> None:
    text = emitted(LOOP_OF_CASES)
    assert dict(re.findall(r'name="(\w+?)_\w+",[^(]*launch="(\w+_resident)"', text)) == {
        "one": "launch_scaled_1_resident",
        "two": "launch_scaled_1_two_resident",
    }
    functions = {n.name: ast.unparse(n) for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)}
    assert " * 48.0" in functions["scaled_1_two_resident"] and " * 48.0" not in functions["scaled_1_resident"]


def test_cases_of_other_kernels_are_refused() -> None:
    made, spec = mixed_specs.made_of("two_linears"), parse_spec(MODULE.format(constant="G"), Path("case.yaml"))
    program, plan = made["lower"]["default"], mixed_specs.plan_of("two_linears")
    shorter = replace(program, problems=program.problems[:1])
    with pytest.raises(CasesDifferError, match=r"case default prints `two_linears_1: .*case other prints `no kernel`"):
        view_program(spec, {"default": program, "other": shorter}, plan)


# Statements.

TEXT = '''
# why
A = 1  # one


def f(x, A_of):
    """A of f."""
    return x.A + A * f(x, A=3) + A_of


class C:
    A: int = A
'''


def test_names_are_numbered_where_they_are_names() -> None:
    made = numbered(statements_of(TEXT), 3)
    assert joined(made.values()) == (
        '# why\nA_3 = 1  # one\n\n\ndef f_3(x, A_of):\n    """A of f."""\n'
        "    return x.A + A_3 * f_3(x, A=3) + A_of\n\n\nclass C_3:\n    A: int = A_3"
    )
    assert [s.name for s in numbered(statements_of("A = 1\nB = lambda: A_0\n"), 0).values()] == ["A_0_", "B_0_"]


HEADS = ("names = [", "found = some_function_of(", "return {", "return a, [", "call(x)(lambda: [")


@pytest.mark.parametrize("clauses", ["", " if b[a] in some_other_names_that_are_wanted_and_in_the_order_that_is_given"])
@pytest.mark.parametrize("head", HEADS)
def test_long_comprehensions_are_broken_as_ruff_breaks_them(head: str, clauses: str, tmp_path: Path) -> None:
    names = ", ".join(f"argument_{i}" for i in range(6))
    closing = "])" if head.endswith("(lambda: [") else {"[": "]", "(": ")", "{": "}"}[head[-1]]
    text = f"def f(b):\n    {head}some_function(a, b) for a in b.of_all_things({names}){clauses}{closing}"
    (tmp_path / "a.py").write_text(fitted(text) + "\n")
    command = [sys.executable, "-m", "ruff", "format", "--diff", "--line-length", "120", "--no-cache", str(tmp_path)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout


@pytest.mark.parametrize("count", [1, 2, 4, 9, 30])
@pytest.mark.parametrize("head", ["{name}(", "x = {name}(v).launch(", "for i in range(", "def {name}("])
def test_long_lines_are_broken_as_ruff_breaks_them(count: int, head: str, tmp_path: Path) -> None:
    items = ", ".join(f"argument_{i}" for i in range(count))
    text = head.format(name="some_function") + items + ("):" if head.startswith(("def", "for")) else ")")
    text += "\n    pass" if text.endswith(":") else ""
    (tmp_path / "a.py").write_text(fitted(text) + "\n")
    found = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--diff", "--line-length", "120", "--no-cache", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout


def test_a_last_comma_on_one_line_goes_but_that_of_one_item() -> None:
    assert fitted("f(v, (a, b,), (c,), [d, e,])") == "f(v, (a, b), (c,), [d, e])"
