"""The database of records: one SQLite file that any number of processes of one host write at once.

WAL: readers never wait for a writer, a killed writer leaves whole transactions only. `synchronous` is FULL: a commit is
on the disk when `add` returns, also if the machine goes away, as rented ones do; it costs a sync for each package,
milliseconds beside the seconds that its emission or measurement took. A file on a network drive cannot be shared like
this: let every host write its own, then `merge`.

A `Store` belongs to the process and the thread that opened it.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from kgen.errors.records import (
    AmbiguousRecordError,
    RecordsAccessError,
    RecordsDamagedError,
    RecordsForeignError,
    RecordsMissingError,
    RecordsNewerError,
    UnknownRecordError,
)
from kgen.records.locking import BUSY_TIMEOUT_S, is_busy, patiently
from kgen.records.model import Kind, Record, Status
from kgen.records.query import SELECT, Filter, rows_query
from kgen.records.schema import (
    APPLICATION_ID,
    COLUMNS,
    CREATE,
    INSERT,
    SCHEMA,
    TOUCH,
    Row,
    RowDamagedError,
    mark_of,
    record_of,
    row_of,
)

T = TypeVar("T")


class Store:
    """An open database; a context manager that closes it."""

    def __init__(self, file: Path, connection: sqlite3.Connection) -> None:
        self.file = file
        self._connection = connection

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open a database to read and write, made if it is not there.

        Raises `RecordsForeignError`, `RecordsNewerError`, `RecordsDamagedError`, `RecordsAccessError`,
        `RecordsBusyError`.
        """
        return cls._opened(Path(path), writes=True)

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Open a database to read; raises what `open` does, and `RecordsMissingError`."""
        file = Path(path)
        if not file.exists():
            raise RecordsMissingError(file=file)
        return cls._opened(file, writes=False)

    @classmethod
    def _opened(cls, file: Path, *, writes: bool) -> Self:
        with _refusals(file):
            address = f"{file.absolute().as_uri()}?mode={'rwc' if writes else 'rw'}"  # rw: else the log stays behind
            connection = sqlite3.connect(address, timeout=BUSY_TIMEOUT_S, isolation_level=None, uri=True)
            try:
                _prepare(connection, file, writes=writes)
            except BaseException:
                connection.close()
                raise
        return cls(file, connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the database; the last process that does also folds the log into the file."""
        self._connection.close()

    def add(self, records: Iterable[Record]) -> int:
        """Write records in one transaction, and return how many are new.

        A record that is there already keeps the newer of both times, with its host: adding twice changes nothing else.
        """
        rows = [row_of(record) for record in records]  # now, so that the lock is held for writing only
        return self._transaction(lambda: sum(map(self._put, rows)))

    def find(
        self,
        *,
        spec: str | None = None,
        device: str | None = None,
        kind: Kind | None = None,
        status: Status | None = None,
        case: str | None = None,
        latest: bool = False,
    ) -> tuple[Record, ...]:
        """Return the records that match, oldest first.

        With `latest`, of those that match only the newest of each kind, spec, device and case.
        """
        query, values = rows_query(Filter(spec, device, kind, status, case), latest=latest)
        return tuple(self._rows(query, values))

    def get(self, key: str) -> Record:
        """Return the record whose key starts so; raises `UnknownRecordError` or `AmbiguousRecordError`."""
        found = tuple(self._rows(f'{SELECT} WHERE substr("key", 1, ?) = ? ORDER BY "key"', (len(key), key)))
        if not found or not key:
            raise UnknownRecordError(file=self.file, key=key)
        if len(found) > 1:
            keys = ", ".join(record.key[: len(key) + 6] for record in found[:4])
            raise AmbiguousRecordError(file=self.file, key=key, count=len(found), keys=keys)
        return found[0]

    def merge(self, other: str | Path) -> int:
        """Add all records of another database, all or none, and return how many are new."""
        with Store.read(other) as source:
            return self._transaction(lambda: sum(self._put(row_of(record)) for record in source._rows(SELECT)))

    def _put(self, row: Row) -> int:
        added = self._connection.execute(INSERT, row).rowcount
        if not added:
            self._connection.execute(TOUCH, tuple(row[COLUMNS.index(name)] for name in ("at", "host", "key")))
        return added

    def _transaction(self, step: Callable[[], T]) -> T:
        with _refusals(self.file):
            return patiently(lambda: _in_transaction(self._connection, step), self.file)

    def _rows(self, query: str, values: tuple[object, ...] = ()) -> Iterator[Record]:
        """Yield the records that a query finds, all as of one moment."""
        with _refusals(self.file):
            for row in patiently(lambda: self._connection.execute(query, values), self.file):
                yield record_of(row)


def _in_transaction(connection: sqlite3.Connection, step: Callable[[], T]) -> T:
    """Return what a step returns, and keep what it wrote only if it and the commit succeed."""
    connection.execute("BEGIN IMMEDIATE")  # the right to write at once: no reader has to become a writer later
    try:
        found = step()
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):  # it may have been rolled back already
            connection.execute("ROLLBACK")
        raise
    return found


def _prepare(connection: sqlite3.Connection, file: Path, *, writes: bool) -> None:
    """Make the tables of a new file, or raise unless the file is a whole database of records."""
    if patiently(lambda: _is_new(connection, file), file):
        if not writes:
            raise RecordsForeignError(file=file, reason="it is empty")
        patiently(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchone(), file)
        patiently(lambda: _in_transaction(connection, lambda: _create(connection, file)), file)
    connection.execute("PRAGMA synchronous = FULL" if writes else "PRAGMA query_only = ON")
    found = patiently(lambda: connection.execute("PRAGMA quick_check(1)").fetchone()[0], file)
    if found != "ok":
        raise RecordsDamagedError(file=file, reason=found)


def _is_new(connection: sqlite3.Connection, file: Path) -> bool:
    """Whether a file holds nothing yet; raises where it holds something else, or rows of a later schema."""
    application, schema, tables = mark_of(connection)
    if (application, schema, tables) == (0, 0, 0):
        return True
    if application != APPLICATION_ID:
        raise RecordsForeignError(file=file, reason="it is a SQLite database of another program")
    if schema > SCHEMA:
        raise RecordsNewerError(file=file, found=schema, known=SCHEMA)
    return False


def _create(connection: sqlite3.Connection, file: Path) -> None:
    if _is_new(connection, file):  # else another process made them meanwhile
        for statement in CREATE:
            connection.execute(statement)


@contextmanager
def _refusals(file: Path) -> Iterator[None]:
    """Turn what SQLite and the operating system say into refusals that name the file."""
    try:
        yield
    except RowDamagedError as error:
        raise RecordsDamagedError(file=file, reason=error) from error
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_NOTADB:
            raise RecordsForeignError(file=file, reason="it is no SQLite file") from error
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR):  # the latter: a table or column is not there
            raise RecordsDamagedError(file=file, reason=error) from error
        if isinstance(error, sqlite3.OperationalError) and not is_busy(error):
            raise RecordsAccessError(file=file, reason=error) from error
        raise
