"""`kgen port` with a made-up machine: one search, one control, one integration, and what the report says of both."""

import importlib
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import bench_reports as made_up
import pytest
from bench_machine import SPEC, MadeUpMachine

from kgen.bench.harness import Asked
from kgen.bench.measure import Request
from kgen.bench.record import read_report
from kgen.bench.report import Arm, Launch
from kgen.bench.statistics import Interval
from kgen.check.result import CheckResult
from kgen.errors.bench import BudgetSpentError, MeasurementFailedError
from kgen.errors.check import NoGpuError
from kgen.incumbents import incumbent_of
from kgen.port import Closing, control, launch_constraints, port, run_integration, schedule_class
from kgen.spec.load import parse_spec
from kgen.target import load_device
from kgen.tune import Goal, Tuned

module = importlib.import_module("kgen.port")
INCUMBENT = "# Größe µs\r\ndef old(a, b):\r\n    return a @ b\r\n".encode()
ONE = SPEC.replace("  empty: {M: 256}\n", "").replace("  large: {M: 4096}\n", "")


class Ported(MadeUpMachine):
    """Every build has machine code of its own; `builds` are the ratios in order, the first plan's first."""

    def __init__(self, *builds: float) -> None:
        super().__init__()
        self.builds = builds
        self.kernels: dict[str, int] = {}
        self.controls: list[Request] = []
        self.control_ratio, self.control_band = 1.0, 0.012

    def put(self, monkeypatch: pytest.MonkeyPatch) -> "Ported":
        self.install(monkeypatch)
        monkeypatch.setattr(importlib.import_module("kgen.tune"), "check_package", self.check_package)
        monkeypatch.setattr(module, "Measurer", lambda scratch: nullcontext(SimpleNamespace(measure=self.falsify)))
        return self

    def check_package(self, folder: Path) -> CheckResult:
        number = self.kernels.setdefault((folder / "kernel.py").read_text(), len(self.kernels))
        self.code = f"build {number}"
        self.ratios = dict.fromkeys(("small", "large"), self.builds[number] if number < len(self.builds) else 2.0)
        return super().check_package(folder)

    def falsify(self, request: Request, log: Path) -> Any:
        self.controls.append(request)
        log.write_text("{}\n")
        comparison = made_up.comparison(self.control_ratio, self.control_band)
        return replace(self.measure(request, log), comparison=comparison)


def goal(folder: Path, text: str = ONE, **fields: Any) -> Goal:
    folder.mkdir(exist_ok=True)
    (folder / "old.py").write_bytes(INCUMBENT)
    return Goal(parse_spec(text, folder / "made_up.yaml"), load_device("h200"), folder / "package", **fields)


def ported(folder: Path, closing: Closing | None = None, progress: Any = lambda step: None, **fields: Any) -> Tuned:
    return port(goal(folder, **fields), incumbent_of(f"{folder / 'old.py'}::old"), closing, Asked(), progress)


def test_from_the_incumbent_to_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "old.py").write_bytes(INCUMBENT)
    machine = Ported(1.2, 1.1, 1.15, 1.3).put(monkeypatch)
    steps: list[str] = []
    command = "test -f $KGEN_PACKAGE/kernel.py && echo $KGEN_PACKAGE >> " + str(tmp_path / "runs")
    tuned = ported(tmp_path, Closing(falsify=True, integration=command), steps.append)
    package = tmp_path / "package"
    report = read_report(package)
    assert report == tuned.report and tuned.ok
    assert (package / "incumbent.py").read_bytes() == INCUMBENT
    assert report.incumbent.origin == "old.py" and not report.incumbent.is_reference
    assert [row.count for row in report.ledger] == [1, 2, 3] and tuned.winner is not None
    assert tuned.winner.name == "runner-up 1" and report.case("small").comparison is not None
    assert len(machine.controls) == 1 and report.control is not None and report.control.holds
    assert (tmp_path / "runs").read_text() == f"{package.resolve()}\n"  # once, after the kernel is final
    assert report.integration is not None and report.integration.exit_status == 0
    assert {"scheduling", "thread interface", "epilogue", "precision", "call"} <= {c.name for c in report.constraints}
    logs = {f"logs/{p.name}" for p in (package / "measured" / "logs").iterdir()}
    assert logs == set(report.logs) and {"logs/integration.txt", "logs/control.jsonl"} <= logs
    closing = [step for step in steps if step.startswith(("control", "integration"))]
    assert closing == ["control: the incumbent against itself on case small", f"integration: {command}"]


def test_at_parity_nothing_is_tried_and_nothing_more_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Ported(1.005).put(monkeypatch)
    report = ported(tmp_path).report
    assert report.ledger == () and report.control is None and report.integration is None and machine.controls == []


def test_a_second_port_says_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Ported(1.005).put(monkeypatch)
    closing = Closing(falsify=True, integration="echo done")
    first = ported(tmp_path, closing).report
    before = len(machine.requests)
    second = ported(tmp_path, closing).report
    assert second.model_copy(update={"integration": first.integration}) == first
    assert len(set(second.logs)) == len(second.logs)
    names = [c.name for c in second.constraints]
    assert len(set(names)) == len(names)
    assert {f"logs/{p.name}" for p in (tmp_path / "package/measured/logs").iterdir()} == set(second.logs)
    assert len(machine.requests) - before == 1  # the control alone: the same machine code is not measured again


def test_variants_by_name_go_through_the_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Ported(1.5, 1.4, 1.3, 1.2).put(monkeypatch)
    tries = tuple({"tile_n": n} for n in (64, 96, 128, 160, 192))
    with pytest.raises(BudgetSpentError, match="of 3"):
        ported(tmp_path, tries=tries)


def test_without_a_gpu_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("kgen.check.on_device"), "find_gpus", lambda: ())
    with pytest.raises(NoGpuError, match="this machine has no GPU"):
        ported(tmp_path)
    assert not (tmp_path / "package").exists()


def arm(*grids: tuple[int, ...], block: tuple[int, ...] = (384, 1, 1)) -> Arm:
    return made_up.arm(180.0, launches=tuple(Launch(kernel="k", grid=grid, block=block) for grid in grids))


PERSISTENT = "one kernel, no more CTAs than units (persistent, or too few tiles to tell)"
TILED = "one kernel, more CTAs than units (a tile each)"


@pytest.mark.parametrize(
    ("launches", "words"),
    [
        (arm((132, 1, 1)).launches, PERSISTENT),
        (arm((66, 2, 1)).launches, PERSISTENT),
        (arm((133, 1, 1)).launches, TILED),
        (arm((16, 16, 2)).launches, TILED),
        (arm((132, 1, 1), (8, 1, 1)).launches, "2 kernels a call"),
        ((), "not known: the driver showed no launches"),
        (None, "not known: the driver showed no launches"),
    ],
)
def test_the_schedule_of_a_call(launches: Any, words: str) -> None:
    assert schedule_class(launches, 132) == words


def test_the_schedule_is_kept_or_said_to_differ() -> None:
    same = made_up.comparison(incumbent=arm((100, 1, 1), block=(128, 2)), kgen=arm((132, 1, 1)))
    scheduling, threads = launch_constraints(made_up.report(made_up.case(comparison=same)))
    assert scheduling.value == f"incumbent: {PERSISTENT}; kgen: {PERSISTENT}"
    assert scheduling.fixed and scheduling.because == "a port keeps the schedule class"
    assert threads.value == "incumbent: 128x2 threads a CTA; kgen: 384x1x1 threads a CTA" and not threads.fixed
    other = made_up.comparison(incumbent=arm((512, 1, 1)))
    scheduling, _ = launch_constraints(made_up.report(made_up.case(comparison=other)))
    assert scheduling.value == f"incumbent: {TILED}; kgen: {PERSISTENT}"
    assert not scheduling.fixed and "may come from the schedule" in scheduling.because


def test_launches_that_are_not_known_say_nothing_of_threads() -> None:
    unknown = made_up.comparison(incumbent=made_up.arm(180.0, launches=None))
    (scheduling,) = launch_constraints(made_up.report(made_up.case(comparison=unknown)))
    assert scheduling.value.startswith("incumbent: not known") and not scheduling.fixed
    assert launch_constraints(made_up.report(made_up.failed())) == ()


def test_the_case_with_the_most_tiles_shows_the_schedule() -> None:
    geometry = made_up.case().geometry
    assert geometry is not None
    small = made_up.case("small", geometry=geometry.model_copy(update={"ctas": 8}))
    many = made_up.comparison(incumbent=arm((512, 1, 1)))
    found = launch_constraints(made_up.report(small, made_up.case("large", comparison=many), small))
    assert TILED in found[0].value


class Itself:
    """A harness that times the incumbent against itself and answers a ratio in a band, or nothing."""

    gauge = "small"

    def __init__(self, ratio: float | None, band: float = 0.012) -> None:
        self.found = None if ratio is None else made_up.comparison(ratio, band)
        self.asked: list[Request] = []

    def request(self, case: str) -> Any:
        return made_request(case)

    def measure(self, request: Request, log: Path) -> Any:
        self.asked.append(request)
        return SimpleNamespace(comparison=self.found)


def made_request(case: str) -> Request:
    from kgen.bench.measure import ArmSource

    first, second = (ArmSource(f"{name}.py", None, name) for name in ("kernel", "incumbent"))
    return Request(case, first, second, "input.py", {}, 1, 0.01, False, "lock")


@pytest.mark.parametrize(
    ("ratio", "band", "holds"),
    [(1.0, 0.012, True), (1.0119, 0.012, True), (0.98, 0.012, False), (1.02, 0.012, False), (1.0, 0.04, False)],
)
def test_the_control_holds_inside_its_own_band(
    ratio: float, band: float, holds: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = Itself(ratio, band)
    monkeypatch.setattr(module, "Measurer", lambda scratch: nullcontext(harness))
    found = control(harness, "small", tmp_path)  # type: ignore[arg-type]
    assert found is not None and found.holds is holds and found.band == band
    assert isinstance(found.ratio, Interval) and found.ratio.median == ratio
    (request,) = harness.asked
    assert request.first == request.second and request.first.entry == "incumbent" and request.case == "small"


def test_a_control_that_could_not_be_measured_costs_nothing_but_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends(request: Request, log: Path) -> Any:
        raise MeasurementFailedError(case=request.case, reason="killed\nat a place")

    machine = Ported(1.005).put(monkeypatch)
    monkeypatch.setattr(machine, "falsify", ends)
    report = ported(tmp_path, Closing(falsify=True, integration="exit 3")).report
    assert report.control is None and report.integration is not None and report.integration.exit_status == 3
    assert "control: case small could not be measured: killed" in report.notes
    assert read_report(tmp_path / "package") == report


@pytest.mark.parametrize(("command", "status"), [("true", 0), ("exit 7", 7), ("no-such-command-here", 127)])
def test_the_exit_status_of_the_integration_is_kept(command: str, status: int, tmp_path: Path) -> None:
    found = run_integration(command, tmp_path, tmp_path / "integration.txt")
    assert (found.command, found.exit_status, found.log) == (command, status, "logs/integration.txt")
    assert 0 <= found.seconds < 5


def test_what_the_integration_prints_is_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "package").mkdir()
    monkeypatch.chdir(tmp_path)
    log = tmp_path / "integration.txt"
    run_integration("echo $KGEN_PACKAGE; pwd; echo wrong >&2; printf '\\377'; cat", Path("package"), log)
    here = tmp_path.resolve()
    assert log.read_bytes() == f"{here / 'package'}\n{here}\nwrong\n".encode() + b"\xff"


def test_an_integration_out_of_time_ends_with_all_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INTEGRATION_LIMIT_SECONDS", 0.5)
    mark = tmp_path / "late"
    found = run_integration(f"echo begun; (sleep 1.2; touch {mark}) & wait; true", tmp_path, tmp_path / "log.txt")
    assert found.exit_status is None and found.seconds < 1.2
    assert (tmp_path / "log.txt").read_text() == "begun\n"
    time.sleep(1.2)
    assert not mark.exists()
