"""`kgen records` for a terminal: the table of rows, and one row in full."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kgen.records import Record, Status

KEY_LENGTH = 10  # characters of a key that a table shows
_COLORS = {Status.OK: "green", Status.FAILED: "red", Status.REFUSED: "yellow", Status.ERROR: "red"}
_LISTED = ("kind", "spec", "device", "case")


def records_view(records: Sequence[Record], file: Path) -> RenderableType:
    """Return a table with a line per record, and how many there are."""
    table = Table("key", "at", *_LISTED, "status", "us", "ratio", "how, or why not")
    for record in records:
        table.add_row(
            record.key[:KEY_LENGTH],
            record.at[:19],
            *(str(getattr(record, name) or "") for name in _LISTED),
            Text(str(record.status), _COLORS[record.status]),
            _number(record, "latency_us", "{:.2f}"),
            _number(record, "ratio", "{:.3f}"),
            Text((record.error or record.how).partition("\n")[0]),
        )
    noun = "record" if len(records) == 1 else "records"
    return Group(*([table] if records else []), Text(f"{len(records)} {noun} of {file}"))


def record_view(record: Record) -> RenderableType:
    """Return every field of one record on its line, its plan as a line per variant."""
    grid = Table.grid(padding=(0, 2))
    grid.add_row("key", record.key)
    for name, value in record.to_json().items():
        if name in ("figures", "toolchain"):
            for part, found in value.items():
                grid.add_row(f"{name}.{part}", f"{found:g}" if name == "figures" else found)
        elif name != "plan" and value is not None:
            grid.add_row(name, Text(str(value)))
    return Group(grid, *_plan(record))


def _number(record: Record, name: str, form: str) -> str:
    return form.format(record.figures[name]) if name in record.figures else ""


def _plan(record: Record) -> Iterator[Text]:
    for variant in json.loads(record.plan or "[]"):
        choice = variant["choice"]
        axes = ", ".join(f"{axis} {value}" for axis, value in choice["choices"].items())
        bound = f"predicted {choice['time_us']:g} us, bound by {choice['bound_by']}"
        yield Text(f"{variant['kernel']}: {variant['name']}: {axes}; {bound}")
