"""Loop kernels on CDNA as text: lengths, names of the DSL, large tensors, plans of two devices."""

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from code_lines import parts_of
from emitted_specs import FP32, e

import kgen
from kgen.backends.flydsl import loop_dialect
from kgen.backends.loops.file import loops_page
from kgen.families.strided.facts import facts_of
from kgen.families.strided.rules import bind_loop
from kgen.frontend.importers import spec_from_callable
from kgen.pipeline import run
from kgen.planning.loops import solve_loop
from kgen.planning.plan import Plan
from kgen.rules.solve import solve
from kgen.target import load_device

ROOT = Path(__file__).resolve().parents[2]
GOLDENS = sorted(p for d in ("mi300x", "mi355x") for p in (ROOT / "generated" / d).glob("*/kernel.py"))
LOOPS = [path for path in GOLDENS if "class Access" in path.read_text(encoding="utf-8")]
HOST = ("NAME", "RULES", "LAUNCH", "SIGNATURES", "PLAN", "HINTS", "compile_variant", "compiled", "refusal", "run")
HOST += ("strides_that_count", "require_taken", "kernel")
TOO_LONG = pytest.mark.xfail(strict=True, reason="138 lines: what five variants of three kernels take is 40 of them")


def title(path: Path) -> str:
    return f"{path.parents[1].name}-{path.parent.name}"


def made(fn, inputs, device: str = "mi300x") -> dict:
    return dict(run(spec_from_callable(fn, inputs, name="made"), load_device(device)).made)


def test_there_are_goldens_of_every_loop_spec_on_both() -> None:
    assert len(LOOPS) >= 30


@pytest.mark.parametrize(
    "path", [pytest.param(p, marks=[TOO_LONG] if "batch_norm" in str(p) else [], id=title(p)) for p in LOOPS]
)
def test_the_budget_of_host_code(path: Path) -> None:
    parts = parts_of(path.read_text(encoding="utf-8"))
    assert sum(parts.get(name, 0) for name in HOST) <= 120


@pytest.mark.parametrize("path", [pytest.param(p, id=title(p)) for p in LOOPS])
def test_the_budget_of_a_device_kernel(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    parts, functions = parts_of(text), [n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)]
    kernels = [f.name for f in functions if "flyc.kernel" in map(ast.unparse, f.decorator_list)]
    assert kernels and max(parts[name] for name in kernels) <= 120


@pytest.mark.parametrize("path", LOOPS, ids=title)
def test_names(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    modules = [n.module or "" for n in ast.walk(ast.parse(text)) if isinstance(n, ast.ImportFrom)]
    assert not {"kgen", "hardware"} & {module.split(".")[0] for module in modules}
    assert "cutlass" not in text and "cute." not in text
    for word in ("fx.tanh", "fx.floor", "fx.sin", "fx.erf", "fx.powf", "fx.log2"):  # calls into the device library
        assert f"{word}(" not in text


def test_large_tensors_are_read_by_address() -> None:
    texts = {d: (ROOT / "generated" / d / "full_sum_fp32" / "kernel.py").read_text() for d in ("mi300x", "mi355x")}
    for text in texts.values():
        assert "read_far(v, x_at, x," in text and "x = bounded(x)" not in text  # of 2**32 bytes
        assert "buffer_0 = bounded(buffer_0)" in text
    small = (ROOT / "generated" / "mi300x" / "rms_norm_bf16" / "kernel.py").read_text()
    assert "_far" not in small


def test_the_limit_of_a_descriptor_is_the_dialects() -> None:
    assert loop_dialect.MOST_BYTES == 2**32 - 64
    found = made(lambda x: x * 2, [e(64, 64, dtype=FP32)])
    plan, spec, programs = (
        found["plan"],
        spec_from_callable(lambda x: x * 2, [e(64, 64, dtype=FP32)]),
        found["partition"],
    )
    dialect = loop_dialect.flydsl_loops(plan.device.arch)
    page = loops_page(replace(dialect, most_bytes=64), spec, dict(programs), plan)
    assert (
        "read_far(" in page.render()
        and "write_far(" in page.render()
        and "read_far(" not in found["render"]["kernel.py"]
    )


def test_two_devices_of_one_arch_have_plans_of_their_own() -> None:
    """MI308X has 80 units and MI300X 304: what fills one does not fill the other."""
    plans: dict[str, Plan] = {d: made(lambda x: x.sum(0), [e(512, 4096)], d)["plan"] for d in ("mi300x", "mi308x")}
    chosen = {d: [v.choice.candidate.choices for v in plan.variants] for d, plan in plans.items()}
    assert chosen["mi300x"] != chosen["mi308x"]
    assert {str(v.form.family) for plan in plans.values() for v in plan.variants} <= {"reduction", "pointwise"}


def test_cases_that_sum_exponentials_in_other_ways_have_functions_of_their_own() -> None:
    """Rows of 4096 from any address are walked along in two reductions on MI308X, rows of 131072 in one."""
    found = dict(run(kgen.load_spec(ROOT / "specs" / "softmax_bf16.yaml"), load_device("mi308x")).made)
    text = found["render"]["kernel.py"]
    launches = re.findall(r'name="(\w+)",[^(]*launch="(\w+)"', text)
    of_case = {name.removesuffix("_any"): launch for name, launch in launches}
    assert of_case == {
        "rows_256_resident": "launch_softmax_bf16_resident",
        "rows_4096_resident": "launch_softmax_bf16_resident",
        "rows_4096_streamed": "launch_softmax_bf16_streamed",
        "rows_131072_streamed": "launch_softmax_bf16_rows_131072_streamed",
    }
    functions = {n.name: ast.unparse(n) for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)}
    assert "join_exponents(" not in functions["softmax_bf16_streamed"]
    assert "join_exponents(" in functions["softmax_bf16_rows_131072_streamed"]
    for launch in of_case.values():
        assert f"launched = {launch.removeprefix('launch_')}(" in functions[launch]


@pytest.mark.parametrize("device", ["mi300x", "mi355x"])
def test_rules_know_warps_of_64_and_the_registers(device: str) -> None:
    form = made(lambda x: torch.softmax(x, -1), [e(512, 4096)])["plan"].variants[0].form
    facts = facts_of(form, 16)
    legal = solve(bind_loop("reduction", facts, load_device(device)), {})
    assert legal.count and set(legal.columns["threads"].tolist()) <= {64, 128, 256, 512, 1024}
    assert max(legal.columns["regs"]) <= 256 and "cluster" not in legal.columns
    best = solve_loop("reduction", facts, load_device(device), top=1).ranked[0].candidate
    assert "cluster" not in str(best)


def test_a_cast_in_the_middle_rounds_though_products_contract() -> None:
    """Under `contract` LLVM lets a conversion and its inverse vanish: y was x * 3, and not bf16(x) * 3."""
    text = made(lambda x: x.to(torch.bfloat16).float() * 3.0, [e(64, 128, dtype=FP32)])["render"]["kernel.py"]
    assert "x1 = rounded(x0, fx.BFloat16)" in text and "with fx.fastmath(fx.FastMathFlags.none):" in text
    assert "contract" in text


@pytest.mark.parametrize(
    ("device", "read", "by_integers"),
    [
        ("mi300x", torch.bfloat16, True),
        ("mi300x", torch.float16, False),
        ("mi300x", FP32, False),
        ("mi355x", torch.bfloat16, False),
    ],
)
def test_bf16_is_rounded_in_integers_where_no_nan_can_be_lost(
    device: str, read: torch.dtype, by_integers: bool
) -> None:
    """A NaN of fp16 or fp32 can have bits below those of bf16; gfx950 has a conversion."""
    text = made(lambda x: torch.softmax(x.float(), -1).bfloat16(), [e(64, 128, dtype=read)], device)["render"]
    assert ("= to_bf16(" in text["kernel.py"]) is by_integers
    assert (".to(fx.BFloat16)" in text["kernel.py"]) is not by_integers


def test_one_lane_of_a_warp_writes_its_state() -> None:
    text = made(lambda x: x.sum(-1), [e(8, 8192)])["render"]["kernel.py"]
    assert "if fx.thread_idx.x % WARP == 0:" in text and text.count("leave_state(slots, state") == 2
