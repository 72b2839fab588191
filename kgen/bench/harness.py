"""`kgen bench`: one harness, three modes. Build and check first, then time, in an order that is fixed beforehand.

    build   every variant is compiled for its architecture; its machine code is read, kernel by kernel
    check   test_kernel.py of the package: correctness, and the speed that later versions are compared with
    bench   case by case, in a process of its own: the parity band from two identical builds, then A B B A against the
            incumbent, then geometry, instructions and release build, before any other explanation

Nothing is timed that is not right. What was found is one Report; `record` writes it to `measured/`.
"""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from kgen.bench.arm_code import build_notes, second_arm
from kgen.bench.git import commit
from kgen.bench.gpu_lock import lock_of
from kgen.bench.measure import TURNS, Measurer, Request
from kgen.bench.profile import profile_case
from kgen.bench.record import read_report, require_readable_memory, write_measured
from kgen.bench.report import Report
from kgen.bench.reporting import Outcome, Run, report_of
from kgen.bench.statistics import Verdict
from kgen.bench.subject import Bench, has_work, open_bench
from kgen.check.compile import check_package
from kgen.check.gpu import driver_version
from kgen.check.on_device import DeviceResult, run_on_device
from kgen.check.result import CheckResult
from kgen.check.toolchain import compiler_versions
from kgen.errors.base import KgenError
from kgen.errors.bench import GitFailedError, MeasurementFailedError, UnknownBenchCaseError
from kgen.layout import MEASURED

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


def bench(folder: str | Path, asked: Asked | None = None, progress: Progress = lambda step: None) -> BenchResult:
    """Build, check and measure a package on the GPU of this machine; a run over all cases writes `measured/`.

    Raises `NoGpuError`, `UnknownBenchCaseError`, `GitFailedError`, and what building raises when tools are missing.
    """
    asked, opened = asked or Asked(), open_bench(Path(folder))
    require_readable_memory(opened.package.folder)
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
        try:
            report = report.model_copy(update={"git_commit": commit(folder, bench.plan.files, message)})
        except GitFailedError:
            write_measured(report, folder, logs)  # what was measured is not lost with the commit
            raise
    write_measured(report, folder, logs)
    if commits:
        what = "baseline measurement" if asked.version == "v0" else "measurement"
        commit(folder, (MEASURED,), f"{title}: record {what}")
    return report


def run_bench(bench: Bench, asked: Asked, scratch: Path, progress: Progress) -> BenchResult:
    """Go through the steps; logs are left in `scratch/logs`."""
    folder, steps = bench.package.folder, _Steps(bench, asked, scratch / "logs", progress)
    cases = selected(bench, asked)
    compiled = steps.build()
    result = BenchResult(folder, compiled, None, None)
    if asked.mode is Mode.BUILD:
        return result
    if asked.mode is Mode.CHECK:
        return replace(result, tested=steps.check(cases))
    if (known := _known(bench, asked, cases, compiled)) is not None:
        return replace(result, report=known, kept=True)
    with Measurer(scratch) as measurer:  # it imports torch while the test runs
        tested = steps.check(cases)
        outcomes = {case: steps.bench(case, tested, measurer) for case in cases}
    report = report_of(bench, Run(compiled, tested, outcomes, asked.version, asked.command))
    return replace(result, tested=tested, report=steps.profile(report) if asked.profile else report)


class _Steps:
    """The steps of one run: each says that it begins and leaves its log."""

    def __init__(self, bench: Bench, asked: Asked, logs: Path, progress: Progress) -> None:
        self._bench, self._asked, self._logs, self._progress = bench, asked, logs, progress
        self._lock = lock_of(bench.gpu)
        logs.mkdir(parents=True, exist_ok=True)

    def build(self) -> CheckResult:
        """Compile every variant and read its machine code."""
        self._progress("build: compile every variant and read its machine code")
        compiled = check_package(self._bench.package.folder)
        (self._logs / "build.txt").write_text(_build_log(compiled), encoding="utf-8")
        return compiled

    def check(self, cases: tuple[str, ...]) -> DeviceResult:
        """Run test_kernel.py on these cases and keep what it printed."""
        self._progress("check: test_kernel.py")
        folder = self._bench.package.folder
        selection = (word for case in cases for word in ("--shape-id", case))
        arguments = ("--version", self._asked.version, "--no-memory", *selection)
        tested = run_on_device(folder, arguments, lock=self._lock.path)
        (self._logs / "test_kernel.txt").write_text(tested.output.replace(str(folder.resolve()), "."), encoding="utf-8")
        return tested

    def bench(self, case: str, tested: DeviceResult, measurer: Measurer) -> Outcome:
        """Measure one case, if it passed and there is anything to time."""
        by_id = {str(found.get("id")): found for found in tested.report.get("cases", ())}
        silent = {"status": "FAIL", "failures": tested.failures or ("test_kernel.py said nothing",)}
        found = by_id.get(case) or silent
        if found["status"] != "PASS":
            return Outcome(found, None, "not timed: it fails")
        if not has_work(self._bench.plan, case):
            return Outcome(found, None, "not timed: the output is empty, nothing is launched")
        self._progress(f"bench {case}: A/A, then A B B A")
        return self._measured(self._bench.request(case, self._asked.turns), found, measurer)

    def _measured(self, request: Request, tested: Mapping[str, Any], measurer: Measurer) -> Outcome:
        try:
            measured = measurer.measure(request, self._logs / f"{request.case}.jsonl")
        except MeasurementFailedError as error:
            return Outcome(tested, None, error.headline)
        isa, is_reference = self._bench.device.arch.isa, self._bench.opponent.said.is_reference
        code, release, notes = ((), (), ()) if is_reference else second_arm(measured, isa)
        return Outcome(tested, measured, "", code, release, (*build_notes(measured, isa), *notes))

    def profile(self, report: Report) -> Report:
        """Return the report with the profile of the case with the largest gap, where one is above its band."""
        gaps = {case.id: found.gap for case, found in report.compared if found.verdict is Verdict.SLOWER}
        if not gaps:
            return report.model_copy(update={"notes": (*report.notes, "not profiled: no gap above the parity band")})
        case = max(gaps, key=lambda name: gaps[name])
        self._progress(f"profile {case}")
        launches = next(found.kgen.launches or () for compared, found in report.compared if compared.id == case)
        kernels = tuple(launch.kernel for launch in launches)
        profile = profile_case(self._bench.package.folder, case, kernels, self._logs / "profile.txt")
        return report.model_copy(update={"profile": profile, "logs": (*report.logs, "logs/profile.txt")})


def selected(bench: Bench, asked: Asked) -> tuple[str, ...]:
    """Return the cases of a run in the order of shapes.json; raises `UnknownBenchCaseError`."""
    for case in asked.cases:
        if case not in bench.shapes:
            raise UnknownBenchCaseError(folder=bench.package.folder, case=case, known=", ".join(bench.shapes))
    wanted = (bench.gauge,) if asked.gauge else asked.cases
    return tuple(case for case in bench.shapes if not wanted or case in wanted)


def _known(bench: Bench, asked: Asked, cases: tuple[str, ...], compiled: CheckResult) -> Report | None:
    """Return the report in the folder where it is of the same machine code, incumbent, GPU and software, and good."""
    if asked.again or asked.profile or asked.git:
        return None
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


def _build_log(compiled: CheckResult) -> str:
    """Return what the compiler and the disassembler said, variant by variant."""
    lines = []
    for variant in compiled.variants:
        lines.append(f"{variant.variant}: {variant.arch}, compiled in {variant.seconds:.2f} s, {variant.code_digest}")
        lines += [f"  {kernel}" for kernel in variant.kernels]
        lines += [f"  FAILED {variant.failure}"] if variant.failure else []
    lines += [f"finding: {finding}" for finding in compiled.findings]
    return "\n".join((*lines, *compiled.notes)) + "\n"
