"""One row of the records: what was emitted, checked or benched, where, with what, how it was measured, what came out.

A value that no row may hold is refused here, when the row is made, so that no writer and no reader has to think of it:
only an OK row of a bench has a speed, and none is above the roofline. `bench_record` makes the row of a measurement
from what was found, right or wrong.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NoReturn

from kgen.errors.records import RecordInvalidError

# Figures that say how fast something is; `roofline_us` is the least time that the device's trusted peaks allow.
LATENCIES = ("latency_us", "ref_latency_us")
SPEEDS = frozenset((*LATENCIES, "ratio", "ratio_low", "ratio_high", "tflops", "bandwidth_gbps"))
ROOFLINE = "roofline_us"
_NOT_CONTENT = ("host", "at")  # where and when: the same content from elsewhere is the same record


class Kind(StrEnum):
    """What was done."""

    EMIT = "emit"  # a package was planned and written, with no GPU
    CHECK = "check"  # it was compiled, its machine code read, and it ran: on a GPU, or in the simulator
    BENCH = "bench"  # one case was measured


class Status(StrEnum):
    """What became of it."""

    OK = "ok"
    FAILED = "failed"  # a check found a fault, or a step could not be carried out
    REFUSED = "refused"  # kgen does not cover it, or the input is wrong
    ERROR = "error"  # measured, but no speed: above the roofline, or of a case that fails


@dataclass(frozen=True, slots=True)
class Record:
    """One row. `error` is None exactly where `status` is OK; `case` is given exactly for a BENCH."""

    kind: Kind
    spec: str  # name
    spec_digest: str  # SHA-256 of its source as loaded; of a package without it, of what plan.json says was decided
    device: str  # name
    device_digest: str | None  # SHA-256 of the device file; None where it is not here
    probe: str | None  # date of the probe that the device file states
    kernel_digest: str | None  # SHA-256 of kernel.py; None where there is none
    kgen: str  # what emitted it
    toolchain: Mapping[str, str]  # distribution, "driver" or "python" -> version
    host: str | None  # where it ran
    gpu: str | None  # as its driver names it
    status: Status
    error: str | None
    case: str | None
    how: str  # how it was measured
    figures: Mapping[str, float]
    plan: str | None  # JSON text: the variants of plan.json
    at: str  # ISO 8601 with its offset; kept in UTC, to the millisecond

    def __post_init__(self) -> None:
        _require_texts(self)
        if self.error is not None:  # the words of some program: their bytes are not worth losing a row for
            _set(self, "error", self.error.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0"))
        _set(self, "kind", _member(self, Kind, "kind"))
        _set(self, "status", _member(self, Status, "status"))
        _set(self, "at", _time(self))
        _set(self, "toolchain", MappingProxyType(dict(sorted(self.toolchain.items()))))
        _set(self, "figures", MappingProxyType({name: _figure(self, name) for name in sorted(self.figures)}))
        _require_one_story(self)
        _require_real_speeds(self)

    def __hash__(self) -> int:
        return hash(self.key)

    def __reduce__(self) -> tuple[Any, ...]:
        return Record.from_json, (self.to_json(),)

    @property
    def key(self) -> str:
        """SHA-256 of all content but where and when: two rows with one key are one record."""
        content = {name: value for name, value in self.to_json().items() if name not in _NOT_CONTENT}
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object, one member a field."""
        found = {name: getattr(self, name) for name in FIELDS}
        plain = {"kind": str(self.kind), "status": str(self.status)}
        return found | plain | {"toolchain": dict(self.toolchain), "figures": dict(self.figures)}

    def keyed(self) -> dict[str, Any]:
        """Return the JSON object with the record's key."""
        return {"key": self.key, **self.to_json()}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "Record":
        """Return the record of a JSON object; raises `RecordInvalidError`."""
        for name in sorted(value.keys() ^ set(FIELDS)):
            reason = "not a field of records" if name in value else "missing"
            fix = f"the fields are {', '.join(FIELDS)}"
            raise RecordInvalidError(spec=value.get("spec", "?"), field=name, reason=reason, fix=fix)
        return Record(**value)


FIELDS = tuple(field.name for field in fields(Record))
OPTIONAL = frozenset({"device_digest", "probe", "kernel_digest", "host", "gpu", "error", "case", "plan"})
MAPPINGS = ("toolchain", "figures")


def now() -> str:
    """Return the present time as records keep it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def bench_record(*, failure: str | None, figures: Mapping[str, float], **others: Any) -> Record:
    """Return the row of a measurement: OK, or an ERROR that tells its speeds in words only.

    `failure` says why the case is wrong or its times are none; `figures` may hold any speed, `roofline_us` where the
    peaks are trusted. `others` are the fields of `Record` but kind, status and error.
    """
    faults = [failure] if failure else []
    faults += _above_roofline(figures)
    if not faults:
        return Record(kind=Kind.BENCH, status=Status.OK, error=None, figures=figures, **others)
    claimed = [f"{name} {value:g}" for name, value in sorted(figures.items()) if name in SPEEDS]
    said = "; ".join(faults) + (f" (no speed: {', '.join(claimed)})" if claimed else "")
    kept = {name: value for name, value in figures.items() if name not in SPEEDS}
    return Record(kind=Kind.BENCH, status=Status.ERROR, error=said, figures=kept, **others)


def _above_roofline(figures: Mapping[str, float]) -> list[str]:
    """Return which times are less than the roofline allows."""
    least = figures.get(ROOFLINE)
    if least is None:
        return []
    return [
        f"{name} {figures[name]:g} is less than the {least:g} us that the device's peaks allow"
        for name in LATENCIES
        if name in figures and figures[name] < least
    ]


def _set(record: Record, field: str, value: object) -> None:
    object.__setattr__(record, field, value)


def _refuse(record: Record, field: str, reason: str, fix: str) -> NoReturn:
    raise RecordInvalidError(spec=record.spec, field=field, reason=reason, fix=fix)


def _require_texts(record: Record) -> None:
    """Raise unless every field has its type and every text can be stored."""
    for name in FIELDS:
        value = getattr(record, name)
        if name in MAPPINGS:
            if not isinstance(value, Mapping) or not all(isinstance(k, str) for k in value):
                _refuse(record, name, f"{value!r} is no mapping of names", "pass a dict")
            texts = [*value, *(value.values() if name == "toolchain" else ())]
        elif value is None and name in OPTIONAL:
            continue
        else:
            texts = [value]
        for text in texts:
            if not isinstance(text, str) or (name != "error" and not _is_storable(text)):
                _refuse(record, name, f"{text!r} is no text", "pass text that UTF-8 can write")


def _is_storable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def _member(record: Record, kind: type[Kind] | type[Status], field: str) -> Kind | Status:
    value = getattr(record, field)
    if value not in tuple(kind):
        _refuse(record, field, f"{value!r} is none", f"one of {', '.join(kind)}")
    return kind(value)


def _time(record: Record) -> str:
    fix = "e.g. 2026-11-30T06:00:00+00:00"
    try:
        found = datetime.fromisoformat(record.at)
        if found.tzinfo is None:
            _refuse(record, "at", f"{record.at!r} names no offset from UTC", fix)
        return found.astimezone(UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError):
        _refuse(record, "at", f"{record.at!r} is no ISO 8601 time", fix)


def _figure(record: Record, name: str) -> float:
    value: object = record.figures[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        _refuse(record, f"figures.{name}", f"{value!r} is no finite number", "leave out what was not measured")
    return float(value)


def _require_one_story(record: Record) -> None:
    """Raise unless kind, case, status and error fit together."""
    if (record.case is None) is (record.kind is Kind.BENCH):
        _refuse(record, "case", f"{record.case!r} in a {record.kind} record", "a bench has a case, nothing else has")
    if (record.error is None) is not (record.status is Status.OK):
        fix = "what is not ok says why, what is ok has no error"
        _refuse(record, "error", f"{record.error!r} with status {record.status}", fix)
    if record.status is Status.OK and record.kernel_digest is None:
        _refuse(record, "kernel_digest", "missing", "only what failed or was refused has no kernel")
    if record.status is Status.ERROR and record.kind is not Kind.BENCH:
        _refuse(record, "status", f"error in a {record.kind} record", "only a measurement can be in error: use failed")


def _require_real_speeds(record: Record) -> None:
    """Raise unless speeds are those of a right case, and the device can reach them."""
    fix = "`bench_record` keeps such figures in `error`"
    speeds = [name for name in record.figures if name in SPEEDS]
    is_measured = record.kind is Kind.BENCH and record.status is Status.OK
    if speeds and not is_measured:
        _refuse(record, f"figures.{speeds[0]}", f"a speed in a {record.kind} record that is {record.status}", fix)
    if is_measured and "latency_us" not in speeds:
        _refuse(record, "figures.latency_us", "missing", "a bench that measured nothing has failed")
    for name in speeds:
        if record.figures[name] <= 0:
            _refuse(record, f"figures.{name}", f"{record.figures[name]:g} is no speed", fix)
    for fault in _above_roofline(record.figures):
        _refuse(record, f"figures.{ROOFLINE}", fault, fix)
