"""The measuring process of a probe on a CPU with a stand-in for CUDA, and its other side with processes that misbehave.

No speed can be tested so: what is timed, in which order, and what becomes of what fails.
"""

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from probe_machine import H200, MI300X, events_of

from kgen.errors.probe import OtherGpuError, ProbeFailedError, TorchSeesNoGpuError
from kgen.probe import measure as measure_module
from kgen.probe import probe as probe_module
from kgen.probe.measure import Measurement, measure, measurement_of, spread_of
from kgen.probe.sizes import Products, Request, request_of
from kgen.target import load_device

STAND_IN = Path(__file__).parent / "cuda_stand_in"
SHAPES = ((32, 32, 32), (48, 32, 64))
SMALL = Request(
    copies=(1 << 16, 1 << 15),
    cached=(1 << 12, 1 << 14),
    products=(
        Products("bf16", "bfloat16", SHAPES),
        Products("tf32", "float32", SHAPES),
        Products("fp8", "float8_e4m3fn", SHAPES),
        Products("int8", "int8", SHAPES),
        Products("fp6", "float6_of_no_torch", SHAPES),
        Products("fp64_matrix", "float64", SHAPES[:1]),
    ),
    api="cuda",
    sensor=None,
    rounds=2,
    product_rounds=2,
    product_rest_seconds=0.001,
    product_warm_up_us=100.0,
    product_run_us=100.0,
    burst_us=100.0,
    sustained_seconds=0.02,
    device="cpu",
)
CPU = replace(H200, name="a CPU", compute_units=4)
# lines of a measuring process, as Python literals
SEEN, OTHER = (repr(json.dumps(events_of(facts)[0])) for facts in (CPU, H200))
FAILED = repr(json.dumps({"event": "failed", "error": "a bad one"}))


@pytest.fixture(scope="module")
def events() -> list[dict[str, Any]]:
    """What one run of the real process says, with small sizes."""
    path = f"{STAND_IN}:{os.environ.get('PYTHONPATH', '')}:{Path(__file__).resolve().parents[2]}"
    done = subprocess.run(
        measure_module.COMMAND,
        input=json.dumps(asdict(SMALL)),
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_events_come_in_order_and_each_workload_is_timed(events: list[dict[str, Any]]) -> None:
    names = [event["event"] for event in events]
    assert names[0] == "ready" and names[1] == "device" and names[-1] == "done" and "failed" not in names
    assert names.index("products") < names.index("sustained")
    timed = [event for event in events if event["event"] == "samples"]
    memory = {"copy_bandwidth", "read_bandwidth", "launch"}
    assert all(len(event["us"]) == 2 * SMALL.rounds for event in timed if event["quantity"] in memory)
    products = [event for event in timed if event["quantity"] not in memory]  # runs of two calls or more
    assert all(len(event["us"]) >= 2 * 2 * SMALL.product_rounds and min(event["us"]) > 0 for event in products)
    assert [event["label"] for event in timed if event["quantity"] == "bf16"] == ["32x32x32", "48x32x64"]
    assert {event["quantity"] for event in timed} == {
        "copy_bandwidth", "read_bandwidth", "launch", "bf16", "tf32", "fp8", "int8", "fp64_matrix",
    }  # fmt: skip
    copies = [event for event in timed if event["quantity"] == "copy_bandwidth"]
    assert len(copies) == 4 and {event["amount"] for event in copies} == {2 << 16, 2 << 15}  # read and written


def test_a_type_that_torch_lacks_is_skipped_and_the_others_go_on(events: list[dict[str, Any]]) -> None:
    (skipped,) = [event for event in events if event["event"] == "skipped"]
    assert skipped["quantity"] == "fp6" and "float6_of_no_torch" in skipped["reason"]


def test_a_measurement_is_made_of_them(events: list[dict[str, Any]]) -> None:
    found = measurement_of(events)
    assert found.sustained is not None and found.sustained.quantity == "bf16"
    best = found.best("copy_bandwidth")
    assert best is not None and best.value == max(s.value for s in found.samples if s.quantity == "copy_bandwidth")
    assert found.best("fp4") is None
    assert found.skipped[0][0] == "fp6" and json.dumps(found.to_json())


def test_rates_are_medians_in_the_unit_of_their_quantity() -> None:
    found = measurement_of(events_of(copy=4.0))
    copy, launch = found.best("copy_bandwidth"), found.best("launch")
    assert copy and launch and copy.value == pytest.approx(4.0) and launch.value == 1.2
    assert copy.spread.low == pytest.approx(4.0 / 1.01, rel=1e-3) and copy.spread.rounds == 24
    assert spread_of([float(x) for x in range(11)]).low == 1.0 and spread_of([float(x) for x in range(11)]).high == 9.0
    assert spread_of([3.0]).high == 3.0


def test_copies_inside_of_the_l2_that_take_no_time_are_no_measurement() -> None:
    events = events_of()
    (cached,) = [event for event in events if event["event"] == "cached"]
    assert measurement_of(events).best("l2_copy_bandwidth") is not None
    cached["us"][3] = [2.8, 2.8]
    assert measurement_of(events).best("l2_copy_bandwidth") is None


def test_the_sizes_pass_the_caches_and_fit_the_memory() -> None:
    large = request_of(H200, load_device("h200").arch)
    assert large.copies == (2 << 30, 1 << 30, 512 << 20)
    assert all(2 * size >= 8 * H200.cache_bytes for size in large.copies)
    assert 2 * max(large.cached) < H200.cache_bytes / 2
    small = request_of(replace(H200, memory_bytes=16 << 30), load_device("h200").arch)
    assert small.copies[0] * 2 * small.sets <= 8 << 30
    amd = request_of(MI300X, load_device("mi300x").arch)
    assert amd.cached == () and {p.torch_dtype for p in amd.products if p.dtype == "fp8"} == {"float8_e4m3fnuz"}
    assert amd.products[0].dtype == "bf16"
    assert "tf32" not in {p.dtype for p in request_of(MI300X, load_device("mi355x").arch).products}


def answering(monkeypatch: pytest.MonkeyPatch, code: str, seconds: float = 20.0) -> None:
    """Let a script take the place of the measuring process."""
    script = f"import json, os, sys, time\nprint(json.dumps({{'event': 'ready'}}), flush=True)\n{code}"
    monkeypatch.setattr(measure_module, "COMMAND", (sys.executable, "-c", script))
    monkeypatch.setattr(measure_module, "LIMIT_SECONDS", seconds)


def run(facts: Any = CPU) -> tuple[Measurement, list[str]]:
    steps: list[str] = []
    return measure(facts, SMALL, steps.append), steps


def test_the_other_side_reads_events_and_tells_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [json.dumps(event) for event in [*events_of(CPU), {"event": "done"}]]
    answering(monkeypatch, f"request = json.loads(input())\nassert request['copies']\nprint('\\n'.join({answers!r}))")
    found, steps = run()
    assert found == measurement_of(events_of(CPU)) and steps == ["torch is imported", "memory"]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("sys.stderr.write('it burns'); sys.stderr.flush(); os.abort()", "SIGABRT.*\nit burns"),
        ("time.sleep(60)", "no answer within 1 s"),
        (f"print({SEEN}); print({FAILED})", "a bad one"),
    ],
)
def test_a_process_that_ends_hangs_or_fails_is_an_error(
    monkeypatch: pytest.MonkeyPatch, code: str, reason: str
) -> None:
    answering(monkeypatch, f"input()\n{code}", seconds=1.0)
    with pytest.raises(ProbeFailedError, match=f"(?s)a CPU could not be measured: .*{reason}"):
        run()


def test_a_torch_without_the_gpu_is_said_to_be_one(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = {"event": "failed", "error": "AssertionError: Torch not compiled with CUDA enabled\n  File ..."}
    answering(monkeypatch, f"input()\nprint({json.dumps(failed)!r}, flush=True)\ntime.sleep(9)")
    text = (
        "the driver shows a CPU, and torch does not use it: AssertionError: Torch not compiled with CUDA enabled\n  = "
    )
    with pytest.raises(TorchSeesNoGpuError, match=text):
        run()


def test_another_gpu_than_the_drivers_first_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, f"input()\nprint({OTHER}, flush=True)\ntime.sleep(9)")
    text = r"the driver shows a CPU \(sm_90, 4 units\) first, torch NVIDIA H200 \(sm_90, 132 units\)\n  = make one GPU"
    with pytest.raises(OtherGpuError, match=text):
        run()


def test_this_torch_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real process on a machine with no GPU: as a CPU build of torch where there is one."""
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(TorchSeesNoGpuError, match="the driver shows a CPU, and torch does not use it: "):
        run()


def test_the_whole_way_from_a_process_to_a_file_that_loads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Real processes, and the speeds of a CPU: what is measured is no GPU's, and every step of the way is taken."""
    monkeypatch.setenv("PYTHONPATH", f"{STAND_IN}:{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setattr(probe_module, "find_facts", lambda: (CPU,))
    monkeypatch.setattr(probe_module, "request_of", lambda facts, arch: SMALL)
    steps: list[str] = []
    found = probe_module.probe(tmp_path / "a_cpu.yaml", steps.append)
    assert steps[:3] == ["drivers are asked", "torch is imported", "memory"] and steps[-1] == "one product on end"
    device = load_device(tmp_path / "a_cpu.yaml")
    assert device.quantities == found.device.quantities and device.compute_units == 4
    assert device.quantity("measured.bf16") and device.quantity("measured.copy_bandwidth")
    assert (tmp_path / "a_cpu.yaml").read_text() == found.text
