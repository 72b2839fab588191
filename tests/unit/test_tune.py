"""The ledger, and the search for a better variant with a device that is made up."""

import importlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import bench_reports as made_up
import pytest

from kgen.bench.report import Report
from kgen.errors.base import UnsupportedError
from kgen.errors.bench import BudgetSpentError, ReportInvalidError
from kgen.errors.check import NoGpuError
from kgen.errors.cli import AxesError
from kgen.spec.load import load_spec
from kgen.spec.model import FixedAxis
from kgen.target import load_device
from kgen.tune import Goal, Ledger, Variant, change_of, earlier_ledger, pinned, search, variants_of

tune_module = importlib.import_module("kgen.tune")  # `kgen.tune` itself is the function
SPEC = Path(__file__).resolve().parents[2] / "specs" / "gemm_bf16.yaml"
H200 = load_device("h200")


def variant(number: int) -> Variant:
    return Variant(f"runner-up {number}", {"stages": number}, f"stages 4 -> {number}")


def test_the_fourth_variant_raises() -> None:
    ledger = Ledger()
    for number in range(3):
        ledger = ledger.measured(variant(number), f"{number}", made_up.comparison(1.1), "slower")
    assert [row.count for row in ledger.rows] == [1, 2, 3]
    assert ledger.left == 0
    with pytest.raises(BudgetSpentError, match="runner-up 9 would be variant 4 of 3: runner-up 0, runner-up 1"):
        ledger.measured(variant(9), "9", made_up.comparison(1.0), "parity")
    with pytest.raises(BudgetSpentError):
        ledger.require_room("a diagnostic variant")


def test_what_is_not_measured_costs_nothing() -> None:
    ledger = Ledger().skipped(variant(1), "a", "not measured: same code as the first plan")
    assert ledger.spent == 0 and ledger.left == 3
    ledger = ledger.measured(variant(2), "b", None, "FAIL: rel_err 1 is above 0.01")
    assert ledger.rows[-1].count == 1 and ledger.rows[-1].ratio is None


def test_a_ledger_is_a_value() -> None:
    first = Ledger()
    first.measured(variant(1), "a", made_up.comparison(), "faster")
    assert first.rows == ()


def test_the_count_is_never_restarted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert earlier_ledger(tmp_path) == Ledger()  # nothing was measured yet
    rows = Ledger().measured(variant(1), "a", made_up.comparison(1.1), "slower").rows
    monkeypatch.setattr(tune_module, "read_report", lambda folder: made_up.report(ledger=rows))
    assert earlier_ledger(tmp_path).spent == 1


class MadeUpGpu:
    """Answers each build with the machine code and the ratio that a test decides; counts what was measured."""

    def __init__(self, *runs: tuple[str, float | None]) -> None:
        self.runs = list(runs)  # (machine code, ratio of its time; None: wrong result), the first plan first
        self.built = 0
        self.measured: list[str] = []

    def check(self, folder: Path) -> Any:
        self.built += 1
        return SimpleNamespace(code_digest=self.runs[self.built][0])

    def run(self, bench: Any, asked: Any, scratch: Path, progress: Any) -> Any:
        digest, ratio = self.runs[self.built]
        self.measured.append(digest)
        case = made_up.failed("default") if ratio is None else made_up.case(comparison=made_up.comparison(ratio))
        return SimpleNamespace(report=made_up.report(case, code_digest=digest))


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    def install(*runs: tuple[str, float | None]) -> MadeUpGpu:
        found = MadeUpGpu(*runs)
        monkeypatch.setattr(tune_module, "run_bench", found.run)
        monkeypatch.setattr(tune_module, "check_package", found.check)
        monkeypatch.setattr(tune_module, "open_bench", lambda folder: SimpleNamespace(gauge="default"))
        monkeypatch.setattr(tune_module, "require_isa", lambda isa, folder: None)
        return found

    return install


def goal(tmp_path: Path, **fields: Any) -> Goal:
    return Goal(load_spec(SPEC), H200, tmp_path / "package", **fields)


def found_by(search_goal: Goal) -> Any:
    return search(search_goal, Ledger(), lambda step: None)


def test_inside_the_band_nothing_is_tried(tmp_path: Path, gpu: Any) -> None:
    machine = gpu(("a", 1.005))
    found = found_by(goal(tmp_path))
    assert machine.measured == ["a"] and found.winner is None and found.ledger.rows == ()
    assert found.spec.fixed == ()


def test_it_stops_as_soon_as_a_variant_is_inside_the_band(tmp_path: Path, gpu: Any) -> None:
    machine = gpu(("a", 1.2), ("b", 1.1), ("c", 1.0), ("d", 0.5))
    found = found_by(goal(tmp_path))
    assert machine.measured == ["a", "b", "c"]
    assert found.winner is not None and found.winner.name == "runner-up 2"
    assert [row.verdict for row in found.ledger.rows] == ["slower", "parity"]


def test_the_best_correct_one_is_delivered_with_the_measurement_as_its_reason(tmp_path: Path, gpu: Any) -> None:
    gpu(("a", 1.2), ("b", 1.1), ("c", None), ("d", 1.15))
    found = found_by(goal(tmp_path))
    assert found.winner is not None and found.winner.name == "runner-up 1"
    assert found.ledger.left == 0 and found.ledger.rows[1].result.startswith("FAIL: broken") is False
    assert "FAIL" in found.ledger.rows[1].result
    assert {axis.case for axis in found.spec.fixed} == {"default"}
    because = found.spec.fixed[0].because
    assert because.startswith("measured on Made-up GPU, 2031-01-02: 1.100 of the incumbent's time in case default")
    assert because.endswith("the first plan 1.200")


def test_a_difference_inside_the_uncertainty_keeps_the_first_plan(tmp_path: Path, gpu: Any) -> None:
    gpu(("a", 1.100), ("b", 1.099), ("c", 1.101), ("d", 1.098))
    found = found_by(goal(tmp_path))
    assert found.winner is None and found.ledger.spent == 3


def test_a_build_with_known_machine_code_is_not_measured_again(tmp_path: Path, gpu: Any) -> None:
    machine = gpu(("a", 1.2), ("a", 0.1), ("b", 1.3), ("b", 0.1))
    found = found_by(goal(tmp_path))
    assert machine.measured == ["a", "b"]
    assert [row.count for row in found.ledger.rows] == [0, 1, 1]
    assert found.ledger.rows[0].result == "not measured: same code as the first plan"
    assert found.ledger.rows[2].result.startswith("not measured: same code as runner-up 2")


def test_a_first_plan_that_fails_is_replaced_by_any_right_variant(tmp_path: Path, gpu: Any) -> None:
    gpu(("a", None), ("b", 1.4), ("c", 1.5), ("d", 1.6))
    found = found_by(goal(tmp_path))
    assert found.winner is not None and found.winner.name == "runner-up 1"


def test_variants_by_name_go_through_the_same_ledger(tmp_path: Path, gpu: Any) -> None:
    machine = gpu(*((str(n), 1.5 - n / 100) for n in range(6)))
    tries = tuple({"tile_n": n} for n in (64, 96, 128, 160))
    with pytest.raises(BudgetSpentError, match="try 4"):
        found_by(goal(tmp_path, tries=tries))
    assert len(machine.measured) == 4  # the first plan and three variants


def test_a_variant_that_no_rule_allows_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpu: Any) -> None:
    gpu(("a", 1.2), ("b", 1.1))

    def refuse(*arguments: Any, **named: Any) -> None:
        raise UnsupportedError(reason="no legal candidate")

    monkeypatch.setattr(tune_module, "emit", refuse)
    found = found_by(goal(tmp_path, tries=({"tile_n": 8, "stages": 3},)))
    assert found.ledger.spent == 0
    assert found.ledger.rows[0].result == "not built: no legal candidate"


def test_runners_up_are_what_is_tried_by_default(tmp_path: Path) -> None:
    found = variants_of(goal(tmp_path), "default")
    assert [v.name for v in found] == ["runner-up 1", "runner-up 2", "runner-up 3"]
    assert all(" -> " in v.change for v in found)


def test_a_change_in_words() -> None:
    assert change_of({"stages": 4, "tile_n": 256}, {"stages": 3, "tile_n": 256}) == "stages 4 -> 3"
    assert change_of({"stages": 4}, {"stages": 4}) == "nothing"


def test_a_new_decision_replaces_one_for_the_same_case() -> None:
    spec = load_spec(SPEC)
    once = pinned(spec, (FixedAxis("stages", 3, "one", None, "default"), FixedAxis("tile_n", 128, "one")))
    twice = pinned(once, (FixedAxis("stages", 2, "two", None, "default"),))
    assert [(f.axis, f.value, f.case) for f in twice.fixed] == [("tile_n", 128, None), ("stages", 2, "default")]


def test_delivering_writes_the_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpu: Any) -> None:
    gpu(("a", 1.2), ("b", 1.0))
    written: list[Report] = []
    monkeypatch.setattr(tune_module, "write_measured", lambda report, folder, logs: written.append(report))
    tuned = tune_module.tune(goal(tmp_path))
    assert tuned.winner is not None and tuned.ok
    assert [row.name for row in written[0].ledger] == ["runner-up 1"]
    assert (tmp_path / "package" / "plan.json").read_text().count("the first plan 1.200") > 0


def test_a_later_run_goes_on_where_the_winner_was_delivered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpu: Any
) -> None:
    gpu(("a", 1.2), ("b", 1.1), ("c", 1.15), ("d", 1.15))
    written: list[Report] = []
    monkeypatch.setattr(tune_module, "write_measured", lambda report, folder, logs: written.append(report))
    monkeypatch.setattr(tune_module, "read_report", lambda folder: written[-1])
    first = tune_module.tune(goal(tmp_path))
    assert first.winner is not None and first.winner.name == "runner-up 1"
    kernel = (tmp_path / "package" / "kernel.py").read_text()
    machine = gpu(("b", 1.1))
    again = tune_module.tune(goal(tmp_path))
    assert (tmp_path / "package" / "kernel.py").read_text() == kernel  # the winner stands
    assert again.winner is None and again.fixed == first.fixed
    assert [row.count for row in written[-1].ledger] == [1, 2, 3] and set(machine.measured) == {"b"}
    with pytest.raises(BudgetSpentError):
        tune_module.tune(goal(tmp_path, tries=({"stages": 3},)))


def test_another_spec_has_a_budget_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpu: Any) -> None:
    rows = Ledger().measured(variant(1), "a", made_up.comparison(1.1), "slower").rows
    monkeypatch.setattr(tune_module, "read_report", lambda folder: made_up.report(ledger=rows))
    gpu(("a", 1.0))
    begun, ledger = tune_module.begin(goal(tmp_path))
    assert ledger == Ledger()
    assert tune_module.begin(begun)[1].spent == 1  # the same spec in the same folder
    changed = replace(begun, spec=pinned(begun.spec, (FixedAxis("stages", 3, "another"),)))
    assert tune_module.begin(changed)[1] == Ledger()


def test_a_report_that_cannot_be_read_does_not_restart_the_count(tmp_path: Path) -> None:
    (tmp_path / "measured").mkdir()
    (tmp_path / "measured" / "report.json").write_text("{")
    with pytest.raises(ReportInvalidError):
        earlier_ledger(tmp_path)


def test_what_a_user_decided_keeps_its_reason_and_its_value(tmp_path: Path, gpu: Any) -> None:
    gpu(("a", 1.2), ("b", 1.0), ("c", 1.0))
    mine = (FixedAxis("tile_n", 128, "the caller slices by 128", None, "default"),)
    decided = replace(goal(tmp_path), spec=pinned(load_spec(SPEC), mine))
    found = found_by(decided)
    assert found.winner is not None
    reasons = {axis.axis: axis.because for axis in found.spec.fixed_for("default")}
    assert reasons["tile_n"] == "the caller slices by 128" and reasons["stages"].startswith("measured on")
    with pytest.raises(AxesError, match=r"--try tile_n=64: the spec decides 128: the caller slices by 128"):
        found_by(replace(decided, tries=({"tile_n": 64},)))


def test_without_a_gpu_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("kgen.check.on_device"), "find_gpus", lambda: ())
    with pytest.raises(NoGpuError):
        tune_module.tune(goal(tmp_path))
    assert not (tmp_path / "package").exists()
