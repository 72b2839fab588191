"""`kgen regen` killed at random moments: the packages and records of a run that was resumed, and of one that was not.

    python benchmarks/regen_resume.py                        1,000 GEMM specs x 3 devices, 20 kills
    python benchmarks/regen_resume.py --count 40 --kills 5   fewer
    python benchmarks/regen_resume.py --json FILE            and all the numbers

Needs no GPU. An undisturbed run comes first. Then the same command is started and killed (SIGKILL, to the driver
alone), again and again, and at last left alone. A kill comes up to a second after so many packages are there as a fixed
seed draws, evenly from all. Compared are every file of every package, byte for byte, leftovers of half-written folders
included, and all records but where and when they were made. Memory is the resident set of the driver and of its largest
process, looked at twice a second. Do not change kgen meanwhile: another kgen makes all packages anew.
"""

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gemm_specs import problem

from kgen.records import Store

TARGETS = ("h200", "h20", "mi300x")
LOOK_S = 0.5
_NOT_COMPARED = frozenset({"at", "host"})


@dataclass
class Watched:
    """One process of `kgen regen`: how long it ran, what it said, and how much memory it took meanwhile."""

    seconds: float
    start_s: float  # before its first package
    answer: dict[str, Any] | None  # None: it was killed
    driver_mib: list[float] = field(default_factory=list)
    worker_mib: list[float] = field(default_factory=list)  # of its largest process, at each look


def run_regen(specs: list[Path], out: Path, processes: int, kill: tuple[int, float] | None = None) -> Watched:
    """Run the command; kill it so many seconds after so many packages are there."""
    command = [sys.executable, "-m", "kgen.cli", "regen", *map(str, specs), "--targets", ",".join(TARGETS), "--json"]
    command += ["--out", str(out / "packages"), "--records", str(out / "records.sqlite"), "--processes", str(processes)]
    started = time.monotonic()
    with (out / "answer.json").open("w+") as answer, (out / "stderr.txt").open("a") as errors:
        process = subprocess.Popen(command, stdout=answer, stderr=errors)
        watched = Watched(0.0, 0.0, None)
        while process.poll() is None:
            passed = time.monotonic() - started
            if kill is not None and package_count(out) >= kill[0]:
                time.sleep(kill[1])
                process.send_signal(signal.SIGKILL)
                process.wait()
                break
            if not watched.start_s and next((out / "packages").glob("*/gemm_*"), None):
                watched.start_s = passed
            watched.driver_mib.append(_resident_mib(process.pid))
            watched.worker_mib.append(max((_resident_mib(p) for p in _descendants(process.pid)), default=0.0))
            time.sleep(LOOK_S if kill is None else LOOK_S / 20)
        watched.seconds = time.monotonic() - started
        if process.returncode >= 0:
            answer.seek(0)
            watched.answer = json.load(answer)
    return watched


def package_count(out: Path) -> int:
    """Return how many packages are there."""
    return sum(not package.name.startswith(".") for package in (out / "packages").glob("*/*"))


def _resident_mib(pid: int) -> float:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def _descendants(pid: int) -> list[int]:
    """Return the processes below one."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            continue
    found, todo = [], [pid]
    while todo:
        below = [child for child, parent in parents.items() if parent == todo[-1]]
        todo.pop()
        found += below
        todo += below
    return found


def content(out: Path) -> dict[str, bytes]:
    """Return every file below the packages, those included that a killed writer left beside one."""
    root = out / "packages"
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def rows(out: Path) -> list[str]:
    """Return the records, without where and when, in an order of their own."""
    with Store.read(out / "records.sqlite") as store:
        found = [record.to_json() for record in store.find()]
    return sorted(json.dumps({k: v for k, v in r.items() if k not in _NOT_COMPARED}, sort_keys=True) for r in found)


def leftovers(names: dict[str, bytes]) -> list[str]:
    """Return what a killed writer left beside the packages, which the next write of that package removes."""
    return sorted(name for name in names if any(".kgen-" in part for part in Path(name).parts))


def measure(count: int, kills: int, seed: int, processes: int, folder: Path) -> dict[str, Any]:
    """Do both runs and return what the table shows."""
    specs = []
    for index in range(count):
        drawn = problem(index)
        specs.append(folder / f"{drawn.name}.yaml")
        specs[-1].write_text(drawn.text, encoding="utf-8")
    whole, broken = folder / "whole", folder / "broken"
    for out in (whole, broken):
        out.mkdir()
    undisturbed = run_regen(specs, whole, processes)
    assert undisturbed.answer is not None
    rng = random.Random(seed)
    counts = sorted(rng.sample(range(1, count * len(TARGETS)), kills))
    killed = [run_regen(specs, broken, processes, (number, rng.random())) for number in counts]
    left_alone = run_regen(specs, broken, processes)
    first, second = content(whole), content(broken)
    again = run_regen(specs, broken, processes)
    assert left_alone.answer is not None and again.answer is not None
    return {
        "specs": count,
        "targets": TARGETS,
        "processes": processes,
        "undisturbed": undisturbed.answer,
        "undisturbed_s": undisturbed.seconds,
        "start_s": undisturbed.start_s,
        "driver_mib": _looks(undisturbed.driver_mib),
        "worker_mib": _looks(undisturbed.worker_mib),
        "kills": sum(run.answer is None for run in killed),
        "killed_at_packages": counts,
        "last_run": left_alone.answer,
        "nothing_to_do_s": again.seconds,
        "nothing_to_do": again.answer,
        "files": len(first),
        "bytes": sum(map(len, first.values())),
        "same_bytes": first == second,
        "different_files": sorted(n for n in first.keys() | second.keys() if first.get(n) != second.get(n))[:20],
        "leftovers": leftovers(second),
        "records": len(rows(whole)),
        "same_records": rows(whole) == rows(broken),
    }


def _looks(sizes: list[float]) -> dict[str, float]:
    """Return the memory of the second, the middle and the last tenth of a run, and its peak."""
    tenth = max(1, len(sizes) // 10)
    middle = len(sizes) // 2
    parts = {"second tenth": sizes[tenth : 2 * tenth], "middle": sizes[middle : middle + tenth]}
    parts["last tenth"] = sizes[-tenth:]
    return {name: statistics.median(part or [0.0]) for name, part in parts.items()} | {"peak": max(sizes)}


def table(found: dict[str, Any]) -> str:
    """Return the numbers as text."""
    undisturbed = found["undisturbed"]
    spent = sorted(undisturbed["seconds"].items(), key=lambda item: -item[1])
    times = ", ".join(f"{name} {seconds:.1f}" for name, seconds in spent)
    memory = "; ".join(
        f"{who} " + ", ".join(f"{when} {mib:.0f}" for when, mib in found[f"{who}_mib"].items())
        for who in ("driver", "worker")
    )
    same = ("the same", "DIFFERENT")
    return "\n".join(
        [
            f"undisturbed: {undisturbed['packages']} packages in {found['undisturbed_s']:.1f} s on the clock (the first"
            f" after {found['start_s']:.1f} s),"
            f" {found['processes']} processes, {len(undisturbed['failures'])} failures",
            f"seconds of all processes: {times}",
            f"memory, MiB: {memory}",
            f"{found['kills']} kills, at {', '.join(map(str, found['killed_at_packages']))} packages",
            f"last run: {found['last_run']['done']} done, {found['last_run']['finished_before']} finished before",
            f"{found['files']} files, {found['bytes'] / 1e6:.0f} MB: {same[not found['same_bytes']]};"
            f" {found['records']} records: {same[not found['same_records']]};"
            f" left beside packages: {len(found['leftovers'])}",
            f"a run with nothing to do: {found['nothing_to_do_s']:.1f} s",
        ]
    )


def main() -> int:
    """Run what the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000, help="specs (default 1000)")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of the moments of the kills")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", type=Path, help="a file for all the numbers")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        found = measure(arguments.count, arguments.kills, arguments.seed, arguments.processes, Path(temporary))
    print(table(found))
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    is_same = found["same_bytes"] and found["same_records"] and found["kills"] == arguments.kills
    return 0 if is_same else 1


if __name__ == "__main__":
    sys.exit(main())
