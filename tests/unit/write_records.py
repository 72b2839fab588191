"""Processes that write records into one database at once; run by test_records_writers.py, or by hand for a minute:

    python tests/unit/write_records.py FILE --processes 8 --seconds 60

Every process adds rows of its own and rows that all others add too, one transaction after the other, without a pause,
and opens the database anew now and then. With --kills, processes are killed (SIGKILL) at random moments meanwhile and
others take their place. Each notes what it was told is written; in the end all of that must be there, once, and whole.
Prints the figures as JSON; a row lost or a lock that was not waited out ends it with an error.
"""

import argparse
import json
import os
import random
import signal
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from record_rows import emitted

from kgen.records import Record, Store

SHARED = 20  # rows that every process adds again and again
PER_ADD = 3  # rows of one transaction
PER_OPEN = 25  # transactions until the database is closed and opened again


def row(writer: str, number: int) -> Record:
    """Return a row that no other writer makes; its plan is as long as a package's."""
    return emitted(spec=writer, spec_digest=str(number), plan=json.dumps([{"variant": number}] * 400))


def shared(number: int) -> Record:
    """Return one of the rows that all writers make."""
    return emitted(spec="shared", spec_digest=str(number % SHARED))


def write_until(end: float, file: Path, writer: str, notes: Path) -> None:
    """Add rows until a time, and note after each commit how many are in, and how long it took (seconds)."""
    number = 0
    with notes.open("a", encoding="utf-8") as log:
        while time.time() < end:
            start = time.perf_counter()
            with Store.open(file) as store:
                log.write(f"open {time.perf_counter() - start}\n")
                for _ in range(PER_OPEN):
                    if time.time() >= end:
                        break
                    rows = [row(writer, number + i) for i in range(PER_ADD)] + [shared(number)]
                    start = time.perf_counter()
                    store.add(rows)
                    number += PER_ADD
                    log.write(f"{number} {time.perf_counter() - start}\n")
                    log.flush()


class Writers:
    """The running processes: writer -> process id."""

    def __init__(self, file: Path, end: float) -> None:
        self.file, self.end = file, end
        self.running: dict[str, int] = {}
        self.names: list[str] = []

    def notes(self, writer: str) -> Path:
        """Return where a writer notes what is written."""
        return self.file.with_name(f"{self.file.name}.{writer}.log")

    def start(self) -> None:
        """Start one more."""
        writer = f"writer{len(self.names)}"
        self.names.append(writer)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                write_until(self.end, self.file, writer, self.notes(writer))
                status = 0
            finally:
                os._exit(status)
        self.running[writer] = child

    def kill(self, writer: str) -> None:
        """Kill one, wherever it is."""
        child = self.running.pop(writer)
        os.kill(child, signal.SIGKILL)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL, f"{writer} ended by itself"

    def join(self) -> None:
        """Wait for all; each must end well: an error on the way is a lock that was not waited out."""
        for writer, child in self.running.items():
            assert os.waitpid(child, 0)[1] == 0, f"{writer} failed, see stderr"

    def noted(self, writer: str) -> Iterator[tuple[str, float]]:
        """Yield each note: how many rows, or "open", and seconds; a kill may have cut the last line."""
        text = self.notes(writer).read_text(encoding="utf-8") if self.notes(writer).exists() else ""
        for line in text.splitlines(keepends=True):
            if line.endswith("\n"):
                what, seconds = line.split()
                yield what, float(seconds)


def verify(file: Path, writers: Writers) -> dict[str, float]:
    """Compare what was noted with what is there, and return the figures."""
    noted = {writer: list(writers.noted(writer)) for writer in writers.names}
    promised = {
        writer: max([int(what) for what, _ in notes if what != "open"], default=0) for writer, notes in noted.items()
    }
    with Store.read(file) as store:
        found: dict[str, list[int]] = {writer: [] for writer in (*writers.names, "shared")}
        for record in store.find():
            found[record.spec].append(int(record.spec_digest))
    for writer, numbers in found.items():
        assert sorted(numbers) == list(range(len(numbers))), f"{writer}: a gap, or a row twice"
        if writer != "shared":
            more = len(numbers) - promised[writer]  # committed, and killed before it was noted
            assert more in (0, PER_ADD), f"{writer}: {promised[writer]} rows were promised, {len(numbers)} are there"
    assert len(found["shared"]) <= SHARED
    with sqlite3.connect(file) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    times = sorted(seconds for notes in noted.values() for what, seconds in notes if what != "open")
    opens = [seconds for notes in noted.values() for what, seconds in notes if what == "open"]
    return {
        "writers": len(writers.names),
        "rows": sum(map(len, found.values())),
        "promised": sum(promised.values()),
        "transactions": len(times),
        "median_ms": round(times[len(times) // 2] * 1e3, 2),
        "longest_ms": round(times[-1] * 1e3, 1),
        "longest_open_ms": round(max(opens) * 1e3, 1),
    }


def main() -> None:
    """Write, kill, verify, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--kills", type=int, default=0)
    given = parser.parse_args()
    writers = Writers(given.file, time.time() + given.seconds)
    for _ in range(given.processes):
        writers.start()
    draw = random.Random(7)
    for _ in range(given.kills):
        time.sleep(draw.uniform(0, 2 * given.seconds / given.kills * 0.8))
        if time.time() > writers.end - 1:
            break
        writers.kill(draw.choice(sorted(writers.running)))
        writers.start()
    killed = len(writers.names) - len(writers.running)
    writers.join()
    print(json.dumps({"killed": killed, **verify(given.file, writers)}))


if __name__ == "__main__":
    main()
