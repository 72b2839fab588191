"""KernelBench level 1: its 42 problems that memory bounds, emitted from their own files, checked and measured.

    python tests/gpu/kernelbench.py --suite KernelBench/level1 --out RECORDS [--shard 1/3]   on the GPU
    python tests/gpu/kernelbench.py --suite KernelBench/level1 --dry-run [--compile]         emits all; needs no GPU
    python tests/gpu/kernelbench.py --report RECORDS                                         writes docs/coverage.md

The suite is ScalingIntelligence/KernelBench on GitHub; nothing of it is kept here. A problem holds where its result is
right and kgen is faster than torch.compile, or within 0.93 of a copy of as many bytes, each less the band that the
same kernel timed twice shows (3 % at most).
"""

import argparse
import json
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from device_share import DeviceShare
from kernelbench_worker import number_of
from records import write_record
from sharding import add_arguments, add_compile_faults, print_failures, sharded
from workers import Job, Outcome, Worker, attempt, run_jobs

WORKER = Path(__file__).with_name("kernelbench_worker.py")
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "coverage.md"
PROBLEMS = (5, 12, *range(19, 41), *range(47, 50), *range(51, 54), *range(88, 97), *range(98, 101))
STEP_SECONDS = 120.0
DEVICE_BYTES = 125 * 10**9
BAND_LIMIT, COPY_BAR, WANTED = 0.03, 0.93, 36
Rows = dict[str, dict[str, Any]]
INTRODUCTION = """\
# Coverage: KernelBench level 1, what memory bounds

Written by `python tests/gpu/kernelbench.py --report RECORDS`. The problems of ScalingIntelligence/KernelBench level 1
that are pointwise operations, reductions, norms, softmax, losses and scans: each emitted from its own file, with no
operation of torch in kernel.py. Checked as the suite does: seed 42, train mode, float32, rtol = atol = 1e-4, one trial;
inputs are drawn on the GPU. Timed in one process, in turn with `torch.compile` and with a copy of as many bytes; where
a copy of fewer bytes was faster, its rate counts. A problem holds where kgen is faster than torch.compile or within
0.93 of the copy, less the band of the same kernel timed twice (3 % at most). The suite's harness casts every input to
float32: problem 93's mask is one here, too; the class indices of 95, cast, make its own reference fail, so they keep
their type.
"""


def files_of(suite: Path, only: list[int] | None) -> list[str]:
    """Return the files of the problems; raises FileNotFoundError where one is missing."""
    found = {number_of(str(file)): str(file) for file in suite.glob("[0-9]*_*.py")}
    wanted = only or PROBLEMS
    if missing := [number for number in wanted if number not in found]:
        raise FileNotFoundError(f"{suite} lacks problems {missing}")
    return [found[number] for number in wanted]


def emitted(paths: list[str], processes: int) -> Rows:
    """Emit all problems on the CPU."""
    jobs = [Job(path, "emit", {"path": path}) for path in paths]
    return {o.job.label: result_of(o) for o in run_jobs(WORKER, jobs, processes, STEP_SECONDS)}


def result_of(outcome: Outcome) -> dict[str, Any]:
    """Return what a job found."""
    return outcome.result or {"faults": [outcome.failure]}


def checked_and_measured(rows: Rows, arguments: argparse.Namespace) -> None:
    """Fill the caches of torch.compile and check, as many at once as the memory holds; then measure one by one."""
    paths = [path for path, row in rows.items() if not row["faults"]]
    count = min(arguments.processes, max(1, len(paths)))
    with ThreadPoolExecutor(count) as pool:
        each_in_its_process("warm", paths, rows, count, pool)
        workers = each_in_its_process("check", paths, rows, count, pool)
        for place, path in enumerate(paths):
            if not rows[path]["faults"]:
                job = Job(path, "measure", {"path": path, "turns": arguments.turns})
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


def verdict_of(row: dict[str, Any]) -> str:
    """Return whether a problem holds, and by which of the two bars."""
    if row.get("refused"):
        return "refused"
    if row["faults"]:
        return "wrong"
    band = min(row["band"], BAND_LIMIT)
    faster, near = row["ratio"][1] >= 1 - band, row["fraction"][1] >= COPY_BAR - band
    return {(True, True): "faster, at copy speed", (True, False): "faster", (False, True): "at copy speed"}.get(
        (faster, near), "slower"
    )


def holds(row: dict[str, Any]) -> bool:
    """Whether a problem counts."""
    return verdict_of(row) not in ("refused", "wrong", "slower")


def line_of(path: str, row: dict[str, Any]) -> str:
    """Return a problem in one line."""
    name = Path(path).stem.strip("_")[:34]
    if row["faults"]:
        return f"FAIL {name}: {' '.join(str(row['faults'][0]).split())[:160]}"
    ratio, low, high = row["ratio"]
    return (
        f"{name:<35} {row['us']:>9.1f} us {row['tb_s']:.2f} TB/s  torch.compile {ratio:.3f} [{low:.3f},{high:.3f}]  "
        f"copy {row['fraction'][0]:.3f}  band {row['band']:.3f}  {verdict_of(row)}"
    )


def against_fastest(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the problems as shares of the fastest copy of no more bytes: more bytes are no reason to copy slower."""
    rates = [(row["bytes"], row["bytes"] / row["copy_us"]) for row in rows if not row["faults"]]
    found = []
    for row in rows:
        if not row["faults"]:
            best = max(rate for count, rate in rates if count <= row["bytes"])
            scale = row["bytes"] / row["copy_us"] / best
            row = {**row, "fraction": [scale * fraction for fraction in row["fraction"]]}
        found.append(row)
    return found


def report(folder: Path) -> str:
    """Return docs/coverage.md from the records of all shards."""
    records = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("kernelbench*.json"))]
    rows = sorted((row for record in records for row in record["rows"]), key=lambda row: int(row["number"]))
    rows = against_fastest(rows)
    done = {row["number"] for row in rows}
    lines = [
        INTRODUCTION,
        f"**{sum(map(holds, rows))} of {len(PROBLEMS)} hold** ({WANTED} are asked for); "
        f"{sum(verdict_of(row) == 'wrong' for row in rows)} wrong, "
        f"{sum(verdict_of(row) == 'refused' for row in rows)} refused, {len(set(PROBLEMS) - done)} not run.",
        "",
        *map(run_of, records),
        "",
        "| problem | kgen us | TB/s | torch.compile / kgen | of the copy | band | verdict |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        *map(cells_of, rows),
    ]
    return "\n".join(lines) + "\n"


def run_of(record: dict[str, Any]) -> str:
    """Return where a record is from: the command, with the suite where it is for everyone, device, versions, date."""
    command, machine = re.sub(r"--suite \S+", "--suite KernelBench/level1", record["command"]), record["machine"]
    versions = ", ".join(f"{name} {machine[name]}" for name in ("python", "torch", "nvidia-cutlass-dsl"))
    return f"`{command}`: {machine['gpu']['driver']}; {versions}; {record['date']}."


def cells_of(row: dict[str, Any]) -> str:
    """Return a line of the report's table."""
    verdict = verdict_of(row)
    if row["faults"]:
        why = " ".join(str(row["faults"][0]).split())[:120].replace("|", "/")
        return f"| {row['label']} | | | | | | {verdict}: {why} |"
    ratio, low, high = row["ratio"]
    figures = f"{row['us']:.1f} | {row['tb_s']:.2f} | {ratio:.3f} [{low:.3f}, {high:.3f}] | {row['fraction'][0]:.3f}"
    return f"| {row['label']} | {figures} | {row['band']:.3f} | {verdict} |"


def main() -> int:
    """Emit, check, measure and print; 1 if a result is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--suite", type=Path, help="folder of the level's files")
    parser.add_argument("--out", type=Path, help="folder for the record")
    parser.add_argument("--only", type=int, nargs="+", help="numbers of problems")
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--report", type=Path, metavar="RECORDS", help="write docs/coverage.md and do nothing else")
    parser.add_argument("--to", type=Path, default=DOCUMENT)
    add_arguments(parser, processes=12)
    arguments = parser.parse_args()
    if arguments.report:
        arguments.to.write_text(report(arguments.report), encoding="utf-8")
        return 0
    if arguments.suite is None:
        parser.error("--suite names the folder of the level's files")
    started = time.perf_counter()
    paths = sharded(files_of(arguments.suite, arguments.only), arguments.shard)
    rows = emitted(paths, arguments.processes)
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
        write_record(arguments.out, f"kernelbench{part}", {"summary": {"wrong": wrong}, "rows": done})
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
