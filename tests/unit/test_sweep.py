"""`kgen tune --sweep N` with a made-up machine: what is measured, what becomes a row, and what is delivered."""

import importlib
import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import bench_reports as made_up
import pytest
from bench_machine import SPEC, MadeUpMachine

import kgen
from kgen.bench.measure import Measured, Request
from kgen.bench.record import read_report
from kgen.bench.report import Sweep, SweepRow
from kgen.bench.statistics import Verdict
from kgen.check.result import Finding
from kgen.errors.base import UnsupportedError
from kgen.errors.bench import MeasurementFailedError
from kgen.spec.load import load_spec
from kgen.sweep import _table, distinct, sweep
from kgen.target import load_device
from kgen.tune import Goal, Tuned

module = importlib.import_module("kgen.sweep")
H200 = load_device("h200")
ONE = SPEC.replace("  large: {M: 4096}\n", "").replace("  empty: {M: 256}\n", "")


class Candidates(MadeUpMachine):
    """Answers for each candidate of a sweep what a test says: a ratio, wrong results, a build unlike its plan."""

    def __init__(self, *answers: Any) -> None:
        super().__init__()
        self.answers = answers  # a ratio, "wrong", "ends" or "not as planned"; of the first plan first
        self.compiled: list[list[str]] = []

    def put(self, monkeypatch: pytest.MonkeyPatch) -> "Candidates":
        self.install(monkeypatch)
        monkeypatch.setattr(module, "Measurer", lambda scratch: nullcontext(SimpleNamespace(measure=self.sweep)))
        monkeypatch.setattr(module, "check_packages", self.check_packages)
        return self

    def check_packages(self, folders: list[Path], progress: Callable[..., None]) -> list[Any]:
        self.compiled.append([folder.name for folder in folders])
        results = []
        for folder in folders:
            answer = self.answers[int(folder.name.removeprefix("candidate")) - 1]
            self.findings = (Finding("small_tma", "spills", "at most 0", "3"),) if answer == "not as planned" else ()
            results.append(self.check_package(folder))
            progress(results[-1], len(results), len(folders))
        self.findings = ()
        return results

    def sweep(self, request: Request, log: Path) -> Measured:
        assert request.decides and request.case == "small" and request.second.entry == "reference"
        answer = self.answers[int(log.stem) - 1]
        assert Path(str(request.first.file)).parent.name == f"candidate{log.stem}"
        if answer == "ends":
            raise MeasurementFailedError(case=request.case, reason="killed\nat a place")
        self.agreement = {"failures": ("output 0 differs",), "rel_err": 0.5} if answer == "wrong" else {}
        self.ratios["small"] = 1.0 if answer == "wrong" else answer
        found = self.measure(request, log)
        self.agreement = {}
        return found


def goal(folder: Path, text: str = ONE, **fields: Any) -> Goal:
    (folder / "made_up.yaml").write_text(text)
    return Goal(load_spec(folder / "made_up.yaml"), H200, folder / "package", **fields)


def swept(folder: Path, machine: Candidates, step: Any = module.no_steps) -> tuple[Tuned, Sweep]:
    tuned = sweep(goal(folder), len(machine.answers), step=step)
    report = read_report(folder / "package")
    assert report == tuned.report and report.sweep is not None
    return tuned, report.sweep


def pinned(folder: Path) -> dict[str, Any]:
    return {f["axis"]: f for f in json.loads((folder / "package" / "plan.json").read_text())["fixed"]}


def test_candidates_differ_in_more_than_their_stages(tmp_path: Path) -> None:
    found = distinct(goal(tmp_path), "small", 12)
    others = [tuple(pair for pair in r.candidate.choices if pair[0] != "stages") for r in found]
    assert len(set(others)) == len(others) == 12
    times = [r.time_us for r in found]
    assert times == sorted(times)
    every = kgen.candidates(goal(tmp_path).spec, H200, "small", top=None).ranked
    assert found[0] == every[0]
    best = {other: next(r for r in every if set(other) <= set(r.candidate.choices)) for other in others}
    assert tuple(best.values()) == found  # of those that differ in stages alone, the best one


def test_a_legal_set_that_is_smaller_than_asked_for(tmp_path: Path) -> None:
    axes = kgen.candidates(goal(tmp_path).spec, H200, "small", top=1).ranked[0].candidate.choices
    fixed = "\n".join(f"  {name}: {{value: {value}, because: it is}}" for name, value in axes if name != "stages")
    assert len(distinct(goal(tmp_path, f"{ONE}fixed:\n{fixed}\n"), "small", 12)) == 1


def test_a_winner_is_delivered_with_its_axes_and_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Candidates(1.20, 1.10, 0.90, 1.00).put(monkeypatch)
    tuned, table = swept(tmp_path, machine)
    assert [row.rank for row in table.rows] == [1, 2, 3, 4] and table.winner == 3 and table.case == "small"
    assert [row.ratio.median for row in table.rows if row.ratio] == [1.20, 1.10, 0.90, 1.00]
    assert {row.result for row in table.rows} == {"right"} and {row.us for row in table.rows} == {200.0}
    predicted = [row.predicted_us for row in table.rows]
    assert predicted == sorted(predicted)
    reason = "fastest of 4 candidates of a sweep: 0.900 of the incumbent's time in case small, the first plan 1.200"
    assert table.because == reason
    assert tuned.winner is not None and tuned.winner.name == "candidate 3" and " -> " in tuned.winner.change
    axes = dict(distinct(goal(tmp_path), "small", 4)[2].candidate.choices)
    found = pinned(tmp_path)
    assert {axis: f["value"] for axis, f in found.items()} == axes
    assert {(f["because"], f["case"]) for f in found.values()} == {(reason, "small")}
    plan = json.loads((tmp_path / "package" / "plan.json").read_text())
    assert plan["variants"][0]["choice"]["choices"] == axes
    assert tuned.report.ledger == ()  # a sweep is no part of a port's budget
    assert machine.compiled == [["candidate1", "candidate2", "candidate3", "candidate4"]]


@pytest.mark.parametrize("answers", [(1.100, 1.099, 1.098), (0.90, 1.0, 1.1), (1.0,)])
def test_the_first_plan_stays_unless_it_is_beaten_clearly(
    answers: tuple[float, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuned, table = swept(tmp_path, Candidates(*answers).put(monkeypatch))
    assert table.winner == 1 and tuned.winner is None and tuned.fixed == () and pinned(tmp_path) == {}
    wanted = "the first plan is the fastest" if answers[0] < 1.1 else "the fastest, candidate 3, is not clear of the"
    assert table.because.startswith(wanted)


def test_what_fails_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Candidates("wrong", "ends", "not as planned", 1.3).put(monkeypatch)
    tuned, table = swept(tmp_path, machine)
    assert [row.result for row in table.rows] == [
        "FAIL: output 0 differs",
        "FAIL: case small could not be measured: killed",
        "FAIL: not as planned: small_tma: spills: expected at most 0, found 3",
        "right",
    ]
    assert [(row.us, row.ratio, row.verdict) for row in table.rows[:3]] == [(None, None, None)] * 3
    assert table.rows[3].verdict is Verdict.SLOWER and table.winner == 4 and tuned.ok
    assert table.because.endswith("case small, the first plan failed (output 0 differs)")


def test_a_candidate_that_cannot_be_emitted_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def emit(spec: Any, **named: Any) -> Any:
        if named["folder"].name == "candidate2":
            raise UnsupportedError(reason="not this one\nfor a reason")
        return kgen.emit(spec, **named)

    machine = Candidates(1.0, 0.5, 0.9).put(monkeypatch)
    monkeypatch.setattr(module, "emit", emit)
    _, table = swept(tmp_path, machine)
    assert table.rows[1].result == "FAIL: not emitted: not this one" and table.winner == 3
    assert machine.compiled == [["candidate1", "candidate3"]]


def test_where_nothing_is_right_the_first_plan_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned, table = swept(tmp_path, Candidates("wrong", "ends").put(monkeypatch))
    assert table.winner == 1 and tuned.winner is None
    assert table.because == "no candidate was right: the first plan stays"


def row(rank: int, median: float, share: float) -> SweepRow:
    named = {"plan": "a plan", "predicted_us": 1.0, "us": 1.0, "verdict": Verdict.PARITY, "result": "right"}
    return SweepRow(rank=rank, ratio=made_up.around(median, share), **named)


def test_clear_is_by_both_intervals() -> None:
    assert _table("small", (row(1, 1.00, 0.01), row(2, 0.97, 0.01))).winner == 2
    assert _table("small", (row(1, 1.00, 0.03), row(2, 0.97, 0.01))).winner == 1
    assert _table("small", (row(1, 1.00, 0.01), row(2, 0.97, 0.03))).winner == 1


def test_every_step_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[tuple[str, int, int]] = []
    swept(tmp_path, Candidates(1.0, "wrong", 1.2).put(monkeypatch), lambda *step: steps.append(step))
    assert [(done, total) for _, done, total in steps] == [(1, 3), (2, 3), (3, 3)] * 2
    assert [title for title, _, _ in steps[3:]] == [f"measured candidate {n}" for n in (1, 2, 3)]
    assert {title for title, _, _ in steps[:3]} == {"compiled"}


def test_one_case_is_swept_and_the_others_keep_their_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Candidates(1.2, 1.0).put(monkeypatch)
    before = kgen.plan(goal(tmp_path, SPEC).spec, H200)
    sweep(goal(tmp_path, SPEC, case="small"), 2)
    assert {f["case"] for f in pinned(tmp_path).values()} == {"small"}
    made = json.loads((tmp_path / "package" / "plan.json").read_text())
    large = next(v for v in made["variants"] if v["case"] == "large")
    assert large["choice"]["choices"] == dict(
        next(v for v in before.variants if v.case == "large").choice.candidate.choices
    )
    assert machine.steps[-3:] == ["bench small", "bench large", "bench empty"]  # all cases once more, delivered
