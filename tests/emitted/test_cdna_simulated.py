"""Packages run in the simulator with no GPU: right ones pass, each fault of a kernel or its host code is caught."""

import io
import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import cdna_fixtures
import pytest
from rich.console import Console

from kgen.check import PackageCheck, SimulatedResult, check, simulate_package
from kgen.check.cache import Cache
from kgen.check.simulate_worker import SimulateWorker
from kgen.check.table import whole_table

pytestmark = pytest.mark.emitted

# name of a fault of small_gemm: what its text has in place of what, and a part of the failure that shows it
FAULTS = {
    "no barrier before the product": (
        "        gpu.barrier()\n        for piece",
        "        for piece",
        "LDS race",
    ),
    "no barrier after the product": (
        "        gpu.barrier()\n        result",
        "        result",
        "LDS race",
    ),
    "no bound on C": (
        "fx.rocdl.make_buffer_tensor(c, num_records_bytes=fx.Int64(m * n * 2))",
        "fx.rocdl.make_buffer_tensor(c)",
        "out of bounds",
    ),
    "no bound on A": (
        "fx.rocdl.make_buffer_tensor(a, num_records_bytes=fx.Int64(m * k * 2))",
        "fx.rocdl.make_buffer_tensor(a)",
        "out of bounds",
    ),
    "one step of K too few": ("range(0, k // TILE_K, 1", "range(0, (k - 1) // TILE_K, 1", "rel_err"),
    "another swizzle for B": (
        "swizzled(smem.a, TILE_M), swizzled(smem.b, TILE_N)",
        "swizzled(smem.a, TILE_M), smem.b.view(fx.make_ordered_layout((TILE_N, TILE_K), (1, 0)))",
        None,  # right, but for bank conflicts
    ),
    "an accumulator that nobody clears": ("    acc.fill(0.0)\n", "", "rel_err"),
    "any address is taken": (" or t.data_ptr() % 16", "", "accepts a base 1 off an aligned address"),
    "the result is not the kernel's": ("    return c\n", "    return torch.zeros_like(c)\n", "rel_err 1 is above"),
    "an exception": ("    return c\n", "    raise RuntimeError('no result')\n", "RuntimeError: no result"),
}


Simulate = Callable[..., SimulatedResult]


@pytest.fixture(scope="module")
def worker() -> Iterator[SimulateWorker]:
    """One subprocess for all packages: what is wrong with one says nothing of the next."""
    with closing(SimulateWorker()) as worker:
        yield worker


@pytest.fixture
def simulated(worker: SimulateWorker, tmp_path: Path) -> Simulate:
    """Return what simulates a fixture with changes of its text."""

    def simulated(name: str, device: str, *changes: tuple[str, str]) -> SimulatedResult:
        text = (cdna_fixtures.SOURCES / name / "kernel.py").read_text()
        for old, new in changes:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        folder = tmp_path / str(len(list(tmp_path.iterdir()))) / name
        return simulate_package(cdna_fixtures.write(name, device, folder, text), worker)

    return simulated


@pytest.mark.parametrize("device", ["mi300x", "mi355x"])
def test_right_packages_pass_and_say_that_nothing_was_timed(tmp_path: Path, device: str) -> None:
    for name in cdna_fixtures.FIXTURES:
        result = check(cdna_fixtures.write(name, device, tmp_path / name), cache=Cache(tmp_path / "cache"))
        assert result.ok and result.device is None and result.simulated is not None, result.simulated
        assert {case.status for case in result.simulated.cases} == {"PASS"}
        assert all(case.compared_elements == case.elements > 0 for case in result.simulated.cases)
        assert result.simulated.notes == ()
        value = json.loads(json.dumps(result.to_json()))
        assert value["simulated"]["timed"] is False and value["device"] is None
        text, variant = text_of(result), result.compiled.variants[0].variant
        assert "simulated, not timed" in text
        assert f"the plan's estimate, no measurement: {variant} takes 2.5 us" in text


def text_of(result: PackageCheck) -> str:
    console = Console(width=200, file=io.StringIO(), record=True)
    console.print(whole_table(result))
    return console.export_text()


@pytest.mark.parametrize("fault", [name for name, (_, _, shown) in FAULTS.items() if shown])
def test_each_fault_is_caught_for_its_own_reason(simulated: Simulate, fault: str) -> None:
    old, new, shown = FAULTS[fault]
    result = simulated("small_gemm", "mi300x", (old, new))
    assert not result.ok
    assert shown is not None and any(shown in failure for failure in result.failures), result.failures


def test_a_swizzle_that_is_missing_costs_bank_conflicts(simulated: Simulate) -> None:
    right = simulated("small_gemm", "mi300x")
    old, new, _ = FAULTS["another swizzle for B"]
    wrong = simulated("small_gemm", "mi300x", (old, new))
    conflicts = [{k.whole.bank_conflict_cycles for c in r.cases for k in c.kernels} for r in (right, wrong)]
    assert right.ok and wrong.ok and conflicts[0] == {0} and 0 not in conflicts[1]


def test_a_host_function_that_takes_cpu_tensors_is_caught(simulated: Simulate) -> None:
    changes = ("not t.is_cuda or ", ""), ("v is None or a.device != b.device", "v is None")
    result = simulated("small_gemm", "mi300x", *changes)
    assert {"one_tile: accepts a on the CPU", "one_tile: accepts b on the CPU"} <= set(result.failures)


def test_counts_are_of_the_launch_and_name_its_variant(simulated: Simulate) -> None:
    result = simulated("small_gemm", "mi355x")
    case = next(case for case in result.cases if case.case == "ragged")
    (kernel,) = case.kernels
    assert (kernel.variant, kernel.workgroups, kernel.executed_workgroups) == ("m100n128k192", 4, 4)
    assert kernel.whole.flops == 2 * 128 * 128 * 192 and kernel.whole.mfma == kernel.whole.flops // (2 * 16 * 16 * 32)
    # each workgroup writes both tiles to LDS once a step; four waves read half of each
    assert kernel.whole.lds_bytes == 4 * 3 * (2 * 64 * 64 * 2 + 4 * 64 * 64 * 2)


def test_a_process_that_dies_is_a_failure_of_its_package_alone(simulated: Simulate) -> None:
    dies = "    import os\n\n    os.write(2, b'it died')\n    os.abort()\n"
    result = simulated("small_gemm", "mi300x", ("    return c\n", dies))
    assert not result.ok
    assert "the simulating process ended (killed by SIGABRT)\n" in result.failures[0]
    assert result.failures[0].endswith("it died")
    assert simulated("small_gemm", "mi300x").ok


def test_a_process_that_does_not_answer_is_replaced(tmp_path: Path) -> None:
    folder = cdna_fixtures.write("small_gemm", "mi300x", tmp_path / "small_gemm")
    with closing(SimulateWorker(limit_seconds=0.1)) as hurried:
        for _ in range(2):
            result = simulate_package(folder, hurried)
            assert result.failures == ("the simulating process ended (no answer within 0 s)",)


def test_of_a_large_grid_a_part_runs_and_what_it_wrote_is_compared(
    simulated: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 4_000_003
    large = cdna_fixtures.resized("scaled_add", {"large": ({"N": count}, (2 * count, 4 * count, 2 * count))})
    monkeypatch.setitem(cdna_fixtures.FIXTURES, "scaled_add", large)
    extents = ("EXTENTS = (10007, 4096)", f"EXTENTS = ({count},)")
    result = simulated("scaled_add", "mi300x", extents)
    (case,) = result.cases
    assert result.ok and 0 < case.compared_elements < case.elements, result.failures
    assert {k.executed_workgroups < k.workgroups for k in case.kernels} == {True}
    assert any("workgroups ran" in note for note in result.notes)
    wrong = (
        "total = fx.Vector(held_x.load()).to(fx.Float32) * 2.0",
        "total = fx.Vector(held_x.load()).to(fx.Float32) * 3.0",
    )
    result = simulated("scaled_add", "mi300x", extents, wrong)
    assert any("rel_err" in failure for failure in result.failures)


def test_a_case_that_no_cpu_can_run_is_said_not_to_have_run(
    simulated: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    huge = cdna_fixtures.resized("scaled_add", {"huge": ({"N": 10007}, (2**40, 2**33, 2**32))})
    monkeypatch.setitem(cdna_fixtures.FIXTURES, "scaled_add", huge)
    result = simulated("scaled_add", "mi300x")
    assert result.ok and not result.is_compared and result.cases[0].status == "not simulated"
    assert any("no case is small enough to be simulated" in note for note in result.notes)
    assert any("huge was not simulated: the reference has 1.1e+12 operations" in note for note in result.notes)
