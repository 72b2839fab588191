"""`kgen probe` for a terminal: the figures by section, what is missing, and where the shipped file says otherwise."""

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from kgen.probe.compare import Difference
from kgen.probe.describe import Missing
from kgen.probe.probe import Probed
from kgen.target import Quantity


def probe_view(probed: Probed) -> RenderableType:
    """Return all that a probe found, and what to do next."""
    probe = probed.described.probe
    head = f"{probe.gpu} is {probed.facts.isa}, {probed.described.arch}; driver {probe.driver}, torch {probe.torch}"
    parts: list[RenderableType] = [Text(head), _figures(probed)]
    if probed.described.missing:
        parts.append(_missing(probed.described.missing))
    if probed.shipped is not None:
        parts.append(_differences(probed.shipped.name, probed.differences))
    return Group(*parts, Text(_end(probed)))


def _figures(probed: Probed) -> Table:
    columns = ("figure", "value", "10th to 90th percentile", "source", "confidence", "from")
    table = Table(*columns, title="device file", title_justify="left")
    limits = [(f"limits.{name}", quantity) for name, quantity in probed.described.limits]
    for name, quantity in (*limits, *probed.described.quantities):
        row = (_value(quantity.value, quantity.unit), _spread(quantity), quantity.source, str(quantity.confidence))
        table.add_row(name, *row, escape(quantity.note))  # a note cites sources in brackets
    return table


def _spread(quantity: Quantity) -> str:
    spread = quantity.spread
    return "" if spread is None else f"{spread.low:g} to {spread.high:g} of {spread.rounds}"


def _missing(missing: tuple[Missing, ...]) -> Table:
    table = Table("figure", "why", title="not in the file", title_justify="left")
    for item in missing:
        table.add_row(item.name, escape(item.reason))
    return table


def _differences(shipped: str, found: tuple[Difference, ...]) -> RenderableType:
    if not found:
        return Text(f"every figure is that of the shipped {shipped}")
    table = Table(
        "figure", "shipped", "probed", "probed is", title=f"against the shipped {shipped}", title_justify="left"
    )
    for difference in found:
        values = (difference.shipped, difference.probed)
        shown = ("none" if value is None else _value(value, difference.unit) for value in values)
        table.add_row(difference.name, *shown, "" if difference.percent is None else f"{difference.percent:+.1f} %")
    return table


def _value(value: float, unit: str) -> str:
    return f"{value:g}" if unit in ("count", "ratio") else f"{value:g} {unit}"


def _end(probed: Probed) -> str:
    if probed.file is None:
        return f"{probed.seconds:.0f} s; nothing was written: -o FILE writes the device file"
    emit = f"kgen emit SPEC --target {probed.file}"
    return f"{probed.seconds:.0f} s; wrote {probed.file}: `{emit}` plans for it, `kgen targets` lists those in targets/"
