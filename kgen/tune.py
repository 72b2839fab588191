"""`kgen tune`: rebuild and measure a few variants, and deliver the best correct one.

Stands above compiler and bench: it emits folders and benches them. The first plan is measured first; inside the parity
band it is delivered as it is. Otherwise the plan's runners-up are tried, three at most in all: the `Ledger` refuses a
fourth. A variant whose machine code was measured before is not measured again, and costs nothing of the budget.
"""

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kgen.api import Package, emit, plan
from kgen.bench.harness import Asked, Progress, run_bench
from kgen.bench.record import read_report, write_measured
from kgen.bench.report import VARIANT_BUDGET, Comparison, LedgerRow, Report
from kgen.bench.statistics import Interval, Verdict
from kgen.bench.subject import Bench, open_bench
from kgen.check.compile import check_package
from kgen.check.on_device import require_isa
from kgen.errors.base import KgenError
from kgen.errors.bench import BudgetSpentError, ReportMissingError
from kgen.errors.cli import AxesError
from kgen.errors.dynamic import DynamicTuneError
from kgen.golden import GENERATED
from kgen.package.folder import KERNEL_FILE, PLAN_FILE, text_digest
from kgen.package.write import write_package
from kgen.planning.plan import Variant as PlannedVariant
from kgen.request import as_case, as_device, as_spec
from kgen.rules.model import Value
from kgen.spec.model import FixedAxis, Spec
from kgen.target import Device

MEASURED_ON, FASTEST_OF = "measured on", "fastest of"  # how reasons begin that a measurement gave
DELIVERED = (Verdict.FASTER, Verdict.PARITY)
Axes = Mapping[str, Value]
Finish = Callable[[Bench, Report, Path], Report]


def silent(step: str) -> None:
    """Show no progress."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One alternative of one case: the axes that are pinned, and what that changes against the first plan."""

    name: str
    axes: Axes
    change: str


@dataclass(frozen=True, slots=True)
class Ledger:
    """Variants that were rebuilt and measured, diagnostic ones too; the control run of an incumbent is none."""

    rows: tuple[LedgerRow, ...] = ()
    budget: int = VARIANT_BUDGET

    @property
    def spent(self) -> int:
        """How many variants were measured."""
        return self.rows[-1].count if self.rows else 0

    @property
    def left(self) -> int:
        """How many may still be."""
        return self.budget - self.spent

    def require_room(self, name: str) -> None:
        """Raise `BudgetSpentError` where another variant would be one too many."""
        if self.left < 1:
            raise BudgetSpentError(name=name, budget=self.budget, names=", ".join(row.name for row in self.rows))

    def measured(self, variant: Variant, digest: str | None, found: Comparison | None, result: str) -> "Ledger":
        """Return the ledger with a variant that was measured, or that failed where it should have been."""
        self.require_room(variant.name)
        return self._with(self.spent + 1, variant, digest, found, result)

    def skipped(self, variant: Variant, digest: str | None, result: str) -> "Ledger":
        """Return the ledger with a variant that was not measured: it costs nothing."""
        return self._with(self.spent, variant, digest, None, result)

    def _with(
        self, count: int, variant: Variant, digest: str | None, found: Comparison | None, result: str
    ) -> "Ledger":
        row = LedgerRow(
            count=count,
            name=variant.name,
            change=variant.change,
            code_digest=digest,
            ratio=None if found is None else found.ratio,
            verdict=None if found is None else found.verdict,
            result=result,
        )
        return replace(self, rows=(*self.rows, row))


@dataclass(frozen=True, slots=True)
class Goal:
    """What is tuned: one case of a spec on a device, judged against the incumbent of the package in `folder`."""

    spec: Spec
    device: Device
    folder: Path
    case: str | None = None  # default: the gauge
    tries: tuple[Axes, ...] = ()  # default: the plan's runners-up


def goal_of(
    spec: Spec | str | Path,
    target: Device | str | None = None,
    folder: str | Path | None = None,
    case: str | None = None,
    tries: Sequence[Axes] = (),
) -> Goal:
    """Return the goal in the package folder of a spec, by default the one among the generated packages.

    Refuses an unknown target or case, and a spec whose cases share plans, before anything is written.
    """
    loaded = as_spec(spec)
    device = as_device(loaded, target)
    as_case(loaded, case)
    if loaded.dynamic is not None:
        raise DynamicTuneError(where=loaded.dynamic.where, extent=loaded.dynamic.name)
    place = GENERATED / device.name / loaded.name if folder is None else Path(folder)
    return Goal(loaded, device, place, case, tuple(tries))


@dataclass(frozen=True, slots=True)
class Found:
    """What a search ended with: the spec to deliver, the variant it pins, and the ledger."""

    spec: Spec
    winner: Variant | None
    fixed: tuple[FixedAxis, ...]
    ledger: Ledger


@dataclass(frozen=True, slots=True)
class Tuned:
    """The outcome: the delivered package, its report, and the axes that a measurement fixed, if one did."""

    package: Package
    report: Report
    winner: Variant | None
    fixed: tuple[FixedAxis, ...]

    @property
    def ok(self) -> bool:
        """Whether the delivered kernel is right."""
        return self.report.gate == "PASS"


def tune(goal: Goal, asked: Asked | None = None, progress: Progress = silent) -> Tuned:
    """Emit, measure, try at most three variants, deliver the best correct one; writes `measured/` of the folder.

    Raises `NoGpuError` without a GPU that runs the package, and `BudgetSpentError` where variants were asked for by
    name and earlier runs spent the budget.
    """
    goal, ledger = begin(goal)
    found = search(goal, ledger, progress)
    return deliver(goal, found, asked or Asked(command="kgen tune"), progress)


def begin(goal: Goal) -> tuple[Goal, Ledger]:
    """Emit the package and return the goal to go on with, and the ledger of earlier runs: its count is never restarted.

    Where an earlier run of the same spec delivered a winner, its axes are decided in the goal. Another spec makes
    another kernel, with a budget of its own. Raises `NoGpuError`, and then nothing is written.
    """
    require_isa(goal.device.arch.isa, goal.folder)
    there = kernel_digest(goal.folder)
    spec, files, ledger = goal.spec, emit(goal.spec, target=goal.device).files, Ledger()
    if text_digest(files[KERNEL_FILE]) == there:
        ledger = earlier_ledger(goal.folder)
    elif axes := earlier_axes(goal.folder):
        tuned = pinned(goal.spec, axes)
        tuned_files = emit(tuned, target=goal.device).files
        if text_digest(tuned_files[KERNEL_FILE]) == there:
            spec, files, ledger = tuned, tuned_files, earlier_ledger(goal.folder)
    write_package(files, goal.folder)
    return replace(goal, spec=spec), ledger


def search(goal: Goal, ledger: Ledger, progress: Progress) -> Found:
    """Measure the package in the folder, then variants, until one is inside the band or the budget is spent."""
    case = goal.case or open_bench(goal.folder).gauge
    as_case(goal.spec, case)
    with tempfile.TemporaryDirectory(prefix="kgen-tune-", ignore_cleanup_errors=True) as scratch:
        run = _Search(goal, case, Path(scratch), progress)
        first = run.measure(goal.folder, "the first plan")
        best, winner = first.ratio, None
        for variant in variants_of(goal, case):
            if run.is_delivered or (ledger.left < 1 and not goal.tries):
                break
            ledger.require_room(variant.name)
            ledger, ratio = run.attempt(variant, ledger)
            if is_clear(ratio, best):
                best, winner = ratio, variant
    if winner is None or best is None:
        return Found(goal.spec, None, earlier_axes(goal.folder), ledger)
    fixed = undecided(goal.spec, fixed_axes_of(winner, case, _because(first, best, case)))
    return Found(pinned(goal.spec, fixed), winner, fixed, ledger)


def undecided(spec: Spec, axes: Sequence[FixedAxis]) -> tuple[FixedAxis, ...]:
    """Return the axes that the spec does not decide for their case itself: what a user decided keeps its reason."""
    return tuple(a for a in axes if a.case is None or a.axis not in {f.axis for f in spec.fixed_for(a.case)})


def is_clear(ratio: Interval | None, best: Interval | None) -> bool:
    """Return whether a time over the incumbent's is below another one by more than both are uncertain."""
    return ratio is not None and (best is None or ratio.high < best.low)


@dataclass(frozen=True, slots=True)
class Measurement:
    """One package measured on one case; `failure` says why there is no comparison."""

    digest: str | None
    comparison: Comparison | None
    failure: str
    gpu: str
    date: str

    @property
    def ratio(self) -> Interval | None:
        """The time over the incumbent's, None where there is no time."""
        return None if self.comparison is None else self.comparison.ratio


class _Search:
    """One search: what was measured so far, by machine code."""

    def __init__(self, goal: Goal, case: str, scratch: Path, progress: Progress) -> None:
        self._goal, self._case, self._scratch, self._progress = goal, case, scratch, progress
        self._names: dict[str | None, str] = {}  # digest of the machine code -> what had it
        self.is_delivered = False  # something measured was inside the band or better

    def measure(self, folder: Path, name: str) -> Measurement:
        """Build, check and compare a package on the case; nothing is written to its folder."""
        self._progress(f"{name} on case {self._case}")
        scratch = self._scratch / f"run{len(self._names)}"
        report = run_bench(open_bench(folder), Asked(cases=(self._case,)), scratch, self._progress).report
        assert report is not None
        found = report.case(self._case)
        failures = (*found.correctness.failures, *report.code_findings, found.measurement_error, found.note)
        failure = next(filter(None, failures), "")
        comparison = None if report.code_findings else found.comparison
        self._names[report.code_digest] = name
        self.is_delivered |= comparison is not None and comparison.verdict in DELIVERED
        return Measurement(report.code_digest, comparison, failure, report.machine.gpu.name, report.date[:10])

    def attempt(self, variant: Variant, ledger: Ledger) -> tuple[Ledger, Interval | None]:
        """Build a variant in a folder of its own and measure it, unless its machine code is known."""
        goal, folder = self._goal, self._scratch / f"package{len(ledger.rows)}"
        axes = fixed_axes_of(variant, self._case, "the variant under test")
        try:
            emit(pinned(goal.spec, axes), target=goal.device, folder=folder)
            digest = check_package(folder).code_digest
        except KgenError as error:
            return ledger.skipped(variant, None, f"not built: {error.headline}"), None
        if digest in self._names:
            return ledger.skipped(variant, digest, f"not measured: same code as {self._names[digest]}"), None
        found = self.measure(folder, f"{variant.name} ({variant.change})")
        result = f"FAIL: {found.failure}" if found.comparison is None else str(found.comparison.verdict)
        return ledger.measured(variant, digest, found.comparison, result), found.ratio


def deliver(goal: Goal, found: Found, asked: Asked, progress: Progress, finish: Finish | None = None) -> Tuned:
    """Emit what a search found, measure all its cases once, and write the report; `finish` adds to it before that."""
    package = emit(found.spec, target=goal.device, folder=goal.folder)
    with tempfile.TemporaryDirectory(prefix="kgen-tune-", ignore_cleanup_errors=True) as text:
        scratch = Path(text)
        bench = open_bench(goal.folder)
        report = run_bench(bench, asked, scratch, progress).report
        assert report is not None
        report = report.model_copy(update={"ledger": found.ledger.rows})
        if finish is not None:
            report = finish(bench, report, scratch)
        write_measured(report, goal.folder, scratch / "logs")
    return Tuned(package, report, found.winner, found.fixed)


def variants_of(goal: Goal, case: str) -> tuple[Variant, ...]:
    """Return what is tried for a case: the axes that were asked for, else the runners-up of its slowest kernel."""
    first = slowest(goal, case)
    chosen = dict(first.choice.candidate.choices)
    for axes in goal.tries:
        for decided in goal.spec.fixed_for(case):
            if axes.get(decided.axis, decided.value) != decided.value:
                text = f"{decided.axis}={axes[decided.axis]}"
                raise AxesError(text=text, reason=f"the spec decides {decided.value}: {decided.because}")
    named: list[tuple[str, Axes]] = [(f"try {number}", axes) for number, axes in enumerate(goal.tries, 1)]
    if not named:
        named = [(f"runner-up {n}", dict(r.candidate.choices)) for n, r in enumerate(first.runners_up, 1)]
    return tuple(Variant(name, axes, change_of(chosen, axes)) for name, axes in named)


def slowest(goal: Goal, case: str) -> PlannedVariant:
    """Return the first variant of the kernel that takes the most of a case's predicted time."""
    made = plan(goal.spec, goal.device)
    return max((made.variants_of(case, k)[0] for k in made.kernels_of(case)), key=lambda v: v.choice.time_us)


def families_of(goal: Goal) -> tuple[str, ...]:
    """Return the families that a goal has kernels of."""
    return tuple(plan(goal.spec, goal.device).family.split("+"))


def change_of(chosen: Axes, axes: Axes) -> str:
    """Return what pinned axes change against the first plan, in words."""
    changed = [f"{axis} {chosen.get(axis)} -> {value}" for axis, value in axes.items() if chosen.get(axis) != value]
    return ", ".join(changed) or "nothing"


def fixed_axes_of(variant: Variant, case: str, because: str) -> tuple[FixedAxis, ...]:
    """Return a variant's axes as decisions of a spec."""
    return tuple(FixedAxis(axis, value, because, None, case) for axis, value in variant.axes.items())


def pinned(spec: Spec, axes: Sequence[FixedAxis]) -> Spec:
    """Return the spec with further fixed axes; of an axis that a case has twice, the new one holds."""
    new = {(axis.case, axis.axis) for axis in axes}
    return replace(spec, fixed=(*(f for f in spec.fixed if (f.case, f.axis) not in new), *axes))


def earlier_ledger(folder: Path) -> Ledger:
    """Return the ledger that earlier runs left; raises `ReportInvalidError`, for its count is not guessed."""
    try:
        return Ledger(read_report(folder).ledger)
    except ReportMissingError:
        return Ledger()


def earlier_axes(folder: Path) -> tuple[FixedAxis, ...]:
    """Return the axes that a measurement decided in the package: those of single cases, by its plan."""
    try:
        rows = json.loads((folder / PLAN_FILE).read_text(encoding="utf-8")).get("fixed", ())
    except (OSError, ValueError):
        return ()
    found = (row for row in rows if row.get("because", "").startswith((MEASURED_ON, FASTEST_OF)))
    return tuple(FixedAxis(row["axis"], row["value"], row["because"], None, row.get("case")) for row in found)


def kernel_digest(folder: Path) -> str | None:
    """Return the digest of the kernel.py in a folder, or None where there is none."""
    try:
        return text_digest((folder / KERNEL_FILE).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return None


def _because(first: Measurement, ratio: Interval, case: str) -> str:
    was = f"failed ({first.failure})" if first.ratio is None else f"{first.ratio.median:.3f}"
    times = f"{ratio.median:.3f} of the incumbent's time in case {case}, the first plan {was}"
    return f"{MEASURED_ON} {first.gpu}, {first.date}: {times}"
