"""What one run went through -> its Report."""

import platform
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kgen.bench import assemble
from kgen.bench.arm_code import release_of_variants
from kgen.bench.git import commit_of
from kgen.bench.measure import Measured
from kgen.bench.report import Code, Gpu, Machine, Release, Report
from kgen.bench.subject import Bench
from kgen.check.gpu import driver_version
from kgen.check.on_device import DeviceResult
from kgen.check.result import CheckResult
from kgen.check.toolchain import compiler_versions


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one case after the test: a measurement, or why there is none."""

    tested: Mapping[str, Any]
    measured: Measured | None
    note: str
    code: tuple[Code, ...] = ()
    release: tuple[Release, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """The results of the steps: build, check, and the outcome of each case in the order they were measured."""

    compiled: CheckResult
    tested: DeviceResult
    outcomes: Mapping[str, Outcome]
    version: str
    command: str


def report_of(bench: Bench, run: Run) -> Report:
    """Return the report of a run that ends now."""
    plan, package, compiled, outcomes = bench.plan, bench.package, run.compiled, run.outcomes
    cases = tuple(
        assemble.case_of(plan, bench.device, case, outcome.tested, outcome.measured, outcome.note)
        for case, outcome in outcomes.items()
    )
    peaks = assemble.peaks_of(bench.device, plan.product_dtype)
    evidence = next((outcome for outcome in outcomes.values() if outcome.code), None)
    return Report(
        name=plan.name,
        family=plan.family,
        target=package.device,
        version=run.version,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        command=run.command,
        kernel_sha256=package.kernel_digest,
        code_digest=compiled.code_digest,
        gauge=bench.gauge,
        machine=_machine(bench, outcomes.values()),
        peaks=peaks,
        sources=assemble.sources_of(peaks),
        configuration=tuple((v.name, v.words) for v in plan.variants),
        reference="\n".join(plan.computation),
        tolerance=plan.tolerance.rel_err,
        incumbent=bench.opponent.said,
        cases=cases,
        unmeasured_cases=tuple(case for case in bench.shapes if case not in outcomes),
        code=(*assemble.code_of(compiled.variants), *(evidence.code if evidence else ())),
        release=(release_of_variants(package.folder, compiled, package.arch), *(evidence.release if evidence else ())),
        isa_targets=assemble.isa_targets(package.expectations, compiled.variants),
        code_findings=tuple(map(str, compiled.findings)),
        runners_up=_runners_up(bench),
        constraints=plan.constraints,
        git_commit=commit_of(package.folder, plan.files),
        notes=tuple(dict.fromkeys(_notes(bench, run))),
        logs=("logs/build.txt", "logs/test_kernel.txt", *(f"logs/{case}.jsonl" for case in _measured(outcomes))),
    )


def _machine(bench: Bench, outcomes: Iterable[Outcome]) -> Machine:
    for outcome in outcomes:
        if outcome.measured is not None:
            return outcome.measured.machine
    gpu = Gpu(
        name=bench.gpu.name,
        isa=bench.gpu.isa,
        compute_units=bench.gpu.compute_units,
        l2_bytes=None,
        driver=driver_version(),
    )
    return Machine(gpu=gpu, python=platform.python_version(), versions=compiler_versions())


def _measured(outcomes: Mapping[str, Outcome]) -> list[str]:
    return [case for case, outcome in outcomes.items() if outcome.measured is not None]


def _runners_up(bench: Bench) -> tuple[str, ...]:
    """Return the runners-up of the gauge's slowest kernel in words."""
    variant = bench.plan.slowest_of(bench.gauge)
    return tuple(f"{variant.name}: {r}, predicted {r.time_us:.1f} us" for r in variant.runners_up)


def _notes(bench: Bench, run: Run) -> Iterator[str]:
    yield from run.compiled.notes
    yield from (failure for failure in run.tested.failures if failure.startswith("test_kernel.py"))
    if bench.device.name != bench.package.device:
        yield f"planned for {bench.package.device}, measured on {bench.device.name}: the peaks are those of the latter"
    for outcome in run.outcomes.values():
        yield from outcome.notes
