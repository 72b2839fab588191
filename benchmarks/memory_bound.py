"""Memory-bound kernels against QuACK, eager PyTorch, torch.compile and a copy of as many bytes.

    python benchmarks/memory_bound.py --out RECORDS              the rows of groups 1 and 3
    python benchmarks/memory_bound.py --group wide --out RECORDS every other element type and shape
    python benchmarks/memory_bound.py --rows softmax 32768x4096  the rows whose names hold one of the words
    python benchmarks/memory_bound.py --dry-run [--compile]      emits the kernels; needs no GPU

Caches of torch.compile are filled first, by many processes at once; then kernels are built, by others; then row after
row is measured, alone on the GPU. All arms of a row run in one process in one round robin, forth and back, as
CUDA-graph replays over buffers that pass the L2 cache three times. The second arm is the same kernel loaded again: how
far the 95 % interval of their ratio reaches from 1 is the band. A row holds where the lower end of the interval of
peer / kgen is at least its bar less the band (3 % at most).
"""

import argparse
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from memory_rows import BEST, GROUPS, Row

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "gpu"))
from records import write_record
from sharding import add_arguments, add_compile_faults, print_failures, sharded
from workers import Job, Worker, attempt, run_jobs

WORKER = Path(__file__).with_name("memory_worker.py")
WARM_SECONDS, BUILD_SECONDS, MEASURE_SECONDS = 180.0, 120.0, 90.0
BAND_LIMIT = 0.03
TURNS, FAST_TURNS = 16, 8


def measured(rows: list[Row], arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Fill caches, build, and measure row by row; print a line for each."""
    started = time.perf_counter()
    warm = run_jobs(WORKER, [Job(r.name, "warm", {"row": r.name}) for r in rows], arguments.processes, WARM_SECONDS)
    lost = [f"{o.job.label}: {str(o.failure)[:100]}" for o in warm if o.failure]
    print(f"{time.perf_counter() - started:.0f} s: caches filled", *lost, sep="\n  ", flush=True)
    count = min(arguments.processes, len(rows))
    workers = [Worker(WORKER) for _ in range(count)]
    shares = [rows[place::count] for place in range(count)]
    # The pool stays to the end: a child dies with the thread that started it.
    with ThreadPoolExecutor(count) as pool:
        built = {name: faults for part in pool.map(built_by, workers, shares) for name, faults in part.items()}
        print(f"{time.perf_counter() - started:.0f} s: built", flush=True)
        done = []
        for place, row in enumerate(rows):
            found = built[row.name] or measured_row(row, workers[place % count], arguments)
            done.append({"label": row.name, "shape": list(row.shape), **judged(row, found)})
            print(line_of(done[-1]), flush=True)
            keep(arguments.out, done[-1])
        for worker in workers:
            worker.close()
    print(f"{time.perf_counter() - started:.0f} s: measured", flush=True)
    return done


def built_by(worker: Worker, rows: list[Row]) -> dict[str, dict[str, Any]]:
    """Build the rows of one process, QuACK's kernels after all of kgen's; return the faults of those that failed."""
    failed: dict[str, dict[str, Any]] = {}
    for function in ("build", "build_quack"):
        for row in rows:
            outcome = attempt(worker, Job(row.name, function, {"row": row.name}), BUILD_SECONDS)
            faults = [outcome.failure] if outcome.result is None else outcome.result.get("faults", [])
            failed[row.name] = failed.get(row.name) or ({"faults": faults} if faults else {})
    return failed


def measured_row(row: Row, worker: Worker, arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure one row in the process that built it."""
    turns = FAST_TURNS if arguments.fast else TURNS
    outcome = attempt(worker, Job(row.name, "measure", {"row": row.name, "turns": turns}), MEASURE_SECONDS)
    return outcome.result or {"faults": [outcome.failure]}


def judged(row: Row, found: dict[str, Any]) -> dict[str, Any]:
    """Add what is asked of a row and whether it holds."""
    if found["faults"]:
        return {**found, "bars": [], "holds": False}
    band = min(found["band"], BAND_LIMIT)
    bars = []
    for name, bar in row.bars():
        low = found["peers"][best_of(found["peers"]) if name == BEST else name]["ratio"][1]
        bars.append({"peer": name, "bar": bar, "low": low, "holds": low >= bar - band})
    if (bar := row.copy_bar(found["bytes"])) is not None:
        low = found["fraction"][1]
        bars.append({"peer": "copy", "bar": bar, "low": low, "holds": low >= bar - band})
    return {**found, "bars": bars, "holds": all(one["holds"] for one in bars)}


def best_of(peers: dict[str, Any]) -> str:
    """Return the faster of eager PyTorch and torch.compile."""
    return min(("eager", "torch.compile"), key=lambda name: peers[name]["us"])


def line_of(row: dict[str, Any]) -> str:
    """Return a row of the table."""
    if row["faults"]:
        return f"FAIL {row['label']}: {' '.join(str(row['faults'][0]).split())[:200]}"
    cells = [f"{row['label']:<36} {row['us']:>8.1f} us {row['tb_s']:.2f} TB/s"]
    cells.append(f"copy {row['copy_tb_s']:.2f} -> {row['fraction'][0]:.3f}")
    for name, peer in row["peers"].items():
        ratio, low, high = peer["ratio"]
        cells.append(f"{name} {ratio:.3f} [{low:.3f},{high:.3f}]")
    failed = [f"{one['peer']} {one['low']:.3f} < {one['bar']}" for one in row["bars"] if not one["holds"]]
    cells.append(f"band {row['band']:.3f}")
    return "  ".join(cells) + ("  holds" if row["holds"] else f"  NOT: {'; '.join(failed)}")


def keep(folder: Path | None, row: dict[str, Any]) -> None:
    """Append a row to a file, for a run that is cut short."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "memory_bound.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def emitted(rows: list[Row], arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Emit the kernels of all rows on the CPU, and compile them if asked to."""
    jobs = [Job(row.name, "emit", {"row": row.name}) for row in rows]
    outcomes = run_jobs(WORKER, jobs, arguments.processes, BUILD_SECONDS)
    done = [{"label": o.job.label, **(o.result or {"faults": [o.failure]})} for o in outcomes]
    if arguments.compile:
        add_compile_faults(done, arguments.processes)
    return done


def chosen(arguments: argparse.Namespace) -> list[Row]:
    """Return the rows that the options select."""
    rows = [row for group in arguments.group for row in GROUPS[group]]
    if arguments.rows:
        rows = [row for row in rows if any(word in row.name for word in arguments.rows)]
    return sharded(rows, arguments.shard)


def main() -> int:
    """Measure and print; 1 if a result is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, help="folder for the record")
    parser.add_argument("--group", nargs="+", choices=tuple(GROUPS), default=["1", "3"])
    parser.add_argument("--rows", nargs="+", help="words of the names of rows")
    parser.add_argument("--fast", action="store_true", help=f"{FAST_TURNS} turns instead of {TURNS}")
    add_arguments(parser, processes=14)
    arguments = parser.parse_args()
    rows = chosen(arguments)
    done = emitted(rows, arguments) if arguments.dry_run else measured(rows, arguments)
    print_failures(done)
    wrong = sum(bool(row["faults"]) for row in done)
    if arguments.dry_run:
        print(f"{len(rows)} rows, {wrong} wrong")
        return 1 if wrong else 0
    summary = {"rows": len(done), "wrong": wrong, "hold": sum(row["holds"] for row in done)}
    print(f"{summary['hold']} of {len(done)} rows hold, {wrong} wrong")
    if arguments.out:
        part = "" if arguments.group == ["1", "3"] else "_" + "_".join(arguments.group)
        part += "" if arguments.shard == (1, 1) else "_{}_of_{}".format(*arguments.shard)
        write_record(arguments.out, f"memory_bound{part}", {"summary": summary, "rows": done})
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
