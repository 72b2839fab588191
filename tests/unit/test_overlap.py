"""Kernels that start while the one before them ends: which plans have them, and that their text waits in time."""

import ast
from collections.abc import Iterator

import emitted_specs
import pytest

from kgen.families.gemm.overlap import LEAST_SHARE
from kgen.families.gemm.rules_facts import GemmFacts
from kgen.planning.candidates import RankedGemm, solve_gemm
from kgen.planning.plan_gemm import GemmVariant
from kgen.target import load_device

H200 = load_device("h200")
SAVED_US = H200.value("fitted.launch_overlap")
# One of each kind of text: tma, split, staged, gated, planes, and operands exchanged.
OVERLAPPING = ("plain", "odd_k", "gated", "fp32", "decode", "fp8_decode")
WAIT, TRIGGER = "cute.arch.griddepcontrol_wait", "cute.arch.griddepcontrol_launch_dependents"


def best(facts: GemmFacts, device: str = "h200") -> RankedGemm:
    return solve_gemm(facts, load_device(device), top=1).ranked[0]


def test_short_kernels_start_early_and_long_ones_do_not() -> None:
    short, long = best(GemmFacts(16, 4096, 4096)), best(GemmFacts(8192, 8192, 8192))
    assert short.overlap_us == SAVED_US and f"{SAVED_US:g} us earlier" in str(short)
    assert short.term("launch") == pytest.approx(H200.value("fitted.launch") - SAVED_US)
    assert long.overlap_us == 0 and "earlier" not in str(long)
    assert "overlap_us" in short.to_json() and "overlap_us" not in long.to_json()


def test_what_it_saves_is_a_share_of_the_time() -> None:
    for ranked in solve_gemm(GemmFacts(128, 8192, 8192), H200, top=None).ranked:
        assert ranked.overlap_us == 0 or LEAST_SHARE * (ranked.time_us + ranked.overlap_us) <= ranked.overlap_us + 1e-3
        if ranked.candidate.number("split_k") > 1:
            assert ranked.overlap_us == 0  # the kernel that adds up parts has an early start of its own
        elif ranked.ctas >= 128:
            assert (ranked.overlap_us > 0) is (LEAST_SHARE * (ranked.time_us + ranked.overlap_us) <= SAVED_US)


def test_kernels_that_read_much_and_leave_units_idle_start_in_turn() -> None:
    idle = best(GemmFacts(16, 14336, 4096))  # 112 tiles
    assert idle.ctas == 112 and idle.overlap_us == 0
    assert best(GemmFacts(64, 4096, 4096)).overlap_us > 0  # 128 of them
    assert best(GemmFacts(256, 256, 256)).overlap_us > 0  # few, but there is little to read


def test_each_of_the_kernels_of_planes_starts_early() -> None:
    facts = GemmFacts(256, 256, 256, in_dtype="fp32", out_dtype="fp32", in_bytes=4, out_bytes=4)
    planes = solve_gemm(facts, H200, fixed={"load_path": "tma"}, top=1).ranked[0]
    launches = planes.term("launch") + planes.term("cut")
    assert planes.overlap_us == pytest.approx(SAVED_US, abs=0.05)
    assert 3 * (H200.value("fitted.launch") - SAVED_US) <= launches < 3 * H200.value("fitted.launch")


def test_nothing_starts_early_where_the_device_has_no_such_launch() -> None:
    assert best(GemmFacts(16, 4096, 4096), "mi300x").overlap_us == 0


def kernels_of(text: str) -> Iterator[ast.FunctionDef]:
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and any(ast.unparse(d) == "cute.kernel" for d in node.decorator_list):
            yield node


@pytest.mark.parametrize("name", OVERLAPPING)
def test_every_kernel_waits_before_it_calls_what_loads_and_stores(name: str) -> None:
    text = emitted_specs.files_of(name)["kernel.py"]
    assert any(isinstance(v, GemmVariant) and v.overlaps for v in emitted_specs.plan_of(name).variants)
    for kernel in kernels_of(text):
        at_top = [ast.unparse(s) for s in kernel.body]
        waits = at_top.index(f"{WAIT}()")  # by every thread: not inside of a branch
        called = [i for i, s in enumerate(kernel.body) for c in ast.walk(s) if isinstance(c, ast.Call) and own(c)]
        assert called and waits < min(called), kernel.name
    assert text.count("use_pdl=v.overlaps") == text.count(".launch(") == text.count("stream=stream")


def own(call: ast.Call) -> bool:
    """Whether a call is of a function of the file that gets at device memory."""
    return isinstance(call.func, ast.Name) and call.func.id.startswith(
        ("find_", "load_", "consume_", "cut", "mainloop", "is_un")
    )


@pytest.mark.parametrize("name", OVERLAPPING)
def test_the_next_kernel_may_start_when_the_last_load_is_issued(name: str) -> None:
    tree = ast.parse(emitted_specs.files_of(name)["kernel.py"])
    loads = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name in ("load_tiles", "load_part")]
    for function in loads:
        last = [ast.unparse(s) for s in function.body]
        assert f"{TRIGGER}()" in last[-2:], function.name  # after the loop over tiles


def test_kernels_that_would_save_too_little_have_no_text_for_it() -> None:
    text = emitted_specs.files_of("fp32_result")["kernel.py"]
    assert "griddepcontrol" not in text and "use_pdl" not in text and "overlaps" not in text
