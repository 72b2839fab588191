"""The text of kernel.py over a matrix of specs: clean, short, standalone, no name in another's way."""

import ast
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import emitted_specs
import pytest
import torch
from code_lines import parts_of

from kgen.backends.cutedsl.names import device_names
from kgen.backends.source.names import host_names
from kgen.errors.backend import CasesDifferError, MixedKernelsError, ModuleNameError
from kgen.frontend.importers import spec_from_callable
from kgen.pipeline import run
from kgen.spec.load import parse_spec
from kgen.target import load_device

ROOT = Path(__file__).resolve().parents[2]
DEVICE_LINES, HOST_LINES = 300, 120


def kernel(name: str) -> str:
    return emitted_specs.files_of(name)["kernel.py"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with every kernel.py of the matrix."""
    folder = tmp_path_factory.mktemp("kernels")
    for name in emitted_specs.NAMES:
        (folder / f"{name}.py").write_text(kernel(name), encoding="utf-8")
    return folder


@pytest.mark.parametrize("command", [["check", "--output-format", "concise"], ["format", "--check"]])
def test_lint_and_format(folder: Path, command: list[str]) -> None:
    settings = ["--config", str(ROOT / "pyproject.toml"), "--no-cache"]
    found = subprocess.run(
        [sys.executable, "-m", "ruff", *command, *settings, str(folder)], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr


def test_the_counter_counts() -> None:
    text = '"""Doc."""\n\n# why\nX = (\n    1,  # one\n)\n\n\ndef f():\n    """Doc\n    x."""\n    return """a\nb"""\n'
    assert parts_of(text) == {"": 0, "X": 3, "f": 3}


# What the kernels around a product of planes have for themselves.
OF_FMA = ("tiles", "load_tile", "place", "store_tile", "is_uncertain")
OF_CUT = ("operand_a", "operand_b", "place_of", "runs_of", "exponent_of", "join_rows", "find_most", "cut_rows", "cut")
OF_CUT += ("place_of_cta", "find_pieces", "find_largest")
OF_PARTS = ("k_share", "ctas_of_part", "parts_layout", "load_one_part", "of_operand", "consume_one_part")
OF_SUM = ("in_flight", "sum_of_parts", "shares", "sum_parts")
HOST = ("NAME", "RULES", "LAUNCH", "SIGNATURES", "PLAN", "planned", "compile_variant", "compiled", "refusal", "kernel")


@pytest.mark.parametrize("name", emitted_specs.NAMES)
def test_length_budgets(name: str) -> None:
    parts = parts_of(kernel(name))
    host = sum(parts[part] for part in HOST if part in parts)
    tree = ast.parse(kernel(name))
    functions = [n.name for n in tree.body if isinstance(n, ast.FunctionDef)]
    device = [f for f in functions if f not in HOST and not f.startswith(("rules_", "launch_"))]
    kernels = [f for f in device if f.startswith("gemm_") or f == "cut_operands"]
    only = {
        "gemm_simt": (*OF_FMA, *(f for f in device if f.endswith("_fma"))),
        "cut_operands": OF_CUT,
        "gemm_tma": ("load_tiles", "of_operand", "consume_tiles"),
        "gemm_split": ("k_share", "load_part", "of_operand", "add_parts", "consume_part"),
        "gemm_parts": (*OF_PARTS, *OF_SUM),
        "gemm_staged": ("copy_tile", "load_tiles_staged", "batch_offset"),
    }
    for each in kernels:
        others = {f for k in kernels if k != each for f in (k, *only.get(k, ()))}
        lines = sum(parts[f] for f in device if f not in others)
        assert lines <= DEVICE_LINES, f"{each}: {lines} code lines"
    further = max(len(emitted_specs.plan_of(name).variants) - 6, 0)  # of an extent of run time: a signature each
    assert host <= HOST_LINES + 8 * further, f"host part: {host} code lines"


@pytest.mark.parametrize("name", emitted_specs.NAMES)
def test_a_kernel_is_standalone_and_does_nothing_on_import(name: str) -> None:
    tree = ast.parse(kernel(name))
    imported = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    imported |= {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    roots = {module.split(".")[0] for module in imported}
    assert roots - set(sys.stdlib_module_names) == {"cutlass", "torch"}
    assert "__future__" not in roots
    calls = [n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]
    assert "print" not in calls and "__main__" not in kernel(name)


def test_kernels_import_with_the_dsl_and_no_gpu(folder: Path) -> None:
    code = (
        "import importlib.util, sys\n"
        "if importlib.util.find_spec('cutlass') is None:\n    sys.exit(77)\n"
        f"for path in {[str(folder / f'{n}.py') for n in emitted_specs.NAMES]!r}:\n"
        "    spec = importlib.util.spec_from_file_location('kernel_' + path.split('/')[-1][:-3], path)\n"
        "    module = importlib.util.module_from_spec(spec)\n"
        "    sys.modules[spec.name] = module\n"
        "    spec.loader.exec_module(module)\n"
        "    assert callable(module.kernel) and module.VARIANTS, path\n"
        "    for v in module.VARIANTS:\n"
        "        rules = module.RULES.get(v.load_path) or module.RULES[v.name]\n"
        "        broken = [rule for rule, holds, _ in rules(v) if not holds]\n"
        "        assert not broken, (path, v.name, broken)\n"
        "assert not [m for m in sys.modules if m.split('.')[0] == 'kgen']\n"
    )
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": ""}
    found = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, env=environment, cwd=folder, check=False
    )
    if found.returncode == 77:
        pytest.skip("needs the CuTe DSL")
    assert found.returncode == 0, found.stderr
    assert found.stdout == ""


@pytest.mark.parametrize("name", emitted_specs.NAMES)
def test_no_text_names_this_machine(name: str) -> None:
    for file, text in emitted_specs.files_of(name).items():
        for word in (str(ROOT), f"{Path.home()}/", f"{tempfile.gettempdir()}/", os.uname().nodename):
            assert len(word) < 4 or word not in text, f"{file} holds {word}"
        assert not re.search(r"20\d\d-[01]\d-[0-3]\d", text), f"{file} holds a date"


# Names of the user's tensors are bound in launch functions, in epilogue_ops and in the host function.
_LAUNCHES = ("tma", "split", "parts", "staged", "planes", "planes_parts", "simt", "no_k")
BINDERS = (*(f"launch_{kind}" for kind in _LAUNCHES), "kernel", "epilogue_ops")


@pytest.mark.parametrize("name", emitted_specs.NAMES)
def test_no_name_of_the_kernel_is_left_to_the_user(name: str) -> None:
    (program, *_) = emitted_specs.made_of(name)["lower"].values()
    arguments = tuple(a.name for a in program.arguments)
    for function in ast.parse(kernel(name)).body:
        if not isinstance(function, ast.FunctionDef) or function.name not in BINDERS:
            continue
        if function.name == "kernel" and "PERSISTENT" in kernel(name):
            continue  # the host code of a program, in which all tensors get their names together
        names_of = host_names if function.name == "kernel" else device_names
        user = set(names_of(arguments).values())
        inner = {
            n.id
            for c in ast.walk(function)
            if isinstance(c, ast.comprehension)
            for n in ast.walk(c.target)
            if isinstance(n, ast.Name)
        }
        used = {n.id for n in ast.walk(function) if isinstance(n, ast.Name)} | {a.arg for a in function.args.args}
        left = {n for n in used - user - inner if names_of((n,))[n] == n}
        assert not left, f"{function.name} uses {sorted(left)}, which a tensor may be called"


def test_names_stay_the_users_where_they_can() -> None:
    assert device_names(("a", "weight", "input", "x", "bias_1")) == {
        n: n for n in ("a", "weight", "input", "x", "bias_1")
    }
    assert host_names(("k", "v", "x1", "silu", "d")) == {"k": "k", "v": "v", "x1": "x1", "silu": "silu", "d": "d_"}
    assert device_names(("d", "v", "x1", "lambda", "silu", "a.b", "a_b")) == {
        "d": "d_",
        "v": "v_",
        "x1": "x1_",
        "lambda": "lambda_",
        "silu": "silu_",
        "a.b": "a_b",
        "a_b": "a_b_",
    }


def test_every_variant_field_is_set_once() -> None:
    for name in emitted_specs.NAMES:
        for node in ast.walk(ast.parse(kernel(name))):
            if isinstance(node, ast.ClassDef) and node.name == "Variant":
                fields = [s.target.id for s in node.body if isinstance(s, ast.AnnAssign)]
                assert len(fields) == len(set(fields)), name
            if isinstance(node, ast.Dict):
                keys = [ast.unparse(k) for k in node.keys if k is not None]
                assert len(keys) == len(set(keys)), name


def test_input_ops_are_in_ssa_form() -> None:
    (function,) = [n for n in ast.parse(kernel("gated_input")).body if getattr(n, "name", "") == "a_ops"]
    assert [ast.unparse(s) for s in function.body[1:-1]] == [
        "x1 = x0.to(cutlass.Float32)",
        "x2 = sigmoid(x1)",
        "x3 = x1 * x2",
        "x4 = x3.to(cutlass.BFloat16).to(cutlass.Float32)",
    ]


def test_a_tuple_of_one_is_returned_as_one() -> None:
    spec = spec_from_callable(lambda a, b: (a @ b,), (emitted_specs.e(64, 64), emitted_specs.e(64, 64)), name="case")
    text = run(spec, load_device("h200")).made["render"]["kernel.py"]
    (function,) = [n for n in ast.parse(text).body if getattr(n, "name", "") == "kernel"]
    assert ast.unparse(function.body[-1]) == "return (d,)"
    (function,) = [n for n in ast.parse(kernel("plain")).body if getattr(n, "name", "") == "kernel"]
    assert ast.unparse(function.body[-1]) == "return d"


# Cases of one spec share the text.

TWO_CASES = """
name: case
reference: |
  import math


  def gemm(a, b):
      return {body}
inputs:
  a: {{shape: [M, K], dtype: {dtype}}}
  b: {{shape: [K, N], dtype: {dtype}}}
extents: {{M: 512, N: 512, K: 512}}
cases:
  one: {{}}
  two: {{{extents}}}
"""


@pytest.mark.parametrize(
    ("body", "extents", "dtype", "error", "message"),
    [
        (
            "a @ b / math.sqrt(a.shape[1])",
            "K: 256",
            "bf16",
            CasesDifferError,
            r"x0 \* \(1\.0 / 22\.627.*x0 \* \(1\.0 / 16\.0",
        ),
        ("a[-64:] @ b", "M: 256", "bf16", CasesDifferError, "a.iterator \\+ 229376.*a.iterator \\+ 98304"),
        ("a @ b", "N: 1", "bf16", CasesDifferError, "case one prints `a.iterator` where case two prints `b.iterator`"),
        ("a @ b", "K: 0", "bf16", MixedKernelsError, "case one needs a kernel with wgmma"),
    ],
)
def test_cases_that_need_another_text_are_refused(body, extents, dtype, error, message) -> None:
    spec = parse_spec(TWO_CASES.format(body=body, extents=extents, dtype=dtype), Path("case.yaml"))
    with pytest.raises(error, match=message) as caught:
        run(spec, load_device("h200"), stop_after="view")
    assert caught.value.exit_code == 3


# A module comes along with what its constructor needs, and nothing else.


def run_module(text: str) -> tuple[torch.nn.Module, ast.Module]:
    """Execute the module part of a kernel.py, without the DSL, and construct its Model."""
    tree = ast.parse(text)
    names = [getattr(n, "name", "") for n in tree.body]
    kept = [n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom) and "cutlass" not in ast.unparse(n)]
    kept += tree.body[names.index("kernel") + 1 :]
    scope: dict[str, object] = {"kernel": lambda *tensors: tensors}
    exec(compile(ast.Module(kept, []), "module", "exec"), scope)
    return scope["Model"], tree


def test_a_module_keeps_its_constructor_and_parameters() -> None:
    torch.manual_seed(3)
    model = run_module(kernel("module"))[0](128)
    scope: dict[str, object] = {}
    exec(emitted_specs.spec_of("module").reference.source, scope)
    torch.manual_seed(3)
    reference = scope["Layer"](128)
    assert model.state_dict().keys() == reference.state_dict().keys()
    for name, value in reference.state_dict().items():
        assert torch.equal(value, model.state_dict()[name]), name
    x = torch.ones(2, 256, 128, dtype=torch.bfloat16)
    given = model(x)
    assert [tuple(t.shape) for t in given] == [(2, 256, 128), (256,), (256, 128), (256,), ()]
    assert not any(t.requires_grad for t in given)


MODULE = """
name: case
reference:
  source: |
    import torch
    from torch import nn

    {constant} = 2.0


    class Gain(nn.Module):
        def __init__(self, count):
            super(Gain, self).__init__()
            self.scale = nn.Parameter(torch.full((count,), {constant}, dtype=torch.bfloat16))
            self.unused = {{}}

        def helper(self, x):
            return torch.relu(x)

        def forward(self, x, w):
            return self.helper(x @ w) * self.scale
  entry: Gain
  init_args: [64]
inputs:
  x: {{shape: [64, 64], dtype: bf16}}
  w: {{shape: [64, 64], dtype: bf16}}
"""


def test_super_with_its_class_finds_it_and_what_forward_used_stays_behind() -> None:
    spec = parse_spec(MODULE.format(constant="START"), Path("case.yaml"))
    model, tree = run_module(run(spec, load_device("h200")).made["render"]["kernel.py"])
    assert model(64).scale.tolist() == [2.0] * 64
    (cls,) = [n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Gain"]
    assert [n.name for n in cls.body if isinstance(n, ast.FunctionDef)] == ["__init__", "forward"]
    assert ast.unparse(cls.body[-1].args) == "self, x, w"


@pytest.mark.parametrize("constant", ["OUT", "clusters", "VARIANTS", "kernel", "rules_tma"])
def test_a_module_that_takes_a_name_of_the_kernel_is_refused(constant: str) -> None:
    spec = parse_spec(MODULE.format(constant=constant), Path("case.yaml"))
    with pytest.raises(ModuleNameError, match=f"case.yaml defines {constant}, which its constructor uses"):
        run(spec, load_device("h200"), stop_after="view")


@pytest.mark.parametrize(
    ("arguments", "taken"),
    [
        ("x, w, gain=1.5, flag=True, none=None", {"gain": 1.5, "flag": True, "none": None}),
        ("x, w, gain=-2, name='a', more=1", {"gain": -2}),
        ("x, w, kernel=3, more=1", {}),
        ("x, w, gain=START", {}),
    ],
)
def test_numbers_of_forward_are_constants_that_the_module_checks(arguments: str, taken: dict[str, object]) -> None:
    spec = parse_spec(MODULE.format(constant="START").replace("self, x, w", f"self, {arguments}"), Path("case.yaml"))
    model, tree = run_module(run(spec, load_device("h200")).made["render"]["kernel.py"])
    (cls,) = [n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Gain"]
    forward = cls.body[-1]
    assert [a.arg for a in forward.args.args] == ["self", "x", "w", *taken]
    assert [ast.literal_eval(d) for d in forward.args.defaults] == list(taken.values())
    for name, value in taken.items():
        other = not value if isinstance(value, bool) else 7
        with pytest.raises(ValueError, match=rf"generated for {name} = {value}, not {other}"):
            model(64).forward(None, None, **{name: other})
