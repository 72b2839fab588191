"""Folders and a database -> rows: the only module of the dashboard that reads files."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kgen.dashboard.plans import PackagePlan, folder_name, read_package
from kgen.dashboard.rooflines import known_devices
from kgen.dashboard.rows import Row, row_of_error, row_of_package, row_of_records
from kgen.dashboard.verdicts import Verdict
from kgen.errors.base import KgenError
from kgen.errors.dashboard import NothingToShowError, RootMissingError
from kgen.records import Record, Store, measured_records
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
    packages, unread, measured = _packages(roots)
    records = _by_place([*_stored(database), *measured])
    places = {(package.facts.name, package.device) for package in packages}
    if not places and not unread and not records:
        raise NothingToShowError(roots=", ".join(str(root) for root in roots))
    names = sorted({device for _, device in (*places, *records)} | {row.device for row in unread})
    devices = known_devices(names, device_files)
    rows = [row_of_package(p, devices.get(p.device), records.get((p.facts.name, p.device), ())) for p in packages]
    rows += [row_of_records(*place, found) for place, found in records.items() if place not in places]
    ordered = sorted([*rows, *unread], key=lambda row: (row.name, row.device, row.folder))
    shown = tuple(dict.fromkeys(root.resolve().name for root in roots))
    known = tuple((name, devices.get(name)) for name in names)
    return Collection(shown, tuple(ordered), known, sum(map(len, records.values())))


def _packages(roots: Sequence[Path]) -> tuple[list[PackagePlan], list[Row], list[Record]]:
    """Return the packages below some roots, a row for each that cannot be read, and what was measured of them.

    The EMIT record of a folder says nothing that its plan does not, and its time is that of a file: it is left out.
    """
    packages: list[PackagePlan] = []
    unread: list[Row] = []
    measured: list[Record] = []
    for root in roots:
        if not root.is_dir():
            raise RootMissingError(root=root)
        for folder in sorted(file.parent for file in root.rglob(_PLAN)):
            try:
                package = read_package(folder, root)
                measured += measured_records(folder)
                packages.append(package)
            except KgenError as error:
                unread.append(row_of_error(folder_name(folder, root), error.headline))
    return packages, unread, measured


def _stored(database: Path | None) -> tuple[Record, ...]:
    if database is None:
        return ()
    with Store.read(database) as store:
        return store.find()


def _by_place(records: Iterable[Record]) -> dict[Place, list[Record]]:
    """Return the records by spec and device, each once: a package's own may be in the database too."""
    found: defaultdict[Place, list[Record]] = defaultdict(list)
    for record in {record.key: record for record in records}.values():
        found[record.spec, record.device].append(record)
    return dict(sorted(found.items()))
