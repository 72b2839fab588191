"""The SQLite schema of the records, and how a row becomes a `Record` and back.

`application_id` is the mark of the file and `user_version` its schema: both lie in the file's header, so that a foreign
or a newer file is known before a table is read. A row's key is computed again when it is read: a row that was changed
by anything but `Store` is noticed.
"""

import json
import sqlite3
from collections.abc import Sequence

from kgen.errors.base import KgenError
from kgen.records.model import FIELDS, MAPPINGS, OPTIONAL, Record

APPLICATION_ID = 0x6B67656E  # "kgen"
SCHEMA = 1  # a later schema states here how an older file is brought to it
Row = tuple[str | None, ...]  # values in the order of COLUMNS
COLUMNS = ("key", *FIELDS)
NAMES = ", ".join(f'"{name}"' for name in COLUMNS)  # `case` and `plan` are words of SQL

CREATE = (
    'CREATE TABLE record ("key" TEXT PRIMARY KEY NOT NULL, '
    + ", ".join(f'"{name}" TEXT{"" if name in OPTIONAL else " NOT NULL"}' for name in FIELDS)
    + ")",
    'CREATE INDEX record_of_problem ON record ("kind", "spec", "device", "case", "at")',
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA}",
)
INSERT = f'INSERT INTO record ({NAMES}) VALUES ({", ".join("?" * len(COLUMNS))}) ON CONFLICT ("key") DO NOTHING'
# What is there already keeps its newest time, wherever that was: so that `latest` finds what was found last.
TOUCH = (
    'UPDATE record SET "at" = ?1, "host" = ?2 WHERE "key" = ?3 '
    "AND (\"at\", coalesce(\"host\", '')) < (?1, coalesce(?2, ''))"
)


class RowDamagedError(Exception):
    """A row is not what was written; the store says in which file."""


def row_of(record: Record) -> Row:
    """Return a record's values in the order of `COLUMNS`."""
    value = record.to_json()
    texts = {name: json.dumps(value[name], sort_keys=True) for name in MAPPINGS}
    return (record.key, *((value | texts)[name] for name in FIELDS))


def record_of(row: Sequence[object]) -> Record:
    """Return the record of a row; raises `RowDamagedError` where it is not what was written."""
    key, value = row[0], dict(zip(FIELDS, row[1:], strict=True))
    try:
        found = Record.from_json(value | {name: json.loads(str(value[name])) for name in MAPPINGS})
    except (ValueError, KgenError) as error:
        raise RowDamagedError(f"row {key}: {error}") from error
    if found.key != key:
        raise RowDamagedError(f"row {key} was changed after it was written: its content has the key {found.key}")
    return found


def mark_of(connection: sqlite3.Connection) -> tuple[int, int, int]:
    """Return a file's application id, its schema, and how many tables and indexes it has."""
    found = connection.execute(
        "SELECT (SELECT application_id FROM pragma_application_id), (SELECT user_version FROM pragma_user_version), "
        "(SELECT count(*) FROM sqlite_master)"
    ).fetchone()
    return found[0], found[1], found[2]
