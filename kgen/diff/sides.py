"""What is compared, as plans: a package, a folder of packages, a run of the records."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kgen.diff.documents import StatedPlan, plan_of_document, variants_of
from kgen.errors.diff import NoRunError, NoSideError, NotPairedError, PlanUnreadableError
from kgen.layout import MEASURED
from kgen.package.folder import GENERATOR, PLAN_FILE
from kgen.records import Record, Status, Store, measured_records

_DEPTHS = ("*", "*/*")  # of packages below a root: generated/h200 and generated
_DATABASE = b"SQLite format 3\0"
_SPEEDS = ("latency_us", "ref_latency_us", "ratio", "ratio_low", "ratio_high")
_COMPILED = ("registers", "spills", "smem_bytes", "mma_sites")


@dataclass(frozen=True, slots=True)
class Side:
    """All plans of one side; `title` is how it was named."""

    title: str
    plans: tuple[StatedPlan, ...]

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices, each once."""
        return tuple(dict.fromkeys(plan.device for plan in self.plans))


@dataclass(frozen=True, slots=True)
class Pair:
    """One package of both sides, or of the only side that has it."""

    name: str
    a: StatedPlan | None
    b: StatedPlan | None


def read_side(text: str) -> Side:
    """Return the plans of a package, a folder of packages, or a database of records, `FILE@RUN` for one run of it.

    Raises `NoSideError`, `PlanUnreadableError`, `NoRunError`, and what the records raise.
    """
    path, _, run = (text, "", "") if Path(text).exists() else text.rpartition("@")
    place = Path(path or run)
    if place.is_dir() and not (path and run):
        return Side(text, _packages(place))
    if not place.is_file():
        raise NoSideError(path=text, reason="there is no such file or folder")
    if not _is_database(place):
        raise NoSideError(path=text, reason="it is a file, and no database of records")
    return Side(text, _recorded(place, run if path else ""))


def pairs_of(a: Side, b: Side) -> tuple[Pair, ...]:
    """Return the packages of both sides by name, and by device where a side has several. Raises `NotPairedError`."""
    if len(a.devices) == len(b.devices) == 1:
        return _paired({p.name: p for p in a.plans}, {p.name: p for p in b.plans})
    if not set(a.devices) & set(b.devices):
        example = f"{a.title}/{a.devices[0]} {b.title}/{b.devices[0]}"
        raise NotPairedError(first=", ".join(a.devices), second=", ".join(b.devices), example=example)
    first, second = ({f"{p.name} on {p.device}": p for p in side.plans} for side in (a, b))
    return _paired(first, second)


def _paired(a: Mapping[str, StatedPlan], b: Mapping[str, StatedPlan]) -> tuple[Pair, ...]:
    return tuple(Pair(name, a.get(name), b.get(name)) for name in sorted(a.keys() | b.keys()))


def _packages(root: Path) -> tuple[StatedPlan, ...]:
    if (root / PLAN_FILE).is_file():
        return (_package(root),)
    for depth in _DEPTHS:
        folders = sorted(path.parent for path in root.glob(f"{depth}/{PLAN_FILE}"))
        if folders:
            return tuple(_package(folder) for folder in folders)
    raise NoSideError(path=root, reason=f"it holds no {PLAN_FILE}, and no folder below it does")


def _package(folder: Path) -> StatedPlan:
    file = folder / PLAN_FILE
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PlanUnreadableError(place=file, reason=f"it cannot be read: {error}") from error
    if not isinstance(document, dict) or document.get("generator") != GENERATOR:
        raise PlanUnreadableError(place=file, reason=f'it does not say "generator": "{GENERATOR}"')
    plan = replace(plan_of_document(document, str(folder)), folder=folder)
    if not (folder / MEASURED / "report.json").is_file():
        return plan
    return with_records(plan, measured_records(folder))


def with_records(plan: StatedPlan, records: Iterable[Record]) -> StatedPlan:
    """Return a plan with what records say of it; the later ones win."""
    compiled, measured, made_by = dict(plan.compiled), dict(plan.measured), dict(plan.made_by)
    for record in records:
        made_by |= record.toolchain
        if record.status is not Status.OK:
            continue
        compiled |= {name: record.figures[name] for name in _COMPILED if name in record.figures}
        if record.case is not None:
            measured[record.case] = {name: record.figures[name] for name in _SPEEDS if name in record.figures}
    return replace(plan, compiled=compiled, measured=measured, made_by=made_by)


def _is_database(file: Path) -> bool:
    with file.open("rb") as stream:
        return stream.read(len(_DATABASE)) == _DATABASE


def _recorded(file: Path, run: str) -> tuple[StatedPlan, ...]:
    """Return the newest plan of each spec and device, of one run where it is named, with the figures of its kernel."""
    with Store.read(file) as store:
        records = store.find()
    of_run = [r for r in records if not run or r.kgen == run or r.at.startswith(run)]
    planned = {(r.spec, r.device): r for r in of_run if r.plan is not None}  # oldest first, so the newest stays
    if not planned:
        known = sorted({r.kgen for r in records} | {r.at[:10] for r in records})
        raise NoRunError(path=file, run=run or "any run", known=", ".join(known) or "no records")
    return tuple(_of_record(record, of_run, file) for record in planned.values())


def _of_record(record: Record, records: Sequence[Record], file: Path) -> StatedPlan:
    origin = f"{file}, {record.spec} on {record.device} at {record.at}"
    plan = StatedPlan(
        name=record.spec,
        device=record.device,
        isa=None,
        origin=origin,
        variants=variants_of(_listed(record.plan, origin), origin),
        kernel_digest=record.kernel_digest,
        made_by={"kgen": record.kgen},
    )
    return with_records(plan, (r for r in records if _is_of(r, record)))


def _is_of(record: Record, plan: Record) -> bool:
    keys = ("spec", "device", "kernel_digest")
    return all(getattr(record, key) == getattr(plan, key) for key in keys)


def _listed(plan: str | None, origin: str) -> list[Any]:
    try:
        found = json.loads(plan or "null")
    except ValueError as error:
        raise PlanUnreadableError(place=origin, reason=f"its plan is no JSON: {error}") from error
    if not isinstance(found, list):
        raise PlanUnreadableError(place=origin, reason="its plan is no list of variants")
    return found
