"""The harness with a made-up machine: the order of its steps, what stops it, what it writes."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from bench_machine import SPEC, MadeUpMachine, emitted

from kgen.bench.harness import Asked, BenchResult, Mode, bench
from kgen.bench.memory_fields import memory_schema
from kgen.bench.record import read_report
from kgen.bench.subject import open_bench
from kgen.check.result import Finding
from kgen.errors.bench import (
    GitFailedError,
    IncumbentChangedError,
    MemoryInvalidError,
    UnknownBenchCaseError,
)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> MadeUpMachine:
    return MadeUpMachine().install(monkeypatch)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return emitted(tmp_path)


def run(package: Path, **asked: Any) -> BenchResult:
    return bench(package, Asked(**asked))


def test_the_order_is_build_check_bench(package: Path, machine: MadeUpMachine) -> None:
    steps: list[str] = []
    result = bench(package, Asked(), steps.append)
    assert machine.steps == ["build", "check", "bench small", "bench large"]
    assert [step.partition(":")[0] for step in steps] == ["build", "check", "bench small", "bench large"]
    assert result.ok and result.report is not None


def test_a_run_writes_everything(package: Path, machine: MadeUpMachine) -> None:
    result = run(package, command="kgen bench package")
    names = {p.relative_to(package / "measured").as_posix() for p in (package / "measured").rglob("*") if p.is_file()}
    assert names == {
        "report.json",
        "baseline_report.md",
        "kernel.sha256",
        "roofline.svg",
        "speed.svg",
        "memory/v0.json",
        "logs/build.txt",
        "logs/test_kernel.txt",
        "logs/small.jsonl",
        "logs/large.jsonl",
    }
    assert read_report(package) == result.report
    memory = json.loads((package / "measured" / "memory" / "v0.json").read_text())
    jsonschema.validate(memory, dict(memory_schema()))
    assert memory["performance"]["latency_us_by_shape"] == {"small": 200.0, "large": 200.0, "empty": None}
    assert memory["quality_gate"]["result"] == "PASS"
    log = (package / "measured" / "logs" / "test_kernel.txt").read_text()
    assert log == "in .\nsaid\n"  # no path of this machine stays behind


@pytest.mark.parametrize(("mode", "steps"), [("build", ["build"]), ("check", ["build", "check"])])
def test_modes_stop_early_and_write_nothing(package: Path, machine: MadeUpMachine, mode: str, steps: list[str]) -> None:
    result = run(package, mode=Mode(mode))
    assert machine.steps == steps and result.ok and result.report is None
    assert not (package / "measured").exists()


def test_a_case_that_fails_is_not_timed(package: Path, machine: MadeUpMachine) -> None:
    machine.tested["large"] = {"status": "FAIL", "failures": ["large: rel_err 1 is above 0.01"], "latency_us": None}
    result = run(package)
    assert machine.steps == ["build", "check", "bench small"]
    assert not result.ok and result.report is not None
    case = result.report.case("large")
    assert case.speed is None and case.comparison is None and case.note == "not timed: it fails"
    memory = json.loads((package / "measured" / "memory" / "v0.json").read_text())
    assert memory["correctness"]["status"] == "FAIL" and memory["performance"]["latency_us"] is None
    assert memory["performance"]["latency_us_by_shape"]["small"] == 200.0


def test_a_timeout_is_recorded(package: Path, machine: MadeUpMachine) -> None:
    words = "small: killed after 30 s"
    machine.tested["small"] = {"status": "TIMEOUT_FAIL", "failures": [words], "latency_us": None}
    run(package)
    assert words in (package / "measured" / "baseline_report.md").read_text()
    memory = json.loads((package / "measured" / "memory" / "v0.json").read_text())
    assert memory["quality_gate"] == {"result": "TIMEOUT_FAIL", "failure_reason": words}
    assert memory["pitfalls_and_fixes"][0]["error_type"] == "timeout"


def test_an_empty_case_passes_and_has_no_speed(package: Path, machine: MadeUpMachine) -> None:
    report = run(package).report
    assert report is not None
    case = report.case("empty")
    assert case.correctness.status == "PASS" and case.comparison is None
    assert case.note == "not timed: the output is empty, nothing is launched"


def test_above_the_roofline_is_a_measurement_error(package: Path, machine: MadeUpMachine) -> None:
    machine.us = 0.5
    result = run(package)
    assert not result.ok and result.report is not None and result.report.gate == "FAIL"
    case = result.report.case("large")
    assert case.speed is None and case.comparison is None
    assert "measurement error" in (case.measurement_error or "")
    memory = json.loads((package / "measured" / "memory" / "v0.json").read_text())
    assert memory["performance"]["tflops"] is None and memory["quality_gate"]["result"] == "FAIL"


def test_a_process_that_ends_costs_only_its_case(package: Path, machine: MadeUpMachine) -> None:
    machine.fails = {"small"}
    report = run(package).report
    assert report is not None
    assert report.case("small").note == "case small could not be measured: killed by SIGSEGV"
    assert report.case("large").comparison is not None


def test_other_machine_code_than_planned_fails_the_gate(package: Path, machine: MadeUpMachine) -> None:
    machine.findings = (Finding("small_tma", "spills", "at most 0", "3 loads"),)
    result = run(package)
    assert not result.ok and result.report is not None
    assert result.report.gate == "FAIL" and result.report.status == "PASS"


def test_slower_than_the_incumbent_is_not_wrong(package: Path, machine: MadeUpMachine) -> None:
    machine.ratios = {"small": 1.4, "large": 1.4}
    result = run(package)
    assert result.ok and result.report is not None and result.report.verdict == "slower"


def test_some_cases_are_shown_and_not_kept(package: Path, machine: MadeUpMachine) -> None:
    result = run(package, cases=("large",))
    assert machine.steps == ["build", "check", "bench large"]
    assert result.report is not None and result.report.unmeasured_cases == ("small", "empty")
    assert not (package / "measured").exists()


def test_the_gauge_is_the_smallest_case_with_work(package: Path, machine: MadeUpMachine) -> None:
    assert open_bench(package).gauge == "small"
    run(package, gauge=True)
    assert machine.steps[-1] == "bench small"


def test_unknown_cases_are_refused_before_anything_runs(package: Path, machine: MadeUpMachine) -> None:
    with pytest.raises(UnknownBenchCaseError, match="has no case 'tiny'\n  = its cases: small, large, empty"):
        run(package, cases=("tiny",))
    assert machine.steps == []


def test_the_same_machine_code_is_not_measured_again(package: Path, machine: MadeUpMachine) -> None:
    first = run(package).report
    machine.steps.clear()
    (package / "kernel.py").write_text((package / "kernel.py").read_text() + "# a comment\n")
    again = run(package)
    assert machine.steps == ["build"] and again.kept and again.report == first
    machine.code = "another build"
    assert not run(package).kept
    machine.steps.clear()
    assert not run(package, again=True).kept and "bench small" in machine.steps


def test_the_reference_stands_in_for_an_incumbent(package: Path, machine: MadeUpMachine) -> None:
    run(package)
    request = machine.requests[0]
    assert request.first.entry == "kernel" and request.second.entry == "reference"
    assert request.second.file == str((package / "reference.py").resolve())
    assert not request.decides and request.limit == 0.01


def test_a_changed_copy_of_the_incumbent_is_refused(tmp_path: Path, machine: MadeUpMachine) -> None:
    (tmp_path / "old.py").write_text("def old(a, b):\n    return a @ b\n")
    package = emitted(tmp_path, f"{SPEC}incumbent: old.py::old\n")
    assert open_bench(package).opponent.said.origin == "old.py"
    (package / "incumbent.py").write_text("def old(a, b):\n    return b @ a\n")
    with pytest.raises(IncumbentChangedError, match=r"incumbent\.py was changed"):
        open_bench(package)


def test_memory_files_of_other_versions_stay(package: Path, machine: MadeUpMachine) -> None:
    run(package)
    machine.us, machine.code = 150.0, "v1"
    run(package, version="v1")
    memory = json.loads((package / "measured" / "memory" / "v1.json").read_text())
    assert memory["performance"]["comparison_with_previous"]["latency_delta"] == pytest.approx(-50.0)
    assert (package / "measured" / "memory" / "v0.json").is_file()
    assert memory["optimization"]["action_category"] is None


def test_outputs_that_disagree_decide_where_the_format_is_lossy(package: Path, machine: MadeUpMachine) -> None:
    machine.agreement = {"decides": True, "failures": ("output 0 differs",), "rel_err": 0.5}
    result = run(package)
    assert not result.ok and result.report is not None and result.report.gate == "FAIL"
    assert result.report.case("small").speed is None


def test_an_older_memory_file_that_cannot_be_read_is_refused_before_anything_runs(
    package: Path, machine: MadeUpMachine
) -> None:
    (package / "measured" / "memory").mkdir(parents=True)
    (package / "measured" / "memory" / "v0.json").write_text("{}")
    with pytest.raises(MemoryInvalidError):
        run(package, version="v1")
    assert machine.steps == []


def test_a_commit_that_fails_does_not_lose_the_measurement(package: Path, machine: MadeUpMachine) -> None:
    with pytest.raises(GitFailedError):  # there is no repository
        run(package, git=True)
    assert read_report(package).gate == "PASS"
