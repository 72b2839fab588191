"""The records of a package folder: what was emitted, from plan.json; what was measured, from measured/report.json.

Only files are read. What a package does not say is left open: where it was emitted, and with which version of what.
"""

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kgen.errors.check import PlanFileError
from kgen.layout import MEASURED
from kgen.records.model import Kind, Record, Status

_PLAN, _REPORT = "plan.json", "report.json"


def records_of_package(folder: str | Path) -> tuple[Record, ...]:
    """Return one EMIT record and, where the package was measured, one BENCH record for each case.

    The time of the EMIT record is that of plan.json. Raises `NotAPackageError`, `PlanFileError`, `ReportInvalidError`.
    """
    place = Path(folder)
    origin, plan = _origin_and_plan(place)
    emitted = emit_record(plan, datetime.fromtimestamp((place / _PLAN).stat().st_mtime, UTC).isoformat(), **origin)
    return (emitted, *_measured(place, origin))


def measured_records(folder: str | Path) -> tuple[Record, ...]:
    """Return one BENCH record for each case that a package's measured/ has; raises what `records_of_package` does."""
    place = Path(folder)
    return _measured(place, _origin_and_plan(place)[0])


def _measured(place: Path, origin: Mapping[str, Any]) -> tuple[Record, ...]:
    from kgen.bench.plan_facts import read_plan  # takes pydantic along: not for whoever only reads a database
    from kgen.bench.record import read_report
    from kgen.records.measured import bench_records

    if not (place / MEASURED / _REPORT).is_file():
        return ()
    return bench_records(read_report(place), read_plan(place), origin)


def emit_record(plan: Mapping[str, Any], at: str, **origin: Any) -> Record:
    """Return the record of a package with this plan.json; `origin` are the fields that all its records share."""
    variants = plan["variants"]
    return Record(
        **{"toolchain": {}, **origin},
        kind=Kind.EMIT,
        gpu=None,
        status=Status.OK,
        error=None,
        case=None,
        how="planned and written, with no GPU",
        figures={"cases": len({v["case"] for v in variants}), "variants": len(variants)},
        plan=json.dumps(variants, separators=(",", ":")),
        at=at,
    )


def _origin_and_plan(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields that all records of a package share, and its plan.json."""
    from kgen.check.package import read_package
    from kgen.target import device_file, load_device

    package = read_package(folder)
    plan: dict[str, Any] = json.loads((folder / _PLAN).read_text(encoding="utf-8"))
    for name, kind in (("variants", list), ("input_digest", str), ("templates", dict)):
        if not isinstance(plan.get(name), kind):
            raise PlanFileError(file=folder / _PLAN, reason=f"{name!r} must be a {kind.__name__}")
    device = device_file(package.device, folder)
    probe = load_device(device).probe if device else None
    templates = hashlib.sha256(json.dumps(plan["templates"], sort_keys=True).encode()).hexdigest()
    origin = {
        "spec": package.name,
        "spec_digest": plan["input_digest"],
        "device": package.device,
        "device_digest": hashlib.sha256(device.read_bytes()).hexdigest() if device else None,
        "probe": probe.date if probe else None,
        "kernel_digest": package.kernel_digest,
        "kgen": f"templates {templates[:12]}",
        "host": None,
    }
    return origin, plan
