"""The measuring process on a CPU with a stand-in for CUDA: the order of its events, and what becomes of wrong arms."""

import importlib.util
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import kgen
from kgen.bench.gpu_lock import GpuLock
from kgen.bench.measure import ArmSource, Measured, Measurer, Request
from kgen.errors.bench import MeasurementFailedError

STAND_IN = Path(__file__).parent / "cuda_stand_in"
INPUTS = """
import torch

def _make_inputs(*, M, seed=0, offset=0, device="cuda"):
    generator = torch.Generator().manual_seed(seed)
    return {"a": torch.randn(M, M, generator=generator), "b": torch.randn(M, M, generator=generator)}
"""
# the stand-in of a graph replays what its calls register: the result of the capture is computed anew
ARM = """
import torch

STATE = []

def product(a, b):
    STATE.append(1)
    out = torch.empty(a.shape[0], b.shape[1])
    def compute():
        BODY
    compute()
    graph = torch.kgen_graph.current
    if graph is not None:
        graph.calls.append(compute)
    return out
"""
RIGHT = "torch.matmul(a, b, out=out)"


@pytest.fixture(scope="module")
def measurer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measurer]:
    """One for all tests: it lives on after cases that fail, crash or hang."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{STAND_IN}:{os.environ.get('PYTHONPATH', '')}")
        with Measurer(tmp_path_factory.mktemp("measurer"), limit_seconds=8.0) as found:
            yield found


@pytest.fixture
def measure(tmp_path: Path, measurer: Measurer) -> Any:
    (tmp_path / "input.py").write_text(INPUTS)

    def run(first: str = RIGHT, second: str = RIGHT, before_second: str = "", **fields: Any) -> Measured:
        for name, before, body in (("first", "", first), ("second", before_second, second)):
            (tmp_path / f"{name}.py").write_text(f"{before}\n{ARM.replace('BODY', body)}")
        arms = {n: ArmSource(str(tmp_path / f"{n}.py"), None, "product") for n in ("first", "second")}
        defaults = {"case": "small", "inputs": str(tmp_path / "input.py"), "input_kwargs": {"M": 8}, "bytes": 768}
        defaults["lock"] = str(tmp_path / "gpu.lock")
        request = Request(**{**arms, **defaults, "limit": 0.01, "decides": False, "turns": 6, **fields})
        return measurer.measure(request, tmp_path / "log.jsonl")

    return run


def events(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def test_the_band_is_in_the_log_before_the_second_arm_is_timed(measure: Any, tmp_path: Path) -> None:
    found = measure()
    names = [event["event"] for event in events(tmp_path) if event.get("series", 1) == 1]  # a CPU is seldom quiet
    turn = ["waits", "goes on"]
    loads = ["imported", "loaded"] * 3
    assert names == ["machine", *loads, *turn, "agreement", *turn, "band", "comparison", "host", "launches"]
    assert found.comparison.band.fixed_at <= found.comparison.measured_at
    assert found.comparison.method == "graph" and found.comparison.turns == 6
    assert found.comparison.sets == 16  # three times an L2 of 4 KiB, 768 bytes a call
    assert found.machine.gpu.compute_units == 4 and found.machine.gpu.isa == "sm_90"
    assert found.agreement.rel_err == 0.0 and found.agreement.operand_scale == 1.0


def test_nothing_is_timed_while_another_run_works_on_the_gpu(measure: Any, tmp_path: Path) -> None:
    """While it is shared, its arms are loaded; they are timed as soon as it is let go of."""
    lock = GpuLock(tmp_path / "gpu.lock")
    with ThreadPoolExecutor(1) as pool:
        with lock.shared():
            running = pool.submit(measure)
            wait_for(lambda: count_of("agreement", tmp_path) == 1 and events(tmp_path)[-1]["event"] == "waits")
            time.sleep(0.5)
            assert count_of("goes on", tmp_path) == 1 and count_of("band", tmp_path) == 0
        assert running.result(30).comparison is not None


def test_arms_are_not_compared_while_another_run_times(measure: Any, tmp_path: Path) -> None:
    lock = GpuLock(tmp_path / "gpu.lock")
    with ThreadPoolExecutor(1) as pool:
        with lock.alone():
            running = pool.submit(measure)
            wait_for(lambda: count_of("waits", tmp_path) == 1)
            time.sleep(0.5)
            assert count_of("goes on", tmp_path) == count_of("agreement", tmp_path) == 0
        assert running.result(30).comparison is not None


def wait_for(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def count_of(name: str, folder: Path) -> int:
    if not (folder / "log.jsonl").is_file():
        return 0
    return (folder / "log.jsonl").read_text().count(f'"event": "{name}"')


def test_arms_have_modules_of_their_own(measure: Any, tmp_path: Path) -> None:
    names = tmp_path / "names"
    measure(first=f"len(STATE) > 1 or open({str(names)!r}, 'a').write(__name__ + ' '); {RIGHT}")
    assert names.read_text().split() == ["kgen_bench_first", "kgen_bench_twin"]


def test_each_arm_compiles_its_variants_anew(measure: Any, tmp_path: Path) -> None:
    caches = tmp_path / "caches"
    place = "__import__('os').environ['KGEN_CACHE']"
    measure(first=f"len(STATE) > 1 or open({str(caches)!r}, 'a').write({place} + chr(10)); {RIGHT}")
    first, twin = caches.read_text().split()
    assert first != twin and Path(first).name == "first" and Path(twin).name == "twin"


def test_arms_that_disagree_are_timed_unless_that_decides(measure: Any) -> None:
    found = measure(first=f"{RIGHT}; out.mul_(1.5)")
    assert found.comparison is not None
    assert found.agreement.failures == ("output 0 differs from the incumbent's by 0.5, the limit is 0.01",)
    decided = measure(first=f"{RIGHT}; out.mul_(1.5)", decides=True)
    assert decided.comparison is None


def test_operands_are_scaled_until_the_incumbent_can_represent_its_output(measure: Any) -> None:
    overflow = f"{RIGHT}; out.copy_((out * 20000).half().float())"
    found = measure(first=overflow, second=overflow)
    assert 0 < found.agreement.operand_scale < 1
    assert found.agreement.rel_err == 0.0


def test_an_incumbent_that_represents_nothing_is_an_error(measure: Any) -> None:
    with pytest.raises(MeasurementFailedError, match="output is not finite, or saturates, on operands down to"):
        measure(second=f"{RIGHT}; out.fill_(float('inf'))")


def test_a_launch_that_misses_the_graph_is_timed_from_the_host(measure: Any) -> None:
    assert measure().comparison.method == "graph"
    missed = f"{RIGHT}\n        torch.kgen_graph.current = None"  # the capture sees nothing of this call
    assert measure(second=missed).comparison.method == "loop"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("raise RuntimeError('no luck')", "no luck"),
        ("import os; os.abort()", "the process ended: killed by SIGABRT"),
        ("import os; os._exit(3)", "the process ended: exit status 3"),
        ("import time; time.sleep(600)", "no answer within 8 s"),
    ],
)
def test_an_arm_that_fails_ends_only_its_case(measure: Any, body: str, reason: str) -> None:
    with pytest.raises(MeasurementFailedError, match=f"case small could not be measured: (.|\n)*{reason}"):
        measure(second=body)
    assert measure().comparison is not None  # the next one is measured


def test_no_path_of_this_machine_stays_in_the_log(measure: Any, tmp_path: Path) -> None:
    measure()
    assert str(tmp_path) not in (tmp_path / "log.jsonl").read_text()
    with pytest.raises(MeasurementFailedError, match=str(tmp_path)):  # who ran it sees the place
        measure(second="raise RuntimeError('no luck')")
    text = (tmp_path / "log.jsonl").read_text()
    assert str(tmp_path) not in text and str(Path(kgen.__file__).parent) not in text
    assert 'File \\"' in text and "no luck" in text


def test_classes_are_constructed_with_the_same_draws(measurer: Measurer, tmp_path: Path) -> None:
    (tmp_path / "input.py").write_text(INPUTS)
    text = """
import torch

class Model(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(n, n))

    def to(self, device):
        return self

    def forward(self, a, b):
        out = torch.empty_like(a)
        def compute():
            torch.matmul(a, self.weight, out=out)
        compute()
        if torch.kgen_graph.current is not None:
            torch.kgen_graph.current.calls.append(compute)
        return out
"""
    (tmp_path / "model.py").write_text(text)
    arm = ArmSource(str(tmp_path / "model.py"), None, "Model", (), {"n": 8})
    common = {
        "inputs": str(tmp_path / "input.py"),
        "input_kwargs": {"M": 8},
        "bytes": 768,
        "limit": 1e-6,
        "lock": str(tmp_path / "gpu.lock"),
    }
    request = Request(case="c", first=arm, second=arm, decides=True, turns=6, **common)
    assert measurer.measure(request, tmp_path / "log.jsonl").agreement.rel_err == 0.0


def test_the_extension_libraries_that_an_arm_brings_along_are_found(measure: Any, tmp_path: Path) -> None:
    original = Path(str(importlib.util.find_spec("_json").origin))  # type: ignore[union-attr]
    if original.suffix != ".so":
        pytest.skip("this Python has its modules built in")
    library = tmp_path / "torch_extensions" / original.name
    library.parent.mkdir()
    shutil.copy(original, library)
    loaded = (
        f"import importlib.util as u; s = u.spec_from_file_location('_json', {str(library)!r}); "
        "import sys; sys.modules['_json_of_arm'] = m = u.module_from_spec(s); s.loader.exec_module(m)"
    )
    assert measure(before_second=loaded).libraries == (library,)
