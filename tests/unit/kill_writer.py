"""Run by test_write_kill.py in a process of its own: kill a writer at random moments, look at what is left each time.

Usage: kill_writer.py FOLDER KILLS SEED (swap|rename). Prints how often the old and the new content was found.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import kgen.exchange as exchange_module
from kgen.exchange import recover
from kgen.package.folder import compare_package, text_digest
from kgen.package.write import write_package


def version(letter: str) -> dict[str, str]:
    """Return the files of a package; two versions differ in every file, and in which files there are."""
    files = {f"part{i}/file{i}_{letter if i % 3 == 0 else ''}.txt": f"{letter}{i}\n" * 200 for i in range(12)}
    files["kernel.py"] = "SAME = True\n"
    return {**files, "plan.json": json.dumps({"generator": "kgen", "files": sorted(files), "version": letter})}


VERSIONS = (version("a"), version("b"))


def write_for_ever(folder: Path) -> None:
    """Write the two versions in turn until killed."""
    while True:
        for files in VERSIONS:
            write_package(files, folder)


def found(folder: Path) -> int:
    """Return which version the folder holds; fail unless it is one of them, whole, with its measurements."""
    assert (folder / "measured" / "report.json").read_text() == "{}", "measurements were lost"
    for number, files in enumerate(VERSIONS):
        if not compare_package(files, folder):
            return number
    raise AssertionError(f"neither version: {[str(compare_package(files, folder)) for files in VERSIONS]}")


def main() -> None:
    """Kill writers; print the count of each version that was found."""
    folder, kills, seed, how = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    if how == "rename":
        exchange_module.exchange = lambda one, other: False
    write_package(VERSIONS[0], folder)
    (folder / "measured").mkdir()
    (folder / "measured" / "report.json").write_text("{}")
    (folder / "measured" / "kernel.sha256").write_text(text_digest("SAME = True\n"))
    start = time.perf_counter()
    for files in (VERSIONS[1], VERSIONS[0]):
        write_package(files, folder)
    one_write = (time.perf_counter() - start) / 2  # seconds; a slow disk must not keep the kills out of later writes
    draw = random.Random(seed)
    counts = [0, 0]
    for _ in range(kills):
        child = os.fork()
        if child == 0:
            write_for_ever(folder)
        time.sleep(draw.uniform(0.0, 3 * one_write))
        os.kill(child, signal.SIGKILL)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL, "the writer stopped by itself"
        if how == "rename":
            recover(folder)
        counts[found(folder)] += 1
    last = VERSIONS[1 - found(folder)]
    write_package(last, folder)
    print(json.dumps({"counts": counts, "beside": sorted(p.name for p in folder.parent.iterdir())}))


main()
