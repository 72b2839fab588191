"""The memory file of a report: valid by its schema, null where nothing was measured, silent about what failed."""

from pathlib import Path
from typing import Any

import bench_reports as made_up
import pytest

from kgen.bench.baseline_memory import SCOPE, memory_document
from kgen.bench.memory_fields import validate
from kgen.bench.report import Agreement, Case, IsaTarget, LedgerRow, Report
from kgen.bench.statistics import Verdict

MEANS = (
    "latency_us",
    "latency_us_geomean",
    "latency_us_arith_mean",
    "speedup_vs_ref_geomean",
    "tflops",
    "bandwidth_gbps",
    "tflops_peak_utilization_pct",
    "bandwidth_peak_utilization_pct",
)
DISAGREES = Agreement(rel_err=0.5, limit=0.02, operand_scale=1.0, decides=True, failures=("output 0 differs",))


def timed(name: str, latency_us: float, **fields: Any) -> Case:
    speed = made_up.speed(latency_us).model_copy(update={"ref_latency_us": 2 * latency_us, **fields})
    return made_up.case(name, speed=speed)


def empty(name: str = "empty") -> Case:
    return made_up.case(name, speed=None, comparison=None, note="the output is empty")


def error(name: str = "fast") -> Case:
    return made_up.case(name, speed=None, comparison=None, measurement_error="120 % of the peak")


def document(*cases: Case, before: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """Return the memory document of a report; it is valid whatever the report says."""
    report: Report = made_up.report(*cases, **fields)
    found = memory_document(report, before)
    validate(found, Path(f"{report.version}.json"))
    return found


@pytest.mark.parametrize(
    "report",
    [
        made_up.full(),
        made_up.report(),
        made_up.report(made_up.failed(), made_up.failed("slow", "TIMEOUT_FAIL")),
        made_up.report(empty()),
        made_up.report(error()),
        made_up.report(made_up.case(agreement=DISAGREES, speed=None, comparison=None)),
        made_up.report(runners_up=tuple("abcdef"), code_findings=("spills",), version="v12"),
        made_up.report(peaks=(), sources=(), configuration=(), git_commit="f" * 40),
    ],
)
def test_it_is_valid(report: Report) -> None:
    validate(memory_document(report), Path(f"{report.version}.json"))


def test_speeds_are_means_over_the_timed_cases() -> None:
    found = document(timed("one", 200.0), timed("four", 800.0), empty())["performance"]
    assert found["latency_us"] == found["latency_us_geomean"] == pytest.approx(400.0)
    assert found["latency_us_arith_mean"] == pytest.approx(500.0)
    assert found["speedup_vs_ref_geomean"] == pytest.approx(2.0)
    assert found["tflops"] == pytest.approx(made_up.FLOPS / 400.0 * 1e-6)
    assert found["latency_us_by_shape"] == {"one": 200.0, "four": 800.0, "empty": None}
    assert found["measured_shape_count"] == 2 and found["measurement_status"] == "complete"
    assert found["measurement_scope"] == SCOPE and found["shape_ids_are_opaque"] is False


@pytest.mark.parametrize(
    ("cases", "fields", "status"),
    [
        ((made_up.failed(),), {}, "FAIL"),
        ((made_up.failed(status="TIMEOUT_FAIL"),), {}, "TIMEOUT_FAIL"),
        ((made_up.case("right"), made_up.failed()), {}, "FAIL"),
        ((made_up.case("right"), error()), {}, "PASS"),
        ((empty(),), {}, "PASS"),
        ((made_up.case(agreement=DISAGREES, speed=None, comparison=None),), {}, "FAIL"),
    ],
)
def test_no_mean_where_a_case_has_no_right_time(cases: tuple[Case, ...], fields: Any, status: str) -> None:
    found = document(*cases, before=document(), **fields)
    assert {found["performance"][name] for name in MEANS} == {None}
    assert found["performance"]["measurement_status"] == "incomplete"
    assert found["correctness"]["status"] == status
    assert set(found["performance"]["comparison_with_previous"].values()) == {None}


def test_a_mean_is_null_where_one_case_lacks_the_figure() -> None:
    two = (timed("one", 200.0), timed("two", 200.0, ref_latency_us=None, tflops_peak_utilization_pct=None))
    found = document(*two)["performance"]
    assert found["speedup_vs_ref_geomean"] is None and found["tflops_peak_utilization_pct"] is None
    assert found["latency_us"] == pytest.approx(200.0) and found["bandwidth_peak_utilization_pct"] is not None


def test_utilizations_are_at_most_all_of_the_peak() -> None:
    found = document(timed("one", 137.5, bandwidth_peak_utilization_pct=100.0))["performance"]
    assert 0 < found["tflops_peak_utilization_pct"] <= 100
    assert found["bandwidth_peak_utilization_pct"] == 100.0  # exp(log(100)) is above it


def test_unmeasured_cases_make_it_incomplete() -> None:
    found = document(unmeasured_cases=("huge",))["performance"]
    assert found["measurement_status"] == "incomplete" and found["latency_us"] == pytest.approx(180.0)


def test_the_comparison_with_the_version_before() -> None:
    before = document(timed("one", 200.0))
    found = document(timed("one", 150.0), before=before, version="v1")
    assert found["performance"]["comparison_with_previous"] == {
        "latency_delta": pytest.approx(-50.0),
        "tflops_delta": pytest.approx(made_up.FLOPS * (1 / 150 - 1 / 200) * 1e-6),
        "bandwidth_delta": pytest.approx((made_up.BYTES_READ + made_up.BYTES_WRITTEN) * (1 / 150 - 1 / 200) * 1e-3),
    }
    nothing = document(made_up.failed())
    lost = document(timed("one", 150.0), before=nothing, version="v1")["performance"]["comparison_with_previous"]
    assert set(lost.values()) == {None}


@pytest.mark.parametrize(("version", "category"), [("v0", "baseline"), ("v1", None), ("v10", None)])
def test_only_v0_is_the_baseline(version: str, category: str | None) -> None:
    found = document(version=version)
    assert found["version"] == version and found["optimization"]["action_category"] == category
    assert found["optimization"]["action_description"] == "default_tma: 128 x 256 x 64, 384 threads, TMA loads"


def row(count: int, verdict: Verdict | None, **fields: Any) -> LedgerRow:
    ratio = None if verdict is None else made_up.around(1.03)
    named = {"count": count, "name": f"variant {count}", "change": f"stages 4 -> {count}", "code_digest": None}
    return LedgerRow(**{**named, "ratio": ratio, "verdict": verdict, "result": "said", **fields})


def test_experiments_are_the_rows_of_the_ledger_with_their_decisions() -> None:
    verdicts = (Verdict.SLOWER, Verdict.PARITY, Verdict.FASTER, Verdict.UNSTABLE, None)
    found = document(ledger=tuple(row(n, verdict) for n, verdict in enumerate(verdicts)))["experience"]
    assert found["experiment_count"] == found["recorded_experiment_count"] == 5
    assert [e["decision"] for e in found["experiments"]] == ["revert", "continue", "continue", None, None]
    assert [e["index"] for e in found["experiments"]] == [0, 1, 2, 3, 4]
    first, last = found["experiments"][0], found["experiments"][-1]
    assert first["name"] == "variant 0" and first["change"] == "stages 4 -> 0" and first["result"] == "said"
    assert first["evidence"].startswith("variant / incumbent 1.030 [") and last["evidence"] is None


def test_at_most_three_directions_stay_open() -> None:
    found = document(runners_up=("one", "two", "three", "four"))["open_directions"]
    assert [d["direction"] for d in found] == ["one", "two", "three"]
    assert {d["rationale"] for d in found} == {"ranked next by the cost model; not measured"}


def test_pitfalls_are_failures_and_timeouts() -> None:
    wrong, slow = made_up.failed("wrong"), made_up.failed("slow", "TIMEOUT_FAIL")
    found = document(made_up.case("right"), wrong, slow)
    kinds = [(p["error_type"], p["error_message"]) for p in found["pitfalls_and_fixes"]]
    assert kinds == [
        ("accuracy", "wrong, seed 0: rel_err 0.75 is above 0.01"),
        ("timeout", "slow, seed 0: rel_err 0.75 is above 0.01"),
    ]
    assert found["quality_gate"]["result"] == "FAIL"  # a wrong result says more than one that came late
    assert found["quality_gate"]["failure_reason"] == "; ".join(message for _, message in kinds)
    assert found["correctness"]["rel_err"] == 0.75


def test_an_incumbent_that_disagrees_is_a_pitfall_only_where_it_decides() -> None:
    (only,) = document(made_up.case(agreement=DISAGREES, speed=None, comparison=None))["pitfalls_and_fixes"]
    assert only["error_type"] == "accuracy" and only["error_message"] == "output 0 differs"
    aside = DISAGREES.model_copy(update={"decides": False})
    found = document(made_up.case(agreement=aside))
    assert found["pitfalls_and_fixes"] == [] and found["quality_gate"] == {"result": "PASS", "failure_reason": None}


def test_the_gate_says_why_it_fails() -> None:
    assert document(error())["quality_gate"] == {"result": "FAIL", "failure_reason": "fast: 120 % of the peak"}
    found = document(code_findings=("spills: 3",))
    assert found["quality_gate"] == {"result": "FAIL", "failure_reason": "spills: 3"}
    assert found["correctness"]["status"] == "PASS"


def test_the_bottleneck_is_null_where_cases_differ_or_say_nothing() -> None:
    compute, memory = timed("one", 200.0), timed("two", 200.0, bound="memory_bound")
    found = [document(*cases)["profile_evidence"]["bottleneck_type"] for cases in ([compute], [memory])]
    assert found == ["compute_bound", "memory_bound"]
    for cases in ([compute, memory], [compute, timed("two", 200.0, bound=None)], [empty()], [made_up.failed()]):
        assert document(*cases)["profile_evidence"]["bottleneck_type"] is None


def test_the_evidence_is_the_comparison_and_the_geometry() -> None:
    found = document(timed("one", 200.0), timed("two", 200.0))["profile_evidence"]
    assert found["evidence_summary"] == (
        "kgen / ours.py::gemm 0.980 (geometric mean of 2 cases, A B B A), parity band +-1.2%: faster"
    )
    assert found["evidence_chain"].startswith("512 tiles on 132 slots") and ";" in found["evidence_chain"]
    assert found["evidence_chain"].count("512 tiles") == 1  # said once for both cases
    assert document(empty())["profile_evidence"]["evidence_summary"] is None


def test_what_made_the_figures_is_kept() -> None:
    target = IsaTarget(metric="spills", target="at most 0", current="2", met=False)
    found = document(isa_targets=(target,), git_commit="f" * 40)
    assert found["isa_metric_progress"] == [target.model_dump()]
    assert found["git_commit_hash"] == "f" * 40
    assert found["references"] == [
        {"source_type": "document", "path_or_url": "made_up_sheet", "description": "A sheet, 1"}
    ]
    tools = [memory_document(r)["profile_evidence"]["tool_used"] for r in (made_up.report(), made_up.full())]
    assert tools == ["kgen bench", "ncu 2031.1"]
    profile = made_up.full().profile
    assert profile is not None
    failed = document(profile=profile.model_copy(update={"failure": "no right to count"}))
    assert failed["profile_evidence"]["tool_used"] == "kgen bench"
