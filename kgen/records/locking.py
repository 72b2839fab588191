"""Writers that meet at one database wait for each other: again and again, up to a limit, at times that differ.

SQLite waits by itself while another process writes (its busy timeout), at most 20 ms here: it asks ever less often, so
that eight writers without a pause kept one waiting for 2.7 s in 4 s; asked anew each 20 ms, 0.7 s was the longest wait.
Where waiting could be a deadlock (a file changes its journal mode, a log is recovered after a kill, the last process
closes) SQLite returns SQLITE_BUSY at once, and the step is repeated as well.
"""

import random
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from kgen.errors.records import RecordsBusyError

T = TypeVar("T")
BUSY_TIMEOUT_S = 0.02
PATIENCE_S = 120.0  # in all: a writer holds the lock for milliseconds, so this is no crowd but a process that hangs
_PAUSE_S = 0.005
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


def patiently(step: Callable[[], T], file: Path) -> T:
    """Return what a step returns that may find the database locked; raises `RecordsBusyError` in the end.

    The step is repeated as a whole: it must leave nothing half-done behind when it raises.
    """
    start = time.monotonic()
    while True:
        try:
            return step()
        except sqlite3.OperationalError as error:
            waited = time.monotonic() - start
            if not is_busy(error):
                raise
            if waited >= PATIENCE_S:
                raise RecordsBusyError(file=file, seconds=waited) from error
        time.sleep(random.uniform(0, _PAUSE_S))


def is_busy(error: sqlite3.Error) -> bool:
    """Whether an error says that another connection holds a lock; extended codes keep the reason in the low byte."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _BUSY
