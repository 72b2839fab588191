"""The command `kgen dashboard`: packages and records as one HTML page.

`cli` adds it to its app, shows the `Answer` that it returns, and turns refusals into exit codes.
"""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from kgen.cli_records import DEFAULT
from kgen.show.answer import Answer

Json = Annotated[bool, typer.Option("--json", help="one JSON object on stdout")]


def dashboard(
    roots: Annotated[
        list[Path] | None, typer.Argument(metavar="[ROOT]...", help="folders with packages; default: generated")
    ] = None,
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="the page")] = Path("dashboard.html"),
    records: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="database of records; default: kgen-records.sqlite if here"),
    ] = None,
    device: Annotated[
        list[Path] | None,
        typer.Option("--device", metavar="FILE", help="file of a device that kgen has not"),
    ] = None,
    as_json: Json = False,
) -> Answer:
    """Write one HTML page that shows packages on devices: verdicts, rooflines, plans with their reasons, changes."""
    from kgen.dashboard.collect import collect
    from kgen.dashboard.page import page_html, write_page

    database = records or (DEFAULT if DEFAULT.is_file() else None)
    found = collect(roots or [Path("generated")], database, device or ())
    size = write_page(out, page_html(found))
    verdicts = found.verdicts
    said = ", ".join(f"{count} {verdict.label}" for verdict, count in verdicts.items())
    fields = {
        "page": str(out),
        "bytes": size,
        "rows": len(found.rows),
        "devices": [name for name, _ in found.devices],
        "records": found.records,
        "verdicts": {str(verdict): count for verdict, count in verdicts.items()},
    }
    rows, devices = len(found.rows), len(found.devices)
    counted = f"{rows} package{'s' * (rows != 1)} on {devices} device{'s' * (devices != 1)}"
    return Answer(fields, Text(f"{out}: {counted}, {said}"))
