"""The text of kernel.py of products on CDNA over the matrix of specs: clean, short, standalone, stable names alone."""

import ast
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import emitted_specs
import pytest
from code_lines import parts_of

from kgen.backends.flydsl.expressions import flydsl
from kgen.target import load_device

ROOT = Path(__file__).resolve().parents[2]
DEVICE_LINES, HOST_LINES = 300, 120
DEVICES = ("mi300x", "mi355x")
# Two fix axes of Hopper's, gates and scales of blocks are programs of several kernels here, groups of rows are refused,
# and no kernel takes an extent at run time.
_ELSEWHERE = ("fixed", "deep_cases", "gated", "gated_int8")
_REFUSED = tuple(name for name in emitted_specs.NAMES if name.startswith(("fp8_blocks", "grouped")))
_NOT_HERE = (*_ELSEWHERE, *_REFUSED, *emitted_specs.OF_RUN_TIME)
LOOPS = {"mi300x": ("one_row", "one_column"), "mi355x": ()}  # predicted faster than a product
NAMES = {
    device: tuple(name for name in emitted_specs.NAMES if name not in (*_NOT_HERE, *LOOPS[device]))
    for device in DEVICES
}
PAIRS = [(name, device) for device in DEVICES for name in NAMES[device]]
HOST = ("NAME", "RULES", "LAUNCH", "POINTERS", "PLAN", "compile_variant", "compiled", "fits", "refusal", "kernel")


def kernel(name: str, device: str) -> str:
    files = emitted_specs.made_of(name, device)["render"]
    assert isinstance(files, dict)
    return str(files["kernel.py"])


def called_by(name: str, functions: Mapping[str, ast.FunctionDef]) -> set[str]:
    """Return a function and those that it names, and those that these name."""
    found, open_names = set(), {name}
    while open_names:
        each = open_names.pop()
        found.add(each)
        named = {n.id for n in ast.walk(functions[each]) if isinstance(n, ast.Name) and n.id in functions}
        open_names |= named - found
    return found


@pytest.mark.parametrize("device", DEVICES)
def test_lint_and_format(device: str, tmp_path: Path) -> None:
    for name in NAMES[device]:
        (tmp_path / f"{name}.py").write_text(kernel(name, device), encoding="utf-8")
    settings = ["--config", str(ROOT / "pyproject.toml"), "--no-cache", str(tmp_path)]
    for command in (["check", "--output-format", "concise"], ["format", "--check"]):
        found = subprocess.run(
            [sys.executable, "-m", "ruff", *command, *settings], capture_output=True, text=True, check=False
        )
        assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.parametrize(("name", "device"), PAIRS)
def test_length_budgets(name: str, device: str) -> None:
    text, parts = kernel(name, device), parts_of(kernel(name, device))
    functions = {n.name: n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)}
    library = flydsl(load_device(device).arch.fp8).library_names()  # the user's ops come on top
    launches = [f for f in functions if f.startswith("launch_")]
    assert launches
    for launch in launches:
        called = called_by(launch, functions) - {*HOST, *library, launch}
        lines = sum(parts[f] for f in called)
        assert lines <= DEVICE_LINES, f"{launch}: {lines} code lines"
    host = sum(parts[part] for part in HOST if part in parts)
    assert host <= HOST_LINES, f"host part: {host} code lines"


@pytest.mark.parametrize(("name", "device"), PAIRS)
def test_a_kernel_is_standalone_and_names_what_flydsl_keeps_stable(name: str, device: str) -> None:
    tree = ast.parse(kernel(name, device))
    imported = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    imported |= {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    roots = {module.split(".")[0] for module in imported}
    assert roots - set(sys.stdlib_module_names) == {"flydsl", "torch"}
    used = {ast.unparse(n) for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    assert {n for n in used if n.startswith("flyc.")} <= {
        "flyc.compile",
        "flyc.from_c_void_p",
        "flyc.jit",
        "flyc.kernel",
    }
    rocdl = {n.removeprefix("fx.rocdl.") for n in used if n.startswith("fx.rocdl.")}
    stable = {"BufferCopy", "MFMA", "make_buffer_ptr", "asyncmark", "wait_asyncmark", "cdna4"}
    stable |= {"sched_vmem", "sched_mfma", "sched_dswr"}
    cdna4 = {"cdna4.BufferLoadAsyncLDS128b", "cdna4.LDSReadTrans", "cdna4.MFMA_Scale"}
    assert rocdl <= stable | cdna4 if device == "mi355x" else rocdl <= stable - {"cdna4"}


@pytest.mark.parametrize("device", DEVICES)
def test_rules_of_every_variant_hold_as_printed(device: str) -> None:
    for name in ("plain", "columns", "fp16", "odd_k", "input_ops", "cases"):
        text = kernel(name, device)
        head = text[: text.index("def bytes_of")]
        rules = head[head.index("@dataclass") :]
        found: dict[str, object] = {}
        exec(f"from dataclasses import dataclass\n{rules}", found)
        variants = found["VARIANTS"]
        assert isinstance(variants, tuple)
        for v in variants:
            table = text.split("RULES = {\n")[1].split("}")[0]
            function = next(line.split(": ")[1].rstrip(",") for line in table.splitlines() if f'"{v.name}"' in line)
            broken = [rule for rule, holds, _ in found[function](v) if not holds]  # type: ignore[operator]
            assert not broken, (name, v.name, broken)
