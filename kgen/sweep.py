"""`kgen tune --sweep N`: measure the N best candidates of one case against the incumbent, outside of a port.

All are built at once and measured one after the other. The table goes into the report; a winner that is clear of the
first plan is emitted with its axes fixed and the measurement as the reason.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from kgen.api import candidates, emit
from kgen.bench.harness import Asked, Progress
from kgen.bench.incumbent import kernel_arm
from kgen.bench.measure import Measured, Measurer
from kgen.bench.report import Report, Sweep, SweepRow
from kgen.bench.subject import Bench, open_bench
from kgen.check.compile import check_packages
from kgen.check.result import CheckResult
from kgen.errors.base import KgenError
from kgen.errors.bench import MeasurementFailedError
from kgen.planning.choice import RankedCandidate
from kgen.tune import (
    FASTEST_OF,
    Found,
    Goal,
    Tuned,
    Variant,
    begin,
    change_of,
    deliver,
    fixed_axes_of,
    is_clear,
    pinned,
    silent,
    slowest,
)

_FAIL = "FAIL: "  # before what a row says of a candidate without a time
Step = Callable[[str, int, int], None]  # what was done, how many are, how many there are


@dataclass(frozen=True, slots=True)
class _Entry:
    """One candidate of the sweep: where its package is, and why there is none."""

    rank: int
    candidate: RankedCandidate
    variant: Variant
    folder: Path | None
    failure: str = ""


def no_steps(title: str, done: int, total: int) -> None:
    """Show nothing."""


def sweep(
    goal: Goal, count: int, asked: Asked | None = None, progress: Progress = silent, step: Step = no_steps
) -> Tuned:
    """Measure `count` candidates, deliver the best correct one, and write the table with the report."""
    goal, ledger = begin(goal)
    bench = open_bench(goal.folder)
    case = goal.case or bench.gauge
    with tempfile.TemporaryDirectory(prefix="kgen-sweep-", ignore_cleanup_errors=True) as text:
        scratch = Path(text)
        entries = _built(goal, case, count, scratch, step)
        rows = []
        with Measurer(scratch) as measurer:
            for number, entry in enumerate(entries, 1):
                rows.append(_row(bench, case, entry, measurer, scratch))
                step(f"measured {entry.variant.name}", number, len(entries))
    table = _table(case, tuple(rows))
    winner = next(entry.variant for entry in entries if entry.rank == table.winner)
    fixed = fixed_axes_of(winner, case, table.because) if table.winner > 1 else ()
    found = Found(pinned(goal.spec, fixed), winner if fixed else None, fixed, ledger)

    def finish(bench: Bench, report: Report, scratch: Path) -> Report:
        return report.model_copy(update={"sweep": table})

    return deliver(goal, found, asked or Asked(command=f"kgen tune --sweep {count}"), progress, finish)


def distinct(goal: Goal, case: str, count: int) -> tuple[RankedCandidate, ...]:
    """Return the best candidates of the slowest kernel that differ in more than the number of stages.

    That alone changes the time little.
    """
    chosen: dict[tuple[object, ...], RankedCandidate] = {}
    for ranked in candidates(goal.spec, goal.device, case, top=None, kernel=slowest(goal, case).kernel).ranked:
        chosen.setdefault(tuple(value for axis, value in ranked.candidate.choices if axis != "stages"), ranked)
        if len(chosen) == count:
            break
    return tuple(chosen.values())


def _built(goal: Goal, case: str, count: int, scratch: Path, step: Step) -> tuple[_Entry, ...]:
    """Emit a package per candidate and compile all of them; a failure is a row of the table."""
    ranked = distinct(goal, case, count)
    first = dict(ranked[0].candidate.choices)
    entries = []
    for rank, candidate in enumerate(ranked, 1):
        axes = dict(candidate.candidate.choices)
        variant = Variant(f"candidate {rank}", axes, change_of(first, axes))
        spec = pinned(goal.spec, fixed_axes_of(variant, case, "a candidate of the sweep"))
        try:
            folder = emit(spec, target=goal.device, folder=scratch / f"candidate{rank}").folder
            entries.append(_Entry(rank, candidate, variant, folder))
        except KgenError as error:
            entries.append(_Entry(rank, candidate, variant, None, f"not emitted: {error.headline}"))
    folders = [entry.folder for entry in entries if entry.folder is not None]
    compiled = check_packages(folders, progress=lambda result, done, total: step("compiled", done, total))
    found = {result.folder: result for result in compiled}
    return tuple(_with_findings(entry, found) for entry in entries)


def _with_findings(entry: _Entry, found: dict[Path, CheckResult]) -> _Entry:
    if entry.folder is None or found[entry.folder].ok:
        return entry
    return replace(entry, folder=None, failure=f"not as planned: {found[entry.folder].findings[0]}")


def _row(bench: Bench, case: str, entry: _Entry, measurer: Measurer, scratch: Path) -> SweepRow:
    measured: Measured | None = None
    failure = entry.failure
    if entry.folder is not None:
        arm = kernel_arm(entry.folder, bench.shapes[case])
        # right is what agrees with the incumbent; the winner passes test_kernel.py before it is delivered
        request = replace(bench.request(case), first=arm, decides=True)
        try:
            measured = measurer.measure(request, scratch / f"{entry.rank}.jsonl")
            failure = "; ".join(measured.agreement.failures)
        except MeasurementFailedError as error:
            failure = error.headline
    comparison = None if measured is None else measured.comparison
    return SweepRow(
        rank=entry.rank,
        plan=str(entry.candidate.candidate),
        predicted_us=entry.candidate.time_us,
        us=None if comparison is None else comparison.kgen.device_us.median,
        ratio=None if comparison is None else comparison.ratio,
        verdict=None if comparison is None else comparison.verdict,
        result=f"{_FAIL}{failure}" if comparison is None else "right",
    )


def _table(case: str, rows: tuple[SweepRow, ...]) -> Sweep:
    """Return the table with its winner: the fastest right candidate, but the first plan unless it is beaten clearly."""
    right = [row for row in rows if row.ratio is not None]
    if not right:
        return Sweep(case=case, rows=rows, winner=1, because="no candidate was right: the first plan stays")
    best = min(right, key=lambda row: row.ratio.median if row.ratio else 0.0)
    first = rows[0]
    assert best.ratio is not None
    if best is first:
        return Sweep(case=case, rows=rows, winner=1, because=f"the first plan is the fastest of {len(rows)} candidates")
    if not is_clear(best.ratio, first.ratio):
        because = f"the fastest, candidate {best.rank}, is not clear of the first plan: {best.ratio} and {first.ratio}"
        return Sweep(case=case, rows=rows, winner=1, because=because)
    was = f"failed ({first.result.removeprefix(_FAIL)})" if first.ratio is None else f"{first.ratio.median:.3f}"
    because = (
        f"{FASTEST_OF} {len(rows)} candidates of a sweep: {best.ratio.median:.3f} of the incumbent's time in case "
        f"{case}, the first plan {was}"
    )
    return Sweep(case=case, rows=rows, winner=best.rank, because=because)
