"""Attention candidates against each other: is the best of the first four near the best legal one?

    python benchmarks/attention_candidates.py --out RECORDS [--rows 2 9 12] [--spread 24]
    python benchmarks/attention_candidates.py --dry-run             the candidates; needs no GPU

For each row of `attention_rows.CANDIDATES` the first candidates, all that are predicted within NEAR of the first, and
every n-th of the other legal ones are built as packages of one kernel, each in a process of its own. Processes compile
beside each other; each times its candidate alone on the GPU, in turn with cuDNN (A B B A, CUDA-graph replays, cold L2),
so that candidates compare by their ratio to it.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "gpu"))
from attention_rows import CANDIDATES, Row
from records import write_record
from workers import load_script

from kgen.frontend.importers import spec_from_callable
from kgen.package.write import write_package
from kgen.pipeline import run
from kgen.rules.model import Value
from kgen.spec.model import Accepts, FixedAxis, Spec
from kgen.target import load_device

TARGET = "h200"
FIRST = 4
NEAR = 1.06  # of the first one's predicted time
BAR = 0.97
ALIGN_BYTES = 128
LIMIT = 0.01  # of rel_err against cuDNN
LIMIT_SECONDS = 180.0
TURNS = 8
Point = dict[str, Value]


def spec_of(row: Row, tensors: Any) -> Spec:
    """Return the spec of a row, of tensors with aligned bases."""
    return replace(spec_from_callable(row.reference(), tensors), accepts=Accepts(ALIGN_BYTES))


def points_of(row: Row, spread: int) -> list[Point]:
    """Return the candidates to time, in the order of their rank; `rank` counts from 1."""
    import torch

    from kgen.families.attention.facts import facts_of
    from kgen.planning.attention import legal_attentions, ordered_attentions

    tokens = ((row.queries, row.heads), (row.length, row.kv_heads), (row.length, row.kv_heads))
    shapes = [(row.batch, length, heads, row.d) for length, heads in tokens]
    spec = spec_of(row, [torch.empty(shape, dtype=torch.bfloat16, device="meta") for shape in shapes])
    device = load_device(TARGET)
    ((form,),) = run(spec, device, stop_after="classify").made["classify"].values()
    facts = facts_of(form, ALIGN_BYTES)
    legal = legal_attentions(facts, device)
    time, order = ordered_attentions(legal, facts, device)
    near = sum(time.total[row] <= NEAR * time.total[order[0]] for row in order)
    places = sorted({*range(max(FIRST, min(near, 10))), *range(0, len(order), max(1, len(order) // spread))})
    found = ((place + 1, order[place]) for place in places)
    return [{**dict(legal.point(int(at))), "rank": rank, "predicted_us": float(time.total[at])} for rank, at in found]


def timed(row: Row, point: Point) -> dict[str, Any]:
    """Build one candidate, compare it with cuDNN, and time both in turn; in a process of its own."""
    import torch

    from kgen.bench.gpu_lock import lock_of
    from kgen.bench.statistics import interval
    from kgen.bench.timing import call_us, capture, in_turn, set_count
    from kgen.check.gpu import find_gpus

    axes = {axis: value for axis, value in point.items() if axis not in ("rank", "predicted_us")}
    lock, tensors = lock_of(find_gpus()[0]), row.tensors(1)
    fixed = tuple(FixedAxis(axis, value, "the candidate under test") for axis, value in axes.items())
    files = run(replace(spec_of(row, tensors), fixed=fixed), load_device(TARGET)).made["render"]
    with tempfile.TemporaryDirectory() as folder:
        write_package(files, Path(folder) / "package")
        kernel = load_script(Path(folder) / "package" / "kernel.py", "candidate").kernel
        found = kernel(*tensors)  # compiles for seconds, runs for a moment: nobody waits for that
    peer = row.peers()["cudnn"]
    with lock.shared():
        want = peer(*tensors).double()
        rel_err = float((found.double() - want).norm() / want.norm())
        del found, want
        l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
        sets = [row.tensors(seed) for seed in range(set_count(row.bytes, l2_bytes))]
        us = call_us(kernel, sets)
        both = capture(kernel, sets, us), capture(peer, sets, us)
    with lock.alone():
        pairs = in_turn(*both, TURNS)
    ratio = interval([theirs / ours for ours, theirs in pairs]).median
    return {"us": interval([ours for ours, _ in pairs]).median, "ratio": ratio, "rel_err": rel_err}


def attempted(number: int, point: Point) -> dict[str, Any]:
    """Time one candidate in a process of its own; what fails is said."""
    command = [sys.executable, __file__, "--one", str(number), json.dumps(point)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)
        return {**point, **json.loads(done.stdout.rstrip().rpartition("\n")[2])}
    except subprocess.TimeoutExpired:
        return {**point, "failure": f"not done after {LIMIT_SECONDS:.0f} s"}
    except ValueError:
        return {**point, "failure": done.stderr[-400:]}


def summary_of(row: Row, found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return how near the first ones come to the best, and what is wrong."""
    good = [one for one in found if one.get("rel_err", 1.0) < LIMIT]
    best = max(good, key=lambda one: float(one["ratio"]))
    first = [float(one["ratio"]) for one in good if one["rank"] <= FIRST]
    wrong = [one for one in found if one not in good]
    return {
        "row": str(row),
        "timed": len(good),
        "wrong": wrong,
        "best": best,
        "first_of_best": float(found[0].get("ratio", 0.0)) / best["ratio"],
        "first_four_of_best": max(first, default=0.0) / best["ratio"],
    }


def print_summary(summary: dict[str, Any]) -> None:
    """Print what was found of one row."""
    best = summary["best"]
    tile = f"{best['tile_m']}x{best['tile_n']}, {best['stages']} stages, {best['splits']} parts, o {best['o_path']}"
    print(
        f"{summary['row']:<28} {summary['timed']} timed, {len(summary['wrong'])} wrong; of the best "
        f"(rank {best['rank']}, {best['us']:.1f} us, {best['ratio']:.3f} of cuDNN: {tile}) the first reaches "
        f"{summary['first_of_best']:.3f}, the best of the first {FIRST} {summary['first_four_of_best']:.3f}"
    )
    for one in summary["wrong"][:3]:
        print(f"  WRONG rank {one['rank']}: {one.get('failure', one.get('rel_err'))}")


def main() -> int:
    """Time the candidates of all chosen rows; 1 where one is wrong or the bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, help="folder for the record")
    parser.add_argument("--rows", type=int, nargs="+", default=range(len(CANDIDATES)), help="numbers of rows")
    parser.add_argument("--spread", type=int, default=20, help="legal candidates over the whole ranking, per row")
    parser.add_argument("--processes", type=int, default=14)
    parser.add_argument("--dry-run", action="store_true", help="print the candidates")
    parser.add_argument("--one", nargs=2, metavar=("ROW", "POINT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(timed(CANDIDATES[int(arguments.one[0])], json.loads(arguments.one[1]))))
        return 0
    asked = [(number, point) for number in arguments.rows for point in points_of(CANDIDATES[number], arguments.spread)]
    if arguments.dry_run:
        print(*(f"{CANDIDATES[number]} {point}" for number, point in asked), sep="\n")
        return 0
    with ThreadPoolExecutor(arguments.processes) as pool:
        found = list(pool.map(lambda one: attempted(*one), asked))
    rows = []
    for number in arguments.rows:
        of_row = [one for (asked_of, _), one in zip(asked, found, strict=True) if asked_of == number]
        rows.append(summary_of(CANDIDATES[number], of_row) | {"candidates": of_row})
        print_summary(rows[-1])
    if arguments.out:
        write_record(arguments.out, "attention_candidates", {"rows": rows})
    return int(any(row["wrong"] or row["first_four_of_best"] < BAR for row in rows))


if __name__ == "__main__":
    sys.exit(main())
