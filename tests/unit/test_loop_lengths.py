"""Loop kernels keep the length budget of emitted files, and take nothing from the library that no kernel needs."""

import ast
from pathlib import Path

import loop_specs
import pytest
from code_lines import called_by, parts_of

from kgen.backends.cutedsl.loop_dialect import CUTEDSL_LOOPS
from kgen.backends.loops.states import StateMaker
from kgen.ir.dtype import DType
from kgen.ir.problem import Combine, Reduce
from kgen.resources import templates_dir

ROOT = Path(__file__).resolve().parents[2]
DEVICE_LINES, HOST_LINES = 120, 120
WITH_LIBRARY_LINES = 280  # a kernel and the functions it calls, which its file holds, too
HOST = (
    *("NAME", "SIGNATURES", "LAUNCH", "RULES", "PERSISTENT", "ACCEPTS", "PLAN"),
    *("CACHE", "compile_variant", "loaded", "compiled", "refusal", "run", "kernel"),
)


def text_of(package: str) -> str:
    return (ROOT / "generated" / "h200" / package / "kernel.py").read_text(encoding="utf-8")


PACKAGES = sorted(
    p.parent.name for p in ROOT.glob("generated/h200/*/kernel.py") if "class Access" in p.read_text("utf-8")
)


def loop_kernels(text: str) -> list[str]:
    """Return the names of the device functions of loops."""
    functions = [n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)]
    kernels = [f.name for f in functions if "cute.kernel" in map(ast.unparse, f.decorator_list)]
    return [name for name in kernels if not name.startswith("gemm_")]


TOO_LONG = pytest.mark.xfail(strict=True, reason="143 lines: what five variants of three kernels take is 40 of them")


@pytest.mark.parametrize(
    "package", [pytest.param(p, marks=[TOO_LONG] if p == "batch_norm_fp32_train" else []) for p in PACKAGES]
)
def test_the_budget_of_host_code(package: str) -> None:
    parts = parts_of(text_of(package))
    host = sum(parts.get(part, 0) for part in HOST)
    assert host <= HOST_LINES, f"host part: {host} code lines"


@pytest.mark.parametrize("package", PACKAGES)
def test_a_device_kernel_with_all_that_it_calls(package: str) -> None:
    text = text_of(package)
    parts = parts_of(text)
    lines = {kernel: sum(parts[f] for f in called_by(text, kernel)) for kernel in loop_kernels(text)}
    assert lines and max(lines.values()) <= WITH_LIBRARY_LINES, lines


@pytest.mark.parametrize("package", PACKAGES)
def test_the_budget_of_a_device_kernel(package: str) -> None:
    text = text_of(package)
    parts = parts_of(text)
    lines = {kernel: parts[kernel] for kernel in loop_kernels(text)}
    assert lines and max(lines.values()) <= DEVICE_LINES, lines


# The library of loops.

LIBRARY = ast.parse((templates_dir() / "cutedsl" / "lib" / "loops.py").read_text(encoding="utf-8"))
SHARED = tuple(
    n.value.attr
    for n in LIBRARY.body
    if isinstance(n, ast.Assign) and isinstance(n.value, ast.Attribute) and n.value.attr.islower()
)
FUNCTIONS = (*(n.name for n in LIBRARY.body if isinstance(n, ast.FunctionDef)), *SHARED)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_function_of_the_library_is_in_some_kernel(function: str) -> None:
    texts = (loop_specs.files_of(name)["kernel.py"] for name in loop_specs.FUNCTIONS)
    assert any(f"def {function}(" in text for text in texts)


def test_a_kernel_takes_over_what_it_calls_and_nothing_else() -> None:
    for name in loop_specs.FUNCTIONS:
        text = loop_specs.files_of(name)["kernel.py"]
        called = {f for kernel in loop_kernels(text) for f in called_by(text, kernel)}
        taken = {f for f in FUNCTIONS if f"\ndef {f}(" in text}
        assert taken == called & set(FUNCTIONS), name


@pytest.mark.parametrize("combine", Combine)
def test_states_are_joined_by_a_function_of_the_library_or_their_own(combine: Combine) -> None:
    state = StateMaker(CUTEDSL_LOOPS).state_of(Reduce("y", combine, "x", ("i",), DType.FP32), DType.FP32, "y")
    assert len(state.names) == len(state.types) == len(state.identities)
    assert (state.join in FUNCTIONS) != state.join_source.startswith(f"def {state.join}(a, b):")
