"""What the steps of a run found -> the parts of its Report. Pure: nothing is measured, read or written here."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kgen.bench.geometry import geometry_of
from kgen.bench.measure import Measured
from kgen.bench.plan_facts import PlanFacts, Work
from kgen.bench.report import (
    Case,
    Code,
    Comparison,
    Correctness,
    IsaTarget,
    KernelCode,
    Peak,
    Source,
    Speed,
)
from kgen.bench.utilization import Amounts, Utilization, utilization
from kgen.check.evidence import KernelEvidence
from kgen.check.expect import counted
from kgen.check.package import Expectation
from kgen.check.result import VariantEvidence
from kgen.target import Device, Quantity, load_sources

Tested = Mapping[str, Any]  # one entry of `cases` in RESULT_JSON


def case_of(plan: PlanFacts, device: Device, case: str, tested: Tested, measured: Measured | None, note: str) -> Case:
    """Return everything about one case; a time that the device cannot reach takes all speeds of the case with it."""
    work = plan.work[case]
    correctness = correctness_of(tested)
    speed, errors = _speed(plan, device, work, tested) if correctness.status == "PASS" else (None, [])
    comparison = measured.comparison if measured is not None else None
    if comparison is not None:
        errors += _impossible(plan, device, work, comparison)
    units = measured.machine.gpu.compute_units if measured is not None else device.compute_units
    disagree = measured is not None and measured.comparison is None
    return Case(
        id=case,
        flops=work.flops,
        bytes_read=work.bytes_read,
        bytes_written=work.bytes_written,
        correctness=correctness,
        speed=None if errors or disagree else speed,
        agreement=None if measured is None else measured.agreement,
        comparison=None if errors else comparison,
        geometry=geometry_of(plan, case, device, units),
        measurement_error="; ".join(errors) or None,
        note=note or None,
    )


def correctness_of(tested: Tested) -> Correctness:
    """Return the verdict of test_kernel.py on one case."""
    names = ("rel_err", "max_abs_err", "max_rel_err")
    failures = tuple(map(str, tested.get("failures", ())))
    return Correctness(status=tested["status"], failures=failures, **{name: tested.get(name) for name in names})


def _speed(plan: PlanFacts, device: Device, work: Work, tested: Tested) -> tuple[Speed | None, list[str]]:
    error, latency = tested.get("measurement_error"), tested.get("latency_us")
    if error or latency is None:
        return None, [str(error)] if error else []
    used = _used(plan, device, work, latency)
    if used.measurement_error is not None:
        return None, [f"test_kernel.py: {used.measurement_error}"]
    times = {name: tested.get(name) for name in ("latency_us_p10", "latency_us_p90", "ref_latency_us")}
    found = Speed(
        latency_us=latency,
        **times,
        tflops=used.compute.achieved / 1e12,
        bandwidth_gbps=used.memory.achieved / 1e9,
        tflops_peak_utilization_pct=_percent(used.compute.percent),
        bandwidth_peak_utilization_pct=_percent(used.memory.percent),
        bound=used.bound,  # type: ignore[arg-type]  # the two names of utilization
        roofline_us=used.roofline_us,
    )
    return found, []


def _percent(value: float | None) -> float | None:
    """Return a share of a peak, or None above 100 %: then a peak of low confidence is wrong."""
    return None if value is None or value > 100 else value


def _used(plan: PlanFacts, device: Device, work: Work, time_us: float) -> Utilization:
    return utilization(device, plan.product_dtype, Amounts(work.flops, work.bytes, time_us))


def _impossible(plan: PlanFacts, device: Device, work: Work, comparison: Comparison) -> list[str]:
    """Return why the times of a comparison cannot be right."""
    arms = (("kgen", comparison.kgen), ("incumbent", comparison.incumbent))
    used = ((name, _used(plan, device, work, arm.device_us.median)) for name, arm in arms)
    return [f"{name}: {found.measurement_error}" for name, found in used if found.measurement_error is not None]


def peaks_of(device: Device, dtype: str) -> tuple[Peak, ...]:
    """Return the peaks that a run's utilizations rest on."""
    named: tuple[tuple[str, Quantity | None], ...] = (
        (f"dense peak {dtype}", device.dense_peak(dtype)),
        ("memory bandwidth", device.quantity("quantities.memory_bandwidth")),
        ("compute units", device.quantity("quantities.compute_units")),
    )
    return tuple(
        Peak(name=name, value=q.value, unit=q.unit, source=q.source, confidence=str(q.confidence))
        for name, q in named
        if q is not None
    )


def sources_of(peaks: Iterable[Peak]) -> tuple[Source, ...]:
    """Return the documents that peaks are cited from."""
    known = load_sources()
    cited = (known[name] for name in dict.fromkeys(peak.source for peak in peaks) if name in known)
    return tuple(
        Source(id=s.id, document=s.document, revision=s.revision, date=s.date, evidence=s.evidence) for s in cited
    )


def kernel_code(kernel: KernelEvidence) -> KernelCode:
    """Return the counts of one kernel function."""
    return KernelCode(
        kernel=kernel.kernel,
        mma={f"{site.kind}.{site.shape}".rstrip("."): site.sites for site in kernel.mma},
        bulk_loads=kernel.tma_loads,
        bulk_stores=kernel.tma_stores,
        spills=kernel.spills,
        registers=kernel.registers,
        instructions=kernel.instructions,
    )


def code_of(variants: Iterable[VariantEvidence]) -> tuple[Code, ...]:
    """Return the machine code of kgen's arm, variant by variant."""
    return tuple(
        Code(
            arm="kgen",
            origin=variant.variant,
            arch=variant.arch,
            digest=variant.code_digest,
            kernels=tuple(map(kernel_code, variant.kernels)),
        )
        for variant in variants
        if variant.kernels
    )


def isa_targets(expectations: Iterable[Expectation], variants: Iterable[VariantEvidence]) -> tuple[IsaTarget, ...]:
    """Return the instruction targets of the plan beside what the machine code has."""
    compiled = {variant.variant: variant.kernels for variant in variants}
    return tuple(row for e in expectations for row in _targets(e, compiled.get(e.variant, ())))


def _targets(expected: Expectation, kernels: tuple[KernelEvidence, ...]) -> Iterator[IsaTarget]:
    kinds = sorted({site.kind for kernel in kernels for site in kernel.mma})
    if expected.mma is not None:
        found = ", ".join(kinds) or "none"
        yield _target(
            expected, "tensor-core instructions", expected.mma, found, bool(kernels) and found == expected.mma
        )
    for what, wanted, count in counted(expected, kernels):
        met = bool(kernels) and wanted == (count > 0)
        yield _target(expected, what, "at least 1" if wanted else "none", str(count), met)
    if expected.access_bytes is not None:
        widest = max((k.access_bytes for k in kernels), default=0)
        met = bool(kernels) and widest >= expected.access_bytes
        yield _target(expected, "widest access, bytes", f"at least {expected.access_bytes}", str(widest), met)
    if expected.spills is not None:
        spills = sum(k.spills for k in kernels)
        met = bool(kernels) and spills <= expected.spills
        yield _target(expected, "spills", f"at most {expected.spills}", str(spills), met)


def _target(expected: Expectation, what: str, target: str, current: str, met: bool) -> IsaTarget:
    return IsaTarget(metric=f"{expected.variant}: {what}", target=target, current=current, met=met)
