"""`kgen port`: replace an existing kernel by a generated one, at parity, in as few measurements as possible.

Stands above `tune`: the same search with the same ledger, against a byte-for-byte copy of the incumbent, and afterwards
the control of the harness and the repository's own path, once each.
"""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kgen.bench.harness import Asked, Progress
from kgen.bench.measure import Measurer
from kgen.bench.report import Comparison, Constraint, Control, Integration, Launch, Report
from kgen.bench.statistics import BAND_LIMIT
from kgen.bench.subject import Bench
from kgen.check.command import run_command
from kgen.errors.bench import MeasurementFailedError
from kgen.spec.model import Reference
from kgen.tune import Goal, Tuned, begin, deliver, search, silent

INTEGRATION_LIMIT_SECONDS = 3600.0
CONTROL_LOG = "logs/control.jsonl"


@dataclass(frozen=True, slots=True)
class Closing:
    """What a port does once, after the kernel is final."""

    falsify: bool = False
    integration: str | None = None


def port(
    goal: Goal,
    incumbent: Reference,
    closing: Closing | None = None,
    asked: Asked | None = None,
    progress: Progress = silent,
) -> Tuned:
    """Emit a replacement of the incumbent, measure it against it, and deliver it with its verdict.

    Raises `NoGpuError` without a GPU that runs the package; nothing is written then.
    """
    closing = closing or Closing()
    goal = replace(goal, spec=replace(goal.spec, incumbent=incumbent))
    goal, ledger = begin(goal)
    found = search(goal, ledger, progress)

    def finish(bench: Bench, report: Report, scratch: Path) -> Report:
        report = _with(report, constraints=launch_constraints(report))
        if closing.falsify:
            progress(f"control: the incumbent against itself on case {bench.gauge}")
            report = _falsified(bench, report, scratch)
        if closing.integration is not None:
            progress(f"integration: {closing.integration}")
            log = scratch / "logs" / "integration.txt"
            found = run_integration(closing.integration, goal.folder, log)
            report = _with(report, logs=(found.log,)).model_copy(update={"integration": found})
        return report

    return deliver(goal, found, asked or Asked(command="kgen port"), progress, finish)


def _with(report: Report, **more: tuple[object, ...]) -> Report:
    """Return the report with more in its lists; what a report that is kept says already is not said twice."""
    found = {name: tuple(dict.fromkeys((*getattr(report, name), *parts))) for name, parts in more.items()}
    return report.model_copy(update=found)


def _falsified(bench: Bench, report: Report, scratch: Path) -> Report:
    """Return the report with the control, or with a note on why there is none: the port stands without it."""
    try:
        found = control(bench, bench.gauge, scratch)
    except MeasurementFailedError as error:
        return _with(report, notes=(f"control: {error.headline}",)).model_copy(update={"control": None})
    if found is None:
        report = _with(report, notes=("control: two loads of the incumbent disagree in their outputs",))
    return _with(report, logs=(CONTROL_LOG,)).model_copy(update={"control": found})


def launch_constraints(report: Report) -> tuple[Constraint, ...]:
    """Return the schedule class and the launch of both arms in the case with the most tiles: there they show best."""
    if not report.compared:
        return ()
    _, found = max(report.compared, key=lambda pair: pair[0].geometry.ctas if pair[0].geometry else 0)
    units = report.machine.gpu.compute_units
    ours, theirs = (schedule_class(arm.launches, units) for arm in (found.kgen, found.incumbent))
    same = ours == theirs
    because = (
        "a port keeps the schedule class"
        if same
        else "kgen writes persistent kernels anew: a gap or gain may come from the schedule"
    )
    scheduling = Constraint(name="scheduling", value=f"incumbent: {theirs}; kgen: {ours}", fixed=same, because=because)
    return (scheduling, *_threads(found))


def schedule_class(launches: Sequence[Launch] | None, units: int) -> str:
    """Return how a call is scheduled, from the grid of its launches."""
    if not launches:
        return "not known: the driver showed no launches"
    if len(launches) > 1:
        return f"{len(launches)} kernels a call"
    if launches[0].ctas <= units:
        return "one kernel, no more CTAs than units (persistent, or too few tiles to tell)"
    return "one kernel, more CTAs than units (a tile each)"


def _threads(found: Comparison) -> tuple[Constraint, ...]:
    if not found.incumbent.launches or not found.kgen.launches:
        return ()
    theirs, ours = (", ".join(_block(launch) for launch in arm.launches or ()) for arm in (found.incumbent, found.kgen))
    value = f"incumbent: {theirs}; kgen: {ours}"
    because = "nothing outside of the kernel sees its threads: the call is the interface"
    return (Constraint(name="thread interface", value=value, fixed=False, because=because),)


def _block(launch: Launch) -> str:
    return f"{'x'.join(map(str, launch.block))} threads a CTA"


def control(bench: Bench, case: str, scratch: Path) -> Control | None:
    """Time the incumbent against a second load of itself, as if it were kgen's kernel; it must be at parity."""
    request = bench.request(case)
    with Measurer(scratch) as measurer:
        found = measurer.measure(replace(request, first=request.second), scratch / CONTROL_LOG).comparison
    if found is None:
        return None
    band = found.band.half_width
    holds = band <= BAND_LIMIT and abs(found.ratio.median - 1) <= band
    return Control(case=case, ratio=found.ratio, band=band, holds=holds)


def run_integration(command: str, folder: Path, log: Path) -> Integration:
    """Run the repository's own path once, in a shell; KGEN_PACKAGE names the package. Its output goes to the log."""
    variables = {**os.environ, "KGEN_PACKAGE": str(folder.resolve())}
    started = time.perf_counter()
    with log.open("wb") as output:
        status = run_command(command, output, INTEGRATION_LIMIT_SECONDS, env=variables)
    seconds = round(time.perf_counter() - started, 1)
    return Integration(command=command, exit_status=status, seconds=seconds, log=f"logs/{log.name}")
