"""Folders and a database -> rows: the only module of the dashboard that reads files."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kgen.dashboard.plans import PackagePlan, folder_name, read_package
from kgen.dashboard.rooflines import known_devices
from kgen.dashboard.rows import Row, row_of_error, row_of_package, row_of_records
from kgen.dashboard.verdicts import Verdict
from kgen.errors.base import KgenError
from kgen.errors.dashboard import NothingToShowError, RootMissingError
from kgen.records import Kind, Record, Store, records_of_package
from kgen.target import Device

_PLAN = "plan.json"
Place = tuple[str, str]  # a spec's name and a device's


@dataclass(frozen=True, slots=True)
class Collection:
    """What the page is made from."""

    roots: tuple[str, ...]
    rows: tuple[Row, ...]  # by name, then device
    devices: tuple[tuple[str, Device | None], ...]  # by name; None where no file of the device is known
    records: int  # in the database and in the packages, each counted once

    @property
    def verdicts(self) -> dict[Verdict, int]:
        """How many rows have each verdict, worst first; none with no row."""
        found = Counter(row.verdict for row in self.rows)
        return {verdict: found[verdict] for verdict in Verdict if found[verdict]}


def collect(roots: Sequence[Path], database: Path | None, device_files: Sequence[Path] = ()) -> Collection:
    """Read every package below `roots` and all records; raises when a root is missing or there is nothing to show."""
    read = [found for root in roots for found in _packages(root)]
    packages = [package for package in read if isinstance(package, PackagePlan)]
    unread = [row for row in read if isinstance(row, Row)]
    records = _records(database, [folder for root in roots for folder in _folders(root)])
    places = {(p.facts.name, p.device) for p in packages} | set(records)
    if not places and not unread:
        raise NothingToShowError(roots=", ".join(str(root) for root in roots))
    names = sorted({device for _, device in places} | {row.device for row in unread})
    devices = known_devices(names, device_files)
    rows = [row_of_package(p, devices.get(p.device), records.get((p.facts.name, p.device), ())) for p in packages]
    packaged = {(row.name, row.device) for row in rows}
    rows += [row_of_records(*place, found) for place, found in records.items() if place not in packaged]
    ordered = sorted([*rows, *unread], key=lambda row: (row.name, row.device, row.folder))
    total = sum(map(len, records.values()))
    shown = tuple(dict.fromkeys(root.resolve().name for root in roots))
    return Collection(shown, tuple(ordered), tuple((name, devices.get(name)) for name in names), total)


def _folders(root: Path) -> list[Path]:
    if not root.is_dir():
        raise RootMissingError(root=root)
    return sorted(file.parent for file in root.rglob(_PLAN))


def _packages(root: Path) -> Iterator[PackagePlan | Row]:
    """Yield the packages below a root; a folder that cannot be read becomes a row that says why."""
    for folder in _folders(root):
        try:
            yield read_package(folder, root)
        except KgenError as error:
            yield row_of_error(folder_name(folder, root), error.headline)


def _records(database: Path | None, folders: Iterable[Path]) -> dict[Place, tuple[Record, ...]]:
    """Return all records by spec and device, each once: those of the database and the packages' own measurements.

    The EMIT record of a folder says nothing that its plan does not, and its time is that of a file: it is left out.
    """
    found: dict[str, Record] = {}
    if database is not None:
        with Store.read(database) as store:
            found |= {record.key: record for record in store.find()}
    for folder in folders:
        for record in _measured(folder):
            found.setdefault(record.key, record)
    by_place: defaultdict[Place, list[Record]] = defaultdict(list)
    for record in found.values():
        by_place[record.spec, record.device].append(record)
    return {place: tuple(rows) for place, rows in sorted(by_place.items())}


def _measured(folder: Path) -> tuple[Record, ...]:
    try:
        return tuple(record for record in records_of_package(folder) if record.kind is Kind.BENCH)
    except KgenError:
        return ()  # its row says that it cannot be read
