"""KernelBench level 1: the problems that memory bounds, and the products, emitted from their own files and measured.

    python tests/gpu/kernelbench.py --suite KernelBench/level1 --out RECORDS [--shard 1/3]   on the GPU
    python tests/gpu/kernelbench.py --suite KernelBench/level1 --group products              products alone
    python tests/gpu/kernelbench.py --suite KernelBench/level1 --dry-run [--compile]         emits all; needs no GPU
    python tests/gpu/kernelbench.py --report RECORDS                                         writes docs/coverage.md

The suite is ScalingIntelligence/KernelBench on GitHub; nothing of it is kept here. `kernelbench_report` says when a
problem holds.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from device_share import DeviceShare
from kernelbench_report import DOCUMENT, GROUPS, PEERS, Rows, document, holds, line_of
from kernelbench_worker import number_of
from records import write_record
from sharding import add_arguments, add_compile_faults, print_failures, sharded
from workers import Job, Outcome, Worker, attempt, run_jobs

WORKER = Path(__file__).with_name("kernelbench_worker.py")
STEP_SECONDS = 120.0
DEVICE_BYTES = 125 * 10**9


def files_of(suite: Path, wanted: Sequence[int]) -> list[str]:
    """Return the files of the problems; raises FileNotFoundError where one is missing."""
    found = {number_of(str(file)): str(file) for file in suite.glob("[0-9]*_*.py")}
    if missing := [number for number in wanted if number not in found]:
        raise FileNotFoundError(f"{suite} lacks problems {missing}")
    return [found[number] for number in wanted]


def emitted(paths: list[str], group: str, processes: int) -> Rows:
    """Emit all problems on the CPU."""
    jobs = [Job(path, "emit", {"path": path}) for path in paths]
    found = run_jobs(WORKER, jobs, processes, STEP_SECONDS)
    return {o.job.label: {"group": group, **result_of(o)} for o in found}


def result_of(outcome: Outcome) -> dict[str, Any]:
    """Return what a job found."""
    return outcome.result or {"faults": [outcome.failure]}


def checked_and_measured(rows: Rows, arguments: argparse.Namespace) -> None:
    """Fill the caches of torch.compile and check, as many at once as the memory holds; then measure one by one."""
    paths = [path for path, row in rows.items() if not row["faults"]]
    count = min(arguments.processes, max(1, len(paths)))
    peer = PEERS[arguments.group]
    with ThreadPoolExecutor(count) as pool:
        if peer == "torch.compile":
            each_in_its_process("warm", paths, rows, count, pool)
        workers = each_in_its_process("check", paths, rows, count, pool)
        for place, path in enumerate(paths):
            if not rows[path]["faults"]:
                job = Job(path, "measure", {"path": path, "turns": arguments.turns, "peer": peer})
                rows[path] |= result_of(attempt(workers[place % count], job, STEP_SECONDS))
            print(line_of(path, rows[path]), flush=True)
        for worker in workers:
            worker.close()


def each_in_its_process(
    function: str, paths: list[str], rows: Rows, count: int, pool: ThreadPoolExecutor
) -> list[Worker]:
    """Run a step of all problems, each in the process that its place gives it; return the processes.

    What `warm` finds is not kept: neither are its processes.
    """
    workers, share, started = [Worker(WORKER) for _ in range(count)], DeviceShare(DEVICE_BYTES), time.perf_counter()

    def serve(place: int) -> None:
        for path in paths[place::count]:
            row = rows[path]
            with share.of(2 * row["input_bytes"] + 3 * row["result_bytes"]):
                outcome = attempt(workers[place], Job(path, function, {"path": path}), STEP_SECONDS)
            if function == "check":
                row |= result_of(outcome)
            elif outcome.failure:
                print(f"torch.compile, {Path(path).name}: {outcome.failure[:200]}", flush=True)
        if function == "warm":
            workers[place].close()

    list(pool.map(serve, range(count)))
    print(f"{function}: {time.perf_counter() - started:.0f} s", flush=True)
    return workers


def main() -> int:
    """Emit, check, measure and print; 1 if a result is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--suite", type=Path, help="folder of the level's files")
    parser.add_argument("--out", type=Path, help="folder for the record")
    parser.add_argument("--group", choices=sorted(GROUPS), default="memory")
    parser.add_argument("--only", type=int, nargs="+", help="numbers of problems, whose peer is the group's")
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument(
        "--report", type=Path, metavar="RECORDS", help="write its section of docs/coverage.md and do nothing else"
    )
    parser.add_argument("--to", type=Path, default=DOCUMENT)
    add_arguments(parser, processes=12)
    arguments = parser.parse_args()
    if arguments.report:
        before = arguments.to.read_text(encoding="utf-8") if arguments.to.exists() else ""
        arguments.to.write_text(document(arguments.report, before), encoding="utf-8")
        return 0
    if arguments.suite is None:
        parser.error("--suite names the folder of the level's files")
    started = time.perf_counter()
    paths = sharded(files_of(arguments.suite, arguments.only or GROUPS[arguments.group]), arguments.shard)
    rows = emitted(paths, arguments.group, arguments.processes)
    print(f"emitted: {time.perf_counter() - started:.0f} s", flush=True)
    if not arguments.dry_run:
        checked_and_measured(rows, arguments)
    done = [{"number": number_of(path), "label": Path(path).stem.strip("_"), **row} for path, row in rows.items()]
    if arguments.compile:
        add_compile_faults(done, arguments.processes)
    for row in done:
        row.pop("folders", None)
    print_failures(done)
    wrong = sum(bool(row["faults"]) for row in done)
    held = "" if arguments.dry_run else f"{sum(map(holds, done))} hold, "
    print(f"{len(rows)} problems, {held}{wrong} wrong or refused, {time.perf_counter() - started:.0f} s")
    if arguments.out and not arguments.dry_run:
        part = "" if arguments.shard == (1, 1) else "_{}_of_{}".format(*arguments.shard)
        write_record(arguments.out, f"kernelbench_{arguments.group}{part}", {"summary": {"wrong": wrong}, "rows": done})
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
