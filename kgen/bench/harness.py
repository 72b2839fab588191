"""`kgen bench`: one harness, three modes. Build and check first, then time, in an order that is fixed beforehand.

    build   every variant is compiled for its architecture; its machine code is read, kernel by kernel
    check   test_kernel.py of the package: correctness, and the speed that later versions are compared with
    bench   case by case, in a process of its own: the parity band from two identical builds, then A B B A against the
            incumbent, then geometry, instructions and release build, before any other explanation

Nothing is timed that is not right. What was found is one Report; `record` writes it to `measured/`.
"""

import platform
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from kgen.bench import assemble
from kgen.bench.arm_code import build_notes, release_of_variants, second_arm
from kgen.bench.git import commit, commit_of
from kgen.bench.incumbent import Opponent, kernel_arm, opponent_of
from kgen.bench.measure import TURNS, Measured, Measurer, Request
from kgen.bench.plan_facts import PlanFacts, ShapeCase, read_plan, read_shapes
from kgen.bench.profile import profile_case
from kgen.bench.record import MEASURED, read_report, write_measured
from kgen.bench.report import Code, Gpu, Machine, Release, Report
from kgen.bench.statistics import Verdict
from kgen.check.compile import check_package
from kgen.check.gpu import Gpu as FoundGpu
from kgen.check.gpu import driver_version
from kgen.check.match import match_gpus
from kgen.check.on_device import DeviceResult, require_gpu, run_on_device
from kgen.check.package import PackageFolder, read_package
from kgen.check.result import CheckResult
from kgen.check.toolchain import compiler_versions
from kgen.errors.base import KgenError
from kgen.errors.bench import MeasurementFailedError, UnknownBenchCaseError
from kgen.target import Device, all_devices, load_device

LOSSY_BITS = 8  # an output of so few bits rounds more than any tolerance says: the incumbent's own output decides
_BITS = {"bool": 8, "int8": 8, "uint8": 8, "fp8_e4m3": 8, "fp8_e5m2": 8}
Progress = Callable[[str], None]


class Mode(StrEnum):
    """How far a run goes."""

    BUILD = "build"
    CHECK = "check"
    BENCH = "bench"


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of one run; no case ids stand for all cases."""

    mode: Mode = Mode.BENCH
    cases: tuple[str, ...] = ()
    gauge: bool = False  # the smallest case only
    turns: int = TURNS
    version: str = "v0"
    profile: bool = False
    again: bool = False  # measure even where the same machine code was measured before
    git: bool = False
    command: str = "kgen bench"


@dataclass(frozen=True, slots=True)
class BenchResult:
    """The outcome of a run: what its mode went through, and the report where it measured."""

    folder: Path
    compiled: CheckResult
    tested: DeviceResult | None
    report: Report | None
    kept: bool = False  # the report is of an earlier run of the same machine code

    @property
    def ok(self) -> bool:
        """Whether everything that was looked at is right; being slower than the incumbent is not wrong."""
        if self.report is not None:
            return self.report.gate == "PASS"
        return self.compiled.ok and (self.tested is None or self.tested.ok)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {
            "folder": str(self.folder),
            "ok": self.ok,
            "compiled": self.compiled.to_json(),
            "tested": None if self.tested is None else self.tested.to_json(),
            "report": None if self.report is None else self.report.to_json(),
            "kept": self.kept,
        }


@dataclass(frozen=True, slots=True)
class Bench:
    """A package under measurement: its facts, its second arm, and the device file that judges its speeds."""

    package: PackageFolder
    plan: PlanFacts
    shapes: Mapping[str, ShapeCase]
    opponent: Opponent
    device: Device
    gpu: FoundGpu

    @property
    def gauge(self) -> str:
        """The case that iterations are judged by: the smallest one by predicted time."""
        timed = [case for case in self.shapes if has_work(self.plan, case)] or list(self.shapes)
        return min(timed, key=lambda case: self.plan.variant_of(case).choice.time_us)

    def request(self, case: str, turns: int = TURNS) -> Request:
        """Return the comparison of one case."""
        shape = self.shapes[case]
        return Request(
            case=case,
            first=kernel_arm(self.package.folder, shape),
            second=self.opponent.for_case(shape),
            inputs=str((self.package.folder / "input.py").resolve()),
            input_kwargs=shape.input_kwargs,
            bytes=self.plan.work[case].bytes,
            limit=max(self.plan.tolerance.rel_err, 1e-6),
            decides=any(_BITS.get(o.dtype, 16) <= LOSSY_BITS for o in self.plan.outputs),
            turns=turns,
        )


def open_bench(folder: Path) -> Bench:
    """Read a package for measurement; raises `NoGpuError` where no GPU of this machine runs it."""
    package, plan, shapes = read_package(folder), read_plan(folder), read_shapes(folder)
    gpu = require_gpu(package)
    (match,) = match_gpus([gpu], all_devices())
    device = load_device(match.device or package.device)
    return Bench(package, plan, shapes, opponent_of(folder, plan, shapes), device, gpu)


def has_work(plan: PlanFacts, case: str) -> bool:
    """Return whether there is anything to time: an empty output launches nothing."""
    return plan.work[case].bytes_written > 0


def bench(folder: str | Path, asked: Asked | None = None, progress: Progress = lambda step: None) -> BenchResult:
    """Build, check and measure a package on the GPU of this machine; a run over all cases writes `measured/`.

    Raises `NoGpuError`, `UnknownBenchCaseError`, `GitFailedError`, and what building raises when tools are missing.
    """
    asked, opened = asked or Asked(), open_bench(Path(folder))
    with tempfile.TemporaryDirectory(prefix="kgen-bench-", ignore_cleanup_errors=True) as scratch:
        result = run_bench(opened, asked, Path(scratch), progress)
        if result.report is None or result.kept or result.report.unmeasured_cases:
            return result
        return replace(result, report=_recorded(opened, asked, result.report, Path(scratch) / "logs"))


def _recorded(bench: Bench, asked: Asked, report: Report, logs: Path) -> Report:
    """Write `measured/`; where git is asked for and the gate is passed, between two commits."""
    folder, commits = bench.package.folder, asked.git and report.gate == "PASS"
    title = asked.version.upper()
    if commits:
        message = f"{title}: baseline kernel" if asked.version == "v0" else f"{title}: kernel"
        report = report.model_copy(update={"git_commit": commit(folder, bench.plan.files, message)})
    write_measured(report, folder, logs)
    if commits:
        what = "baseline measurement" if asked.version == "v0" else "measurement"
        commit(folder, (MEASURED,), f"{title}: record {what}")
    return report


def run_bench(bench: Bench, asked: Asked, scratch: Path, progress: Progress) -> BenchResult:
    """Go through the steps; logs are left in `scratch/logs`."""
    folder, logs = bench.package.folder, scratch / "logs"
    cases = selected(bench, asked)
    logs.mkdir(parents=True, exist_ok=True)
    progress("build: compile every variant and read its machine code")
    compiled = check_package(folder)
    (logs / "build.txt").write_text(_build_log(compiled), encoding="utf-8")
    result = BenchResult(folder, compiled, None, None)
    if asked.mode is Mode.BUILD:
        return result
    if asked.mode is Mode.BENCH and not asked.again and (known := _known(bench, asked, cases, compiled)) is not None:
        return replace(result, report=known, kept=True)
    progress("check: test_kernel.py")
    if asked.mode is Mode.CHECK:
        return replace(result, tested=_tested(folder, asked, cases, logs))
    with Measurer(scratch) as measurer:  # it imports torch while the test runs
        tested = _tested(folder, asked, cases, logs)
        outcomes = _measure_cases(bench, asked, tested, measurer, logs, progress)
    report = _report(bench, asked, compiled, tested, outcomes)
    return replace(result, tested=tested, report=_profiled(bench, report, asked, logs, progress))


def _tested(folder: Path, asked: Asked, cases: tuple[str, ...], logs: Path) -> DeviceResult:
    """Run test_kernel.py on these cases and keep what it printed."""
    selection = (word for case in cases for word in ("--shape-id", case))
    tested = run_on_device(folder, ("--version", asked.version, "--no-memory", *selection))
    (logs / "test_kernel.txt").write_text(tested.output.replace(str(folder.resolve()), "."), encoding="utf-8")
    return tested


def selected(bench: Bench, asked: Asked) -> tuple[str, ...]:
    """Return the cases of a run in the order of shapes.json; raises `UnknownBenchCaseError`."""
    for case in asked.cases:
        if case not in bench.shapes:
            raise UnknownBenchCaseError(folder=bench.package.folder, case=case, known=", ".join(bench.shapes))
    wanted = (bench.gauge,) if asked.gauge else asked.cases
    return tuple(case for case in bench.shapes if not wanted or case in wanted)


def _known(bench: Bench, asked: Asked, cases: tuple[str, ...], compiled: CheckResult) -> Report | None:
    """Return the report in the folder where it is of the same machine code, incumbent, GPU and software, and good."""
    try:
        report = read_report(bench.package.folder)
    except KgenError:
        return None
    software = compiler_versions()
    same = (
        report.code_digest is not None
        and report.code_digest == compiled.code_digest
        and report.incumbent == bench.opponent.said
        and report.version == asked.version
        and (report.machine.gpu.name, report.machine.gpu.driver) == (bench.gpu.name, driver_version())
        and all(software.get(name, found) == found for name, found in report.machine.versions.items())
        and set(cases) <= {case.id for case in report.cases}
    )
    return report if same and report.gate == "PASS" else None


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What became of one case after the test: a measurement, or why there is none."""

    tested: Mapping[str, Any]
    measured: Measured | None
    note: str
    code: tuple[Code, ...] = ()
    release: tuple[Release, ...] = ()
    notes: tuple[str, ...] = ()


def _measure_cases(
    bench: Bench, asked: Asked, tested: DeviceResult, measurer: Measurer, logs: Path, progress: Progress
) -> dict[str, _Outcome]:
    by_id = {str(case.get("id")): case for case in tested.report.get("cases", ())}
    outcomes = {}
    for case in selected(bench, asked):
        found = by_id.get(case) or {"status": "FAIL", "failures": tested.failures or ("test_kernel.py said nothing",)}
        if found["status"] != "PASS":
            outcomes[case] = _Outcome(found, None, "not timed: it fails")
        elif not has_work(bench.plan, case):
            outcomes[case] = _Outcome(found, None, "not timed: the output is empty, nothing is launched")
        else:
            progress(f"bench {case}: A/A, then A B B A")
            outcomes[case] = _measure_case(bench, bench.request(case, asked.turns), found, measurer, logs)
    return outcomes


def _measure_case(
    bench: Bench, request: Request, tested: Mapping[str, Any], measurer: Measurer, logs: Path
) -> _Outcome:
    try:
        measured = measurer.measure(request, logs / f"{request.case}.jsonl")
    except MeasurementFailedError as error:
        return _Outcome(tested, None, str(error).splitlines()[0])
    isa = bench.device.arch.isa
    code, release, notes = second_arm(measured, isa) if not bench.opponent.said.is_reference else ((), (), ())
    return _Outcome(tested, measured, "", code, release, (*build_notes(measured, isa), *notes))


def _report(
    bench: Bench, asked: Asked, compiled: CheckResult, tested: DeviceResult, outcomes: Mapping[str, _Outcome]
) -> Report:
    plan, package = bench.plan, bench.package
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
        version=asked.version,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        command=asked.command,
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
        notes=tuple(dict.fromkeys(_notes(bench, compiled, tested, outcomes))),
        logs=("logs/build.txt", "logs/test_kernel.txt", *(f"logs/{case}.jsonl" for case in _measured(outcomes))),
    )


def _machine(bench: Bench, outcomes: Iterable[_Outcome]) -> Machine:
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


def _measured(outcomes: Mapping[str, _Outcome]) -> list[str]:
    return [case for case, outcome in outcomes.items() if outcome.measured is not None]


def _runners_up(bench: Bench) -> tuple[str, ...]:
    """Return the runners-up of the gauge's variant in words."""
    variant = bench.plan.variant_of(bench.gauge)
    return tuple(f"{variant.name}: {r}, predicted {r.time_us:.1f} us" for r in variant.runners_up)


def _notes(
    bench: Bench, compiled: CheckResult, tested: DeviceResult, outcomes: Mapping[str, _Outcome]
) -> Iterator[str]:
    yield from compiled.notes
    yield from (failure for failure in tested.failures if failure.startswith("test_kernel.py"))
    if bench.device.name != bench.package.device:
        yield f"planned for {bench.package.device}, measured on {bench.device.name}: the peaks are those of the latter"
    for outcome in outcomes.values():
        yield from outcome.notes


def _profiled(bench: Bench, report: Report, asked: Asked, logs: Path, progress: Progress) -> Report:
    """Return the report with the profile of the case with the largest gap, where one is above its band."""
    if not asked.profile:
        return report
    gaps = {case.id: found.gap for case, found in report.compared if found.verdict is Verdict.SLOWER}
    if not gaps:
        return report.model_copy(update={"notes": (*report.notes, "not profiled: no gap above the parity band")})
    case = max(gaps, key=lambda name: gaps[name])
    progress(f"profile {case}")
    launches = next(found.kgen.launches or () for compared, found in report.compared if compared.id == case)
    kernels = tuple(launch.kernel for launch in launches)
    profile = profile_case(bench.package.folder, case, kernels, logs / "profile.txt")
    return report.model_copy(update={"profile": profile, "logs": (*report.logs, "logs/profile.txt")})


def _build_log(compiled: CheckResult) -> str:
    """Return what the compiler and the disassembler said, variant by variant."""
    lines = []
    for variant in compiled.variants:
        lines.append(f"{variant.variant}: {variant.arch}, compiled in {variant.seconds:.2f} s, {variant.code_digest}")
        lines += [f"  {kernel}" for kernel in variant.kernels]
        lines += [f"  FAILED {variant.failure}"] if variant.failure else []
    lines += [f"finding: {finding}" for finding in compiled.findings]
    return "\n".join((*lines, *compiled.notes)) + "\n"
