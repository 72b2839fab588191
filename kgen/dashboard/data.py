"""Rows -> the one JSON block of the page. The order of everything follows from the input, so the same input gives the
same bytes; no date but those of the records.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kgen.bench.statistics import Interval
from kgen.dashboard.collect import Collection
from kgen.dashboard.plans import RuleBook, plan_json, short
from kgen.dashboard.rooflines import device_json
from kgen.dashboard.rows import CaseRow, Row, provenance
from kgen.dashboard.verdicts import Verdict
from kgen.records import Record

Json = dict[str, Any]
HISTORY = 24  # records of a package that its section shows, the newest; the page says how many are older
# What could end a script element, or a line of a script, is written as an escape: the block is still the same JSON.
_ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


@dataclass(slots=True)
class _Tables:
    """What many rows share, each once: rules, and where records were made."""

    rules: RuleBook = field(default_factory=RuleBook)
    environments: dict[str, int] = field(default_factory=dict)

    def environment(self, record: Record) -> int:
        """Return the number of the place and the versions that a record was made with."""
        text = {"host": record.host, "gpu": record.gpu, "kgen": record.kgen, "versions": dict(record.toolchain)}
        return self.environments.setdefault(json.dumps(text, sort_keys=True), len(self.environments))


def page_json(collection: Collection) -> Json:
    """Return everything the page shows."""
    tables = _Tables()
    rows = [_row(row, tables) for row in collection.rows]
    _name_apart(rows)
    dates = [record.at for row in collection.rows for series in row.series for record in series]
    return {
        "as_of": max(dates, default=None),
        "roots": list(collection.roots),
        "records": collection.records,
        "verdicts": [[str(v), v.label, v.meaning] for v in Verdict],
        "devices": [device_json(name, device, _dtypes(collection.rows, name)) for name, device in collection.devices],
        "rows": rows,
        "rules": tables.rules.to_json(),
        "environments": [json.loads(text) for text in tables.environments],
    }


def _name_apart(rows: Sequence[Json]) -> None:
    """Number the ids that several rows have, such as those of two roots with one name."""
    seen: Counter[str] = Counter()
    for row in rows:
        seen[row["id"]] += 1
        if (times := seen[row["id"]]) > 1:
            row["id"] += f" ({times})"


def block(value: Json) -> str:
    """Return JSON that may stand inside of a script element whatever texts it holds."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).translate(_ESCAPES)


def _dtypes(rows: Sequence[Row], device: str) -> list[str]:
    return sorted({row.package.facts.product_dtype for row in rows if row.device == device and row.package})


def _row(row: Row, tables: _Tables) -> Json:
    package = row.package
    newest = sorted((r for series in row.series for r in series), key=lambda r: (r.at, r.key), reverse=True)
    digest = package.kernel_digest if package else None
    return {
        "id": row.folder or f"{row.device}/{row.name}",
        "name": row.name,
        "device": row.device,
        "family": row.family,
        "verdict": str(row.verdict),
        "speed": _interval(row.speed),
        "us": _number(row.time_us),
        "measured": row.is_measured,
        "share": _number(row.share_of_roofline),
        "how": provenance(row),
        "at": max((record.at for record in row.latest), default=None),
        "error": row.error or next((r.error for r in row.latest if r.error), None),
        "changes": [[c.what, c.before, c.after, str(c.direction)] for c in row.changes],
        "folder": row.folder,
        "arch": package.arch if package else "",
        "kernel": (digest or "")[:12],
        "edited": package is not None and package.is_edited,
        "cases": [_case(case) for case in row.cases],
        "plan": plan_json(package, tables.rules) if package else None,
        "records": [_record(record, tables, digest) for record in newest[:HISTORY]],
        "older": max(0, len(newest) - HISTORY),
    }


def _case(case: CaseRow) -> Json:
    record = case.record
    return {
        "id": case.id,
        "flops": case.work.flops if case.work else None,
        "bytes": case.work.bytes if case.work else None,
        "predicted": _number(case.predicted_us),
        "roofline": _number(case.roofline_us),
        "us": _number(case.measured_us),
        "incumbent": _number(record.figures.get("ref_latency_us") if record else None),
        "speed": _interval(case.speed),
        "how": record.how if record else None,
        "at": record.at if record else None,
        "gpu": record.gpu if record else None,
        "error": record.error if record else None,
    }


def _record(record: Record, tables: _Tables, digest: str | None) -> Json:
    return {
        "at": record.at,
        "kind": str(record.kind),
        "status": str(record.status),
        "case": record.case,
        "kernel": (record.kernel_digest or "")[:8],
        "current": digest is not None and record.kernel_digest == digest,
        "how": record.how,
        "error": record.error,
        "figures": {name: short(value) for name, value in record.figures.items()},
        "env": tables.environment(record),
    }


def _interval(found: Interval | None) -> list[float] | None:
    return None if found is None else [short(found.median), short(found.low), short(found.high)]


def _number(value: float | None) -> float | None:
    return None if value is None else short(value)
