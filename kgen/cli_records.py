"""The commands that work on the database of records: `kgen records ...`.

`cli` adds them to its app, shows the `Answer` that each returns, and turns refusals into exit codes.
"""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.text import Text

from kgen.errors.records import UnknownWordError
from kgen.show.answer import Answer

if TYPE_CHECKING:
    from kgen.records import Record

E = TypeVar("E", bound=StrEnum)
records = typer.Typer(no_args_is_help=True, help="Keep what was emitted, checked and benched; query, export, merge it.")

File = Annotated[Path, typer.Option("--records", metavar="FILE", help="the database")]
Spec = Annotated[str | None, typer.Option(metavar="NAME", help="only of this spec")]
Device = Annotated[str | None, typer.Option(metavar="DEV", help="only of this device")]
KindName = Annotated[str | None, typer.Option("--kind", metavar="KIND", help="only emit, check or bench")]
StatusName = Annotated[str | None, typer.Option("--status", metavar="STATUS", help="only ok, failed, refused or error")]
Case = Annotated[str | None, typer.Option(metavar="ID", help="only of this case")]
Latest = Annotated[bool, typer.Option("--latest", help="of these the newest of each kind, spec, device and case")]
Json = Annotated[bool, typer.Option("--json", help="one JSON object on stdout")]
DEFAULT = Path("kgen-records.sqlite")  # in the working directory; of every command that has --records


@records.command("list")
def list_records(
    file: File = DEFAULT,
    spec: Spec = None,
    device: Device = None,
    kind: KindName = None,
    status: StatusName = None,
    case: Case = None,
    latest: Latest = False,
    as_json: Json = False,
) -> Answer:
    """List records, oldest first."""
    from kgen.show.records import records_view

    found = _found(file, (spec, device, kind, status, case), latest=latest)
    rows = [{name: value for name, value in record.keyed().items() if name != "plan"} for record in found]
    return Answer({"file": str(file), "results": rows}, records_view(found, file))


@records.command()
def show(
    key: Annotated[str, typer.Argument(metavar="KEY", help="a record's key, or how it starts")],
    file: File = DEFAULT,
    as_json: Json = False,
) -> Answer:
    """Show all of one record."""
    from kgen.records import Store
    from kgen.show.records import record_view

    with Store.read(file) as store:
        record = store.get(key)
    return Answer({"file": str(file), "record": record.keyed()}, record_view(record))


@records.command()
def add(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="package folders")],
    file: File = DEFAULT,
    as_json: Json = False,
) -> Answer:
    """Add what packages say: what was emitted, and what their measured/ holds; all of them or none."""
    from kgen.records import Store, records_of_package

    found = [record for folder in folders for record in records_of_package(folder)]
    with Store.open(file) as store:
        added = store.add(found)
    fields = {"file": str(file), "added": added, "known": len(found) - added}
    return Answer(fields, Text(f"{file}: {added} added, {len(found) - added} known already"))


@records.command()
def export(
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="what to write: .json, .csv or .parquet")],
    file: File = DEFAULT,
    spec: Spec = None,
    device: Device = None,
    kind: KindName = None,
    status: StatusName = None,
    case: Case = None,
    latest: Latest = False,
    as_json: Json = False,
) -> Answer:
    """Write records to a file for other programs, as JSON, CSV or Parquet."""
    from kgen.records.export import export as export_to

    found = _found(file, (spec, device, kind, status, case), latest=latest)
    export_to(found, out)
    fields = {"file": str(file), "out": str(out), "exported": len(found)}
    return Answer(fields, Text(f"{len(found)} records of {file} -> {out}"))


@records.command()
def merge(
    others: Annotated[list[Path], typer.Argument(metavar="OTHER...", help="databases, e.g. of other hosts")],
    file: File = DEFAULT,
    as_json: Json = False,
) -> Answer:
    """Add the records of other databases, of each all or none; merging again adds nothing."""
    from kgen.records import Store

    with Store.open(file) as store:
        added = {str(other): store.merge(other) for other in others}
    shown = Text("\n".join(f"{file}: {count} added from {other}" for other, count in added.items()))
    return Answer({"file": str(file), "added": added}, shown)


def _found(file: Path, wanted: tuple[str | None, ...], *, latest: bool) -> "tuple[Record, ...]":
    """Return the records of (spec, device, kind, status, case), None for any."""
    from kgen.records import Kind, Status, Store

    spec, device, kind, status, case = wanted
    kinds, statuses = _member(kind, Kind, "--kind"), _member(status, Status, "--status")
    with Store.read(file) as store:
        return store.find(spec=spec, device=device, kind=kinds, status=statuses, case=case, latest=latest)


def _member(name: str | None, kind: type[E], option: str) -> E | None:
    """Return the member that an option names."""
    if name is None:
        return None
    if name not in tuple(kind):
        raise UnknownWordError(option=option, name=name, known=", ".join(kind))
    return kind(name)
