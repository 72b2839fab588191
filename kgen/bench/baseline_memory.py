"""Report -> the memory file of its version: what was measured, and null for everything else.

Speeds are those of test_kernel.py, whose later runs they are compared with; the comparison with the incumbent is
evidence.
"""

from collections.abc import Sequence
from datetime import datetime
from statistics import fmean
from typing import Any

from kgen.bench.memory_fields import empty_document
from kgen.bench.report import Case, LedgerRow, Report
from kgen.bench.statistics import Verdict, geomean

SCOPE = "device time of one call, whole problem, cold L2 (CUDA graph replays over rotating buffers), by test_kernel.py"
_DECISIONS = {Verdict.FASTER: "continue", Verdict.PARITY: "continue", Verdict.SLOWER: "revert"}
_MOST_DIRECTIONS = 3


def memory_document(report: Report, before: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the memory document of a report; `before` is that of the version it is compared with."""
    is_baseline = report.version == "v0"
    return {
        **empty_document(),
        "version": report.version,
        "timestamp": datetime.fromisoformat(report.date).isoformat(timespec="seconds"),
        "performance": _performance(report, before),
        "optimization": {
            "action_category": "baseline" if is_baseline else None,
            "action_description": "; ".join(f"{name}: {plan}" for name, plan in report.configuration),
            "expected_impact": None,
            "risks_and_rollback": None,
        },
        "profile_evidence": _evidence(report),
        "experience": _experience(report.ledger),
        "correctness": {
            "rel_err": _largest(report.cases, "rel_err"),
            "status": report.status,
            "max_abs_err": _largest(report.cases, "max_abs_err"),
            "max_rel_err": _largest(report.cases, "max_rel_err"),
        },
        "isa_metric_progress": [target.model_dump() for target in report.isa_targets],
        "pitfalls_and_fixes": [_pitfall(case, failure) for case in report.cases for failure in case.failures],
        "references": [
            {
                "source_type": "document",
                "path_or_url": source.id,
                "description": f"{source.document}, {source.revision}",
            }
            for source in report.sources
        ],
        "open_directions": [
            {"direction": words, "rationale": "ranked next by the cost model; not measured"}
            for words in report.runners_up[:_MOST_DIRECTIONS]
        ],
        "quality_gate": {"result": report.gate, "failure_reason": "; ".join(_reasons(report)) or None},
        "git_commit_hash": report.git_commit,
    }


def _performance(report: Report, before: dict[str, Any] | None) -> dict[str, Any]:
    timed = [case for case in report.cases if case.speed is not None]
    whole = report.status == "PASS" and timed and not any(case.measurement_error for case in report.cases)
    found = _means(timed) if whole else dict.fromkeys(_MEANS)
    complete = whole and not report.unmeasured_cases
    return {
        **found,
        "latency_us_by_shape": {case.id: case.speed.latency_us if case.speed else None for case in report.cases},
        "comparison_with_previous": _difference(found, before),
        "measurement_scope": SCOPE,
        "shape_ids_are_opaque": False,
        "measurement_status": "complete" if complete else "incomplete",
        "measured_shape_count": len(timed),
    }


_MEANS = (
    "latency_us",
    "latency_us_geomean",
    "latency_us_arith_mean",
    "speedup_vs_ref_geomean",
    "tflops",
    "bandwidth_gbps",
    "tflops_peak_utilization_pct",
    "bandwidth_peak_utilization_pct",
)


def _means(timed: Sequence[Case]) -> dict[str, float | None]:
    """Return the figures over all cases; a mean is null where a case lacks the figure."""
    speeds = [case.speed for case in timed if case.speed is not None]
    latencies = [speed.latency_us for speed in speeds]
    speedups = [None if s.ref_latency_us is None else s.ref_latency_us / s.latency_us for s in speeds]
    names = ("tflops", "bandwidth_gbps", "tflops_peak_utilization_pct", "bandwidth_peak_utilization_pct")
    return {
        "latency_us": _mean(latencies),
        "latency_us_geomean": _mean(latencies),
        "latency_us_arith_mean": fmean(latencies),
        "speedup_vs_ref_geomean": _mean(speedups),
        **{name: _mean([getattr(speed, name) for speed in speeds]) for name in names},
    }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value]
    if not known or len(known) != len(values):
        return None
    return min(max(geomean(known), min(known)), max(known))  # rounding must not lift 100 % above 100 %


def _difference(found: dict[str, Any], before: dict[str, Any] | None) -> dict[str, float | None]:
    pairs = {"latency_delta": "latency_us", "tflops_delta": "tflops", "bandwidth_delta": "bandwidth_gbps"}
    old = {} if before is None else before["performance"]
    both = {name: (found[field], old.get(field)) for name, field in pairs.items()}
    return {name: None if new is None or was is None else new - was for name, (new, was) in both.items()}


def _evidence(report: Report) -> dict[str, Any]:
    bounds = {case.speed.bound for case in report.cases if case.speed is not None}
    lines = [case.geometry.statement for case in report.cases if case.geometry is not None]
    return {
        "tool_used": report.profile.tool if report.profile and not report.profile.failure else "kgen bench",
        "evidence_summary": _comparison_words(report),
        "bottleneck_type": bounds.pop() if len(bounds) == 1 else None,
        "evidence_chain": "; ".join(dict.fromkeys(lines)) or None,
    }


def _comparison_words(report: Report) -> str | None:
    ratio, band = report.ratio_geomean, report.band
    if ratio is None or band is None:
        return None
    cases = len(report.compared)
    return (
        f"kgen / {report.incumbent.origin} {ratio:.3f} (geometric mean of {cases} case{'s' if cases != 1 else ''}, "
        f"A B B A), parity band +-{band:.1%}: {report.verdict}"
    )


def _experience(ledger: Sequence[LedgerRow]) -> dict[str, Any]:
    experiments = [
        {
            "index": index,
            "name": row.name,
            "hypothesis": "ranked next by the cost model",
            "change": row.change,
            "evidence": None if row.ratio is None else f"variant / incumbent {row.ratio}",
            "result": row.result,
            "decision": None if row.verdict is None else _DECISIONS.get(row.verdict),
        }
        for index, row in enumerate(ledger)
    ]
    return {
        "experiment_count": len(experiments),
        "recorded_experiment_count": len(experiments),
        "experiments": experiments,
    }


def _largest(cases: Sequence[Case], name: str) -> float | None:
    found = [value for case in cases if (value := getattr(case.correctness, name)) is not None]
    return max(found, default=None)


def _pitfall(case: Case, failure: str) -> dict[str, Any]:
    kind = "timeout" if case.correctness.status == "TIMEOUT_FAIL" else "accuracy"
    return {
        "error_type": kind,
        "error_message": failure,
        "root_cause": None,
        "fix_applied": None,
        "lesson": None,
    }


def _reasons(report: Report) -> list[str]:
    failures = [failure for case in report.cases for failure in case.failures]
    errors = [f"{case.id}: {case.measurement_error}" for case in report.cases if case.measurement_error]
    return [*failures, *errors, *report.code_findings] if report.gate != "PASS" else []
