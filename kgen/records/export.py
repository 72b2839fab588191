"""Records as files for other programs: JSON as they are; CSV and Parquet as one flat table.

The table has a column for each field and, of toolchain and figures, for each name that any row has: `figures.ratio`.
"""

import csv
import io
import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from kgen.errors.records import ExportFormatError, ParquetMissingError, RecordsAccessError
from kgen.exchange import write_whole
from kgen.records.model import FIELDS, MAPPINGS, Record

FORMATS = (".json", ".csv", ".parquet")
_FLAT = tuple(name for name in FIELDS if name not in MAPPINGS)


def export(records: Sequence[Record], file: Path) -> None:
    """Write records to a file of the format that its ending names, whole or not at all.

    Raises `ExportFormatError`, `ParquetMissingError`, `RecordsAccessError`.
    """
    match file.suffix.lower():
        case ".json":
            content = _json_text(records).encode()
        case ".csv":
            content = _csv_text(records).encode()
        case ".parquet":
            content = _parquet(records)
        case _:
            raise ExportFormatError(file=file, known=", ".join(FORMATS))
    try:
        write_whole(file, content)
    except OSError as error:
        raise RecordsAccessError(file=file, reason=error.strerror or error) from error


def columns(records: Sequence[Record]) -> dict[str, list[str | float | None]]:
    """Return the flat table: the values of each column, None where a row has none."""
    tools = sorted({name for record in records for name in record.toolchain})
    figures = sorted({name for record in records for name in record.figures})
    table: dict[str, list[str | float | None]] = {"key": [record.key for record in records]}
    table |= {name: [getattr(record, name) for record in records] for name in _FLAT}
    table |= {f"toolchain.{name}": [record.toolchain.get(name) for record in records] for name in tools}
    return table | {f"figures.{name}": [record.figures.get(name) for record in records] for name in figures}


def _json_text(records: Sequence[Record]) -> str:
    return json.dumps([record.keyed() for record in records], indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _csv_text(records: Sequence[Record]) -> str:
    table, text = columns(records), io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table)
    writer.writerows(zip(*table.values(), strict=True))
    return text.getvalue()


def _parquet(records: Sequence[Record]) -> bytes:
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError as error:
        raise ParquetMissingError(reason=error) from error
    table = columns(records)
    kinds = {name: arrow.float64() if name.startswith("figures.") else arrow.string() for name in table}
    times = [datetime.fromisoformat(record.at) for record in records]
    arrays = {name: arrow.array(values, kinds[name]) for name, values in table.items()}
    made = arrow.table(arrays | {"at": arrow.array(times, arrow.timestamp("ms", tz="UTC"))})
    sink = io.BytesIO()
    parquet.write_table(made, sink)
    return sink.getvalue()
