"""A report for a terminal, as a rich renderable: a row per case, then the verdict, the gate and what to know."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from kgen.bench.report import Case, Report
from kgen.bench.report_words import (
    ABSENT,
    band_text,
    correctness_sentence,
    error,
    exceptions,
    micros,
    ratio_interval,
    speed_sentence,
)

_COLUMNS = (
    "case",
    "status",
    "rel_err",
    "kgen us",
    "incumbent us",
    "kgen/incumbent [95 %]",
    "band",
    "verdict",
    "host us",
)
_LEFT = {"case", "status", "verdict"}
_COLOURS = {"PASS": "green", "faster": "green", "parity": "green", "unstable": "yellow", ABSENT: ""}


def report_view(report: Report) -> RenderableType:
    """Return a table with a row per case, and below it the verdict, the gate, and the notes."""
    title = f"{report.name} {report.version} on {report.machine.gpu.name}"
    table = Table(title=escape(title), title_justify="left", header_style="bold")
    for column in _COLUMNS:
        table.add_column(column, justify="left" if column in _LEFT else "right")
    for case in report.cases:
        table.add_row(*_cells(case))
    return Group(table, *_lines(report))


def _cells(case: Case) -> Iterator[RenderableType]:
    """Yield the cells of a case; a time that no comparison gave is the one of test_kernel.py."""
    found, status = case.comparison, case.status
    yield Text(case.id)
    yield _coloured(status)
    yield error(case.correctness.rel_err)
    if found is None:
        yield micros(None if case.speed is None else case.speed.latency_us)
        yield from [ABSENT] * 5
        return
    yield micros(found.kgen.device_us.median)
    yield micros(found.incumbent.device_us.median)
    yield Text(ratio_interval(found.ratio))
    yield band_text(found.band.half_width)
    yield _coloured(str(found.verdict))
    yield f"{micros(found.kgen.host_us)}, {micros(found.incumbent.host_us)}"


def _coloured(word: str) -> Text:
    return Text(word, _COLOURS.get(word, "red"))


def _lines(report: Report) -> Iterator[Text]:
    """Yield what the table does not say, one line each."""
    yield Text(correctness_sentence(report), "green" if report.gate == "PASS" else "red")
    yield Text(speed_sentence(report))
    yield from (Text(f"  {line}") for line in exceptions(report))
    for case in report.cases:
        yield from (Text(f"  {case.id}: {failure}", "red") for failure in case.correctness.failures)
        if case.agreement is not None:
            yield from (Text(f"  {case.id}, against the incumbent: {text}", "red") for text in case.agreement.failures)
        if case.measurement_error is not None:
            yield Text(f"  {case.id}: MEASUREMENT ERROR: {case.measurement_error}", "red")
        if case.note is not None:
            yield Text(f"  {case.id}: {case.note}", "yellow")
    yield from (Text(f"finding: {finding}", "red") for finding in report.code_findings)
    if report.unmeasured_cases:
        yield Text(f"not measured in this run: {', '.join(report.unmeasured_cases)}", "yellow")
    yield from (Text(f"note: {note}", "yellow") for note in report.notes)
