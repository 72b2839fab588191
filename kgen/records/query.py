"""Which rows are asked for, as SQL."""

from dataclasses import dataclass, fields

from kgen.records.model import Kind, Status
from kgen.records.schema import NAMES

SELECT = f"SELECT {NAMES} FROM record"
_ORDER = 'ORDER BY "at", "key"'
_NEWEST = 'row_number() OVER (PARTITION BY "kind", "spec", "device", "case" ORDER BY "at" DESC, "key" DESC)'


@dataclass(frozen=True, slots=True)
class Filter:
    """What rows must equal; None is not compared."""

    spec: str | None = None
    device: str | None = None
    kind: Kind | None = None
    status: Status | None = None
    case: str | None = None


def rows_query(wanted: Filter, *, latest: bool) -> tuple[str, tuple[object, ...]]:
    """Return the SQL that finds the rows, oldest first, and its values."""
    given = [(f.name, value) for f in fields(wanted) if (value := getattr(wanted, f.name)) is not None]
    where = " WHERE " + " AND ".join(f'"{name}" = ?' for name, _ in given) if given else ""
    values = tuple(str(value) for _, value in given)
    if not latest:
        return f"{SELECT}{where} {_ORDER}", values
    ranked = f"SELECT {NAMES}, {_NEWEST} AS age FROM record{where}"
    return f"SELECT {NAMES} FROM ({ranked}) WHERE age = 1 {_ORDER}", values
