"""`kgen regen` for a terminal: what was done of each step, where the time went, every failure with its reason."""

from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kgen.regen.summary import Summary
from kgen.regen.tasks import Step


def summary_view(summary: Summary, out: Path, records: Path) -> RenderableType:
    """Return a row per step, and where things are."""
    table = Table("step", "done", "finished before", "failed", title="regen", title_justify="left")
    for step in Step:
        failed = sum(failure.step is step for failure in summary.failures)
        counts = (summary.done[step], summary.kept[step], failed)
        if any(counts):
            table.add_row(str(step), *map(str, counts))
    parts: list[RenderableType] = [table]
    if spent := summary.seconds:
        times = sorted(spent.items(), key=lambda item: -item[1])
        parts.append(
            Text("seconds of all processes: " + ", ".join(f"{name} {s:.1f}" for name, s in times if s >= 0.05))
        )
    if summary.absent:
        parts.append(Text(f"not measured, for they are not here: {', '.join(summary.absent)}", "yellow"))
    if summary.is_interrupted:
        parts.append(Text("interrupted; the same command goes on from here", "yellow"))
    where = f"{summary.packages} packages in {out}, {summary.records} new records in {records}"
    parts.append(Text(f"{where}, {summary.wall_seconds:.1f} s", "red" if summary.failures else "green"))
    return Group(*parts)


def failures_view(summary: Summary) -> RenderableType | None:
    """Return every failure with its reason, or None where there is none."""
    if not summary.failures:
        return None
    return Group(*(Text.assemble((f"{f.step}: ", "bold red"), f"{f.title}: {f.reason}") for f in summary.failures))
