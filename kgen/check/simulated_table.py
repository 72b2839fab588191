"""The simulated proof of a package for a terminal: what ran, what was wrong, and the counts in place of timings."""

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from kgen.check.dynamic import RangeCounts, SimulatedKernel
from kgen.check.simulated import SimulatedCase, SimulatedResult

_SHOWN_FAILURES = 12
_COUNTED = (
    "kernel",
    "case",
    "workgroups",
    "MFMA share",
    "others per MFMA",
    "LDS bytes per flop",
    "global bytes per flop",
    "bank conflicts",
    "in flight at waits",
)


def simulated_table(result: SimulatedResult) -> RenderableType:
    """Return a table with a row per case, one with a row per kernel, then failures and notes."""
    proof = "simulated" if result.is_compared else "not simulated"
    title = f"{proof}, not timed: for {result.device}, {result.seconds:.1f} s"
    cases = Table("case", "status", "calls", "rel_err", "elements compared", title=escape(title), title_justify="left")
    for case in result.cases:
        cases.add_row(*map(escape, _case_row(case)))
    counted = Table(*_COUNTED, title="of the steady loop, else of the whole kernel; counted in the simulator")
    counted.title_justify = "left"
    for case in result.cases:
        for kernel in case.kernels:
            counted.add_row(*map(escape, _kernel_row(kernel)))
    verdict = _verdict(result)
    failures = [Text(f"- {failure}", "red") for failure in result.failures[:_SHOWN_FAILURES]]
    if (more := len(result.failures) - len(failures)) > 0:
        failures.append(Text(f"... and {more} more: --json has them all", "red"))
    estimates = [
        Text(f"the plan's estimate, no measurement: {variant} takes {time_us:.4g} us", "dim")
        for variant, time_us in result.estimates_us
    ]
    notes = [Text(f"note: {note}", "yellow") for note in result.notes]
    return Group(cases, *([counted] if counted.row_count else []), verdict, *failures, *estimates, *notes)


def _verdict(result: SimulatedResult) -> Text:
    if not result.ok:
        return Text(f"FAILED: {len(result.failures)} failures", "red")
    if not result.is_compared:
        return Text("not simulated: no result was compared with the reference, the notes say why", "yellow")
    return Text("ok: right in the simulator, in both orders of waves, with both poisons", "green")


def _case_row(case: SimulatedCase) -> tuple[str, ...]:
    error = "" if case.rel_err is None else f"{case.rel_err:.2e}"
    compared = f"{case.compared_elements} of {case.elements}" if case.elements else ""
    return (case.case, case.status, str(len(case.calls)), error, compared)


def _kernel_row(kernel: SimulatedKernel) -> tuple[str, ...]:
    counts = kernel.steady or kernel.whole
    return (
        f"{kernel.variant}: {kernel.kernel}" if kernel.variant else kernel.kernel,
        kernel.case,
        f"{kernel.executed_workgroups} of {kernel.workgroups}",
        f"{counts.mfma_share:.1%}" if counts.mfma else "none",
        _number(counts.others_per_mfma),
        _number(counts.per_flop(counts.lds_bytes)),
        _number(counts.per_flop(counts.global_bytes)),
        f"{counts.bank_conflict_cycles} cycles",
        _waits(counts),
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _waits(counts: RangeCounts) -> str:
    return ", ".join(f"{before} to {left}" for before, left in dict.fromkeys(counts.loads_in_flight))
