"""Memory files and utilizations for a terminal, as rich renderables; what prints them is the command line."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from kgen.bench.memory import Memory
from kgen.bench.utilization import GridWaves, Share, Utilization

SUMMARY = {
    "action": "optimization.action_category",
    "latency us": "performance.latency_us",
    "geomean us": "performance.latency_us_geomean",
    "TFLOPS": "performance.tflops",
    "GB/s": "performance.bandwidth_gbps",
    "of peak %": "performance.tflops_peak_utilization_pct",
    "of bandwidth %": "performance.bandwidth_peak_utilization_pct",
    "correctness": "correctness.status",
    "gate": "quality_gate.result",
}


def summary_table(memories: Sequence[Memory]) -> RenderableType:
    """Return a table with a row per version; - stands for null."""
    table = Table("version", *SUMMARY, header_style="bold")
    for memory in memories:
        name = f"{memory.version} (masked)" if memory.masked else memory.version
        table.add_row(name, *(_cell(memory.value(field)) for field in SUMMARY.values()))
    return table


def utilization_view(found: Utilization) -> RenderableType:
    """Return both rates with their peaks and sources, the bound, the grid waves, and what is doubtful."""
    title = f"{found.device.title}, {found.dtype}, {found.amounts.time_us:g} us, whole problem"
    table = Table("", "achieved", "%", "peak", title=escape(title), title_justify="left", header_style="bold")
    _add_row(table, found, "products", found.compute, "TFLOPS")
    _add_row(table, found, "memory", found.memory, "GB/s")
    lines = [Text(_bound(found))] + ([Text(_waves(found.grid))] if found.grid else [])
    lines += [Text(f"note: {note}", "yellow") for note in found.notes]
    if found.measurement_error is not None:
        lines.append(Text(f"MEASUREMENT ERROR: {found.measurement_error}", "red"))
    cited = [Text(f"[{s.id}] {s.document}; {s.revision}; {s.date}; {s.evidence}") for s in found.sources()]
    return Group(table, *lines, *cited)


def _add_row(table: Table, found: Utilization, name: str, share: Share, unit: str) -> None:
    achieved = f"{share.achieved / {'TFLOPS': 1e12, 'GB/s': 1e9}[unit]:.4g} {unit}" if found.ok else "-"
    percent = "-" if share.percent is None or not found.ok else f"{share.percent:.1f}"
    table.add_row(name, achieved, percent, "not known" if share.peak is None else escape(str(share.peak)))


def _bound(found: Utilization) -> str:
    if found.roofline_us is None:
        return "bound: not known, for want of a peak"
    least = f"the roofline allows {found.roofline_us:.4g} us"
    if found.bound is not None:
        return f"{found.bound}: {least}"
    return f"bound: not decided, a peak is of low confidence; {found.nearest_limit} if both hold: {least}"


def _waves(grid: GridWaves) -> str:
    at_once = f"{grid.compute_units.value:g} units [{grid.compute_units.source}, {grid.compute_units.confidence}]"
    return (
        f"grid: {grid.ctas} CTAs, {grid.ctas_per_unit} on each of {at_once}: {grid.waves} grid waves, "
        f"the last with {grid.last_wave} of {grid.slots}; {grid.efficiency:.1%} of all slots filled"
    )


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return escape(f"{value:.4g}" if isinstance(value, float) else str(value))
