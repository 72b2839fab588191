"""Matrix products against what torch runs: the first plan of each shape, chosen with no measurement.

    python benchmarks/gemm.py --out RECORDS                  the comparison
    python benchmarks/gemm.py --candidates 8 --out RECORDS   predicted and measured times of the 8 best candidates
    python benchmarks/gemm.py --decode --out RECORDS         few rows against a weight; a kernel that only reads it, too
    python benchmarks/gemm.py --schedules 12 --out RECORDS   the best candidate of each of the 12 best schedules
    python benchmarks/gemm.py --host --out RECORDS           host time per call
    python benchmarks/gemm.py --dtype float8_e4m3fn|int8|tf32|float32 --shape 8192,8192,8192 --out RECORDS
    python benchmarks/gemm.py --dry-run                      the plans; needs no GPU

Each shape has a process of its own. All build at once; then they measure one after the other. Kernel and cuBLAS run in
one process in the order A B B A, as CUDA-graph replays over buffers that pass the L2 cache three times. Before that,
two builds of the same kernel are compared in the same way: their band is what a difference has to exceed.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from shapes import DECODE, SHAPES, is_large

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "gpu"))
from records import write_record
from workers import Job, Outcome, Worker, attempt

from kgen.bench.statistics import geomean

WORKER = Path(__file__).with_name("gemm_worker.py")
TARGET = "h200"
DTYPES = ("bfloat16", "float16", "float8_e4m3fn", "int8", "tf32", "float32")  # of gemm_types.py
PREPARE_SECONDS = 300.0
MEASURE_SECONDS = 120.0


def measured(shapes: Iterable[tuple[int, int, int]], arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Build the kernels of all shapes at once, then measure shape by shape."""
    common = {
        "dtype": arguments.dtype,
        "target": TARGET,
        "candidates": arguments.candidates or arguments.schedules,
        "one_of_each": bool(arguments.schedules),
        "reads": arguments.decode,
    }
    jobs = {shape: Job(words_of(shape), "prepare", {"shape": list(shape), **common}) for shape in shapes}
    workers = {shape: Worker(WORKER) for shape in jobs}
    # The pool stays to the end: a child dies with the thread that started it.
    with ThreadPoolExecutor(arguments.processes) as pool:
        outcomes = pool.map(lambda shape: attempt(workers[shape], jobs[shape], PREPARE_SECONDS), jobs)
        built = dict(zip(jobs, outcomes, strict=True))
        print(f"built, the slowest in {max(o.seconds for o in built.values()):.0f} s", flush=True)
        return [measured_shape(shape, workers[shape], built[shape], arguments) for shape in jobs]


def measured_shape(
    shape: tuple[int, int, int], worker: Worker, outcome: Outcome, arguments: argparse.Namespace
) -> dict[str, Any]:
    """Measure one shape in the process that built it, and end the process."""
    function = "measure_candidates" if arguments.candidates or arguments.schedules else "measure"
    if outcome.failure is None:
        outcome = attempt(worker, Job(words_of(shape), function, {"count": arguments.count}), MEASURE_SECONDS)
    worker.close()
    row = {"shape": list(shape), **(outcome.result or {"faults": [outcome.failure]})}
    if row["faults"]:
        print(f"FAIL {words_of(shape)}: {str(row['faults'])[:600]}", flush=True)
    return row


def words_of(shape: Iterable[int]) -> str:
    """Return a shape in words."""
    return ",".join(map(str, shape))


def print_comparison(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Print a line per shape and the geometric mean; return the summary. No speed is shown for a wrong result."""
    print(
        f"{'m,n,k':<16} {'kgen us':>8} {'cuBLAS':>8} {'ratio [95 %]':<20} {'parity band':<15} {'pred.':>7} "
        f"{'TF/s':>5} {'read us':>8} {'kgen err':>8} {'torch':>8}  tile"
    )
    good = [row for row in rows if not row["faults"]]
    for row in good:
        ratio, low, high = row["ratio"]
        print(
            f"{words_of(row['shape']):<16} {row['us']:>8.2f} {row['cublas_us']:>8.2f} "
            f"{ratio:.3f} [{low:.3f},{high:.3f}]  {row['parity'][0]:.3f}..{row['parity'][2]:.3f}    "
            f"{row['predicted_us']:>7.1f} {row['tflops']:>5.0f} {row.get('read_us', 0):>8.2f} "
            f"{row['errors']['kgen']:>8.1e} {row['errors']['torch']:>8.1e}  {row['tile']}"
        )
    large = [row["ratio"] for row in good if is_large(tuple(row["shape"]))]
    summary: dict[str, Any] = {"wrong": len(rows) - len(good), "large_shapes": len(large)}
    if large:
        means = [geomean([ratio[place] for ratio in large]) for place in range(3)]
        summary["geomean_ratio"] = means
        words = f"{means[0]:.3f} [{means[1]:.3f}, {means[2]:.3f}]"
        print(f"geomean of cuBLAS / kgen over {len(large)} large shapes: {words}")
    summary |= decode_summary([row for row in good if "read_us" in row])
    print(f"{len(good)} of {len(rows)} shapes right")
    return summary


def decode_summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Print and return how few rows compare: all with cuBLAS, up to 16 with a kernel that only reads the weight."""
    if not rows:
        return {}
    ratio = geomean([row["ratio"][0] for row in rows])
    reads = [row["read_us"] / row["us"] for row in rows if row["shape"][0] <= 16]
    print(f"geomean of cuBLAS / kgen over {len(rows)} shapes of few rows: {ratio:.3f}")
    if reads:
        print(f"time of reading alone / kgen, m <= 16: geomean {geomean(reads):.3f}, least {min(reads):.3f}")
    return {"geomean_few_rows": ratio, "read_share": reads}


def print_candidates(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Print predicted and measured times; return how far the first plan is from the best candidate."""
    losses = []
    for row in (row for row in rows if not row["faults"]):
        found = row["candidates"]
        best = min(candidate["us"] for candidate in found)
        losses.append(found[0]["us"] / best)
        print(f"{words_of(row['shape'])}  cuBLAS {row['cublas_us']:.2f} us; first plan / best: {losses[-1]:.3f}")
        for candidate in found:
            mark = "FAIL" if candidate["faults"] else "best" if candidate["us"] == best else ""
            print(
                f"  {candidate['us']:>8.2f} us, predicted {candidate['predicted_us']:>8.2f} "
                f"({candidate['predicted_us'] / candidate['us']:.2f})  {candidate['tile']} {mark}"
            )
    return {"loss_of_first_plan": geomean(losses) if losses else None}


def print_plans(shapes: Iterable[tuple[int, int, int]], dtype: str, count: int, one_of_each: bool) -> None:
    """Print the first plans of every shape."""
    from choices import best_of, shown
    from gemm_types import COMPARISONS

    from kgen.planning.candidates import solve_gemm
    from kgen.solution import Product, product_facts
    from kgen.target import load_device

    for shape in shapes:
        facts = product_facts(Product(words_of(shape), dtype=COMPARISONS[dtype].name))
        for ranked in best_of(solve_gemm(facts, load_device(TARGET), top=None).ranked, max(1, count), one_of_each):
            print(f"{words_of(shape):<16} predicted {ranked.time_us:>8.1f} us  {shown(ranked.candidate.choices)}")


def main() -> int:
    """Measure and print a table; 1 if a result is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, help="folder for the record")
    parser.add_argument("--dtype", choices=DTYPES, default="bfloat16")
    parser.add_argument("--shape", type=lambda text: tuple(map(int, text.split(","))), action="append")
    parser.add_argument("--candidates", type=int, default=0, metavar="N", help="time the N best candidates instead")
    parser.add_argument("--schedules", type=int, default=0, metavar="N", help="time the best of N schedules instead")
    parser.add_argument(
        "--decode", action="store_true", help="the products of decoding, beside a kernel that only reads"
    )
    parser.add_argument("--host", action="store_true", help="host time per call instead")
    parser.add_argument("--count", type=int, default=30, help="A B B A turns per shape")
    parser.add_argument("--processes", type=int, default=min(14, os.cpu_count() or 1))
    parser.add_argument("--dry-run", action="store_true", help="print the plans; needs no GPU")
    arguments = parser.parse_args()
    shapes = tuple(arguments.shape or (DECODE if arguments.decode else SHAPES))
    started = time.perf_counter()
    if arguments.dry_run:
        print_plans(shapes, arguments.dtype, arguments.candidates or arguments.schedules, bool(arguments.schedules))
        return 0
    if arguments.host:
        outcome = attempt(Worker(WORKER), Job("host", "host", {"target": TARGET}), MEASURE_SECONDS)
        rows, name = [outcome.result or {"faults": [outcome.failure]}], "gemm_host"
        summary = rows[0]
        print(*(f"{what}: {us:.2f} us a call" for what, us in summary.get("host_us", {}).items()), sep="\n")
        print(*summary.get("faults", ()), sep="\n")
    else:
        rows = measured(shapes, arguments)
        several = arguments.candidates or arguments.schedules
        summary = print_candidates(rows) if several else print_comparison(rows)
        kind = "decode_" * arguments.decode + ("candidates_" if several else "")
        name = f"gemm_{kind}{arguments.dtype}"
    print(f"{time.perf_counter() - started:.0f} s")
    if arguments.out:
        write_record(arguments.out, name, {"summary": summary, "rows": rows})
    return 1 if any(row.get("faults") for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
