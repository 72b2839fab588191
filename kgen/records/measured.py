"""What `kgen bench` found of a package -> one record for each case."""

from collections.abc import Mapping
from typing import Any

from kgen.bench.plan_facts import PlanFacts
from kgen.bench.report import Case, Report
from kgen.records.model import ROOFLINE, Kind, Record, Status, bench_record
from kgen.target import Confidence, Quantity


def bench_records(report: Report, plan: PlanFacts, origin: Mapping[str, Any]) -> tuple[Record, ...]:
    """Return the record of each case of a report; `origin` are the fields that all records of the package share.

    The kernel is the one that was measured, which need not be the one that is in the folder now.
    """
    machine = report.machine
    versions = {name: version for name, version in machine.versions.items() if version is not None}
    driver = {"driver": machine.gpu.driver} if machine.gpu.driver else {}
    shared = {
        **origin,
        "kernel_digest": report.kernel_sha256,
        "toolchain": versions | driver | {"python": machine.python},
        "gpu": machine.gpu.name,
        "plan": None,
        "at": report.date,
    }
    return tuple(_record(report, case, plan, shared) for case in report.cases)


def _record(report: Report, case: Case, plan: PlanFacts, shared: Mapping[str, Any]) -> Record:
    figures = _code_figures(report, case, plan) | _roofline(report, case) | _speeds(case)
    others = {**shared, "case": case.id, "how": _how(report, case)}
    failure = None if case.status == "PASS" else f"{case.status}: {'; '.join(case.failures) or 'no reason given'}"
    wrong = failure or case.measurement_error
    if wrong is None and case.speed is None and case.comparison is None:
        note = case.note or "the report has no time of it"
        return Record(kind=Kind.BENCH, status=Status.FAILED, error=f"not measured: {note}", figures=figures, **others)
    return bench_record(failure=wrong, figures=figures, **others)


def _how(report: Report, case: Case) -> str:
    if (found := case.comparison) is None:
        return "test_kernel.py, alone" if case.speed is not None else "test_kernel.py, not timed"
    against = "the reference" if report.incumbent.is_reference else report.incumbent.origin
    band = f"parity band {found.band.half_width:.1%}"
    return f"interleaved {found.order}, {found.turns} rounds of {found.method}, {band}, against {against}"


def _speeds(case: Case) -> dict[str, float]:
    """Return the times of a case and the rates that follow: those of the comparison where there is one."""
    found = case.comparison
    if found is not None:
        times = {"latency_us": found.kgen.device_us.median, "ref_latency_us": found.incumbent.device_us.median}
        times |= {"ratio": found.ratio.median, "ratio_low": found.ratio.low, "ratio_high": found.ratio.high}
    elif case.speed is not None:
        reference = case.speed.ref_latency_us
        times = {"latency_us": case.speed.latency_us} | ({"ref_latency_us": reference} if reference else {})
    else:
        return {}
    rates = {"tflops": case.flops / times["latency_us"] * 1e-6} if case.flops else {}
    return times | rates | {"bandwidth_gbps": (case.bytes_read + case.bytes_written) / times["latency_us"] * 1e-3}


def _roofline(report: Report, case: Case) -> dict[str, float]:
    """Return the least time that the peaks allow which may decide something, with the work it follows from."""
    moved = case.bytes_read + case.bytes_written
    times = []
    for peak in report.peaks:
        if peak.unit != "count" and peak.confidence != Confidence.LOW:
            work = moved if peak.unit == "TB/s" else case.flops
            rate = Quantity(peak.value, peak.unit, peak.source, Confidence(peak.confidence)).per_second
            times.append(work / rate * 1e6)
    return {"flops": case.flops, "bytes": moved} | ({ROOFLINE: max(times)} if times else {})


def _code_figures(report: Report, case: Case, plan: PlanFacts) -> dict[str, float]:
    """Return what was predicted of a case and what its kernels, for aligned operands, were compiled to."""
    chosen = plan.variants_of(case.id)
    names = {variant.name for variant in chosen}
    kernels = [k for c in report.code if c.arm == "kgen" and c.origin in names for k in c.kernels]
    figures: dict[str, float] = {"predicted_us": plan.predicted_us(case.id)} if chosen else {}
    if kernels:
        figures["registers"] = max(k.registers for k in kernels)
        figures["spills"] = sum(k.spills for k in kernels)
        figures["mma_sites"] = sum(sum(k.mma.values()) for k in kernels)
    smem = [count for variant in chosen if (count := variant.choice.derived.smem_bytes) is not None]
    return figures | ({"smem_bytes": max(smem)} if smem else {})
