"""Attention against cuDNN and FlashAttention-4: the first plan of each shape, chosen with no measurement.

    python benchmarks/attention.py --out RECORDS                       the comparison
    python benchmarks/attention.py --decode --out RECORDS              one query per sequence, in TB/s of K and V
    python benchmarks/attention.py --paged --out RECORDS               K and V in pages, against the kernel without
    python benchmarks/attention.py --rows 2 3 --edit tile_n=160,stages=2   the same with other values in the rows
    python benchmarks/attention.py --dry-run                           the plans; needs no GPU

Kernel and peer run in one process in the order A B B A, as CUDA-graph replays over buffers that pass the L2 cache three
times. Before that, two builds of the same kernel are compared in the same way: how far their 95 % interval reaches from
1 is the band that a difference has to exceed. A row holds where the lower end of peer / kgen is at least its bar less
the band, at most 3 %. FlashAttention-4 is `pip install flash-attn-4`; without it cuDNN is the one peer.
"""

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "gpu"))
from attention_rows import DECODE, PAGED, PREFILL, ROWS, Row
from compare import compare
from records import write_record
from workers import load_script

import kgen
from kgen.bench.statistics import geomean, half_width, interval

TARGET = "h200"
LIMIT = 0.01  # of rel_err against float64, on some heads
MOST_BAND = 0.03
BARS = {"cudnn": 1.0, "fa4": 0.97, "unpaged": 0.95}
DECODE_BARS = {"cudnn": 1.0, "fa4": 1.0}
FA4_LEAST_LENGTH = 4096  # from where on its bar is asked for
Edits = dict[str, int]


def kernels_of(row: Row, edits: Edits) -> tuple[str, list[Callable[..., Any]]]:
    """Return the plan in words and two builds of it, each compiled in a module of its own."""
    tensors = row.tensors(0)
    folder = kgen.build(row.reference(), tensors, target=TARGET).folders[-1]
    plan = json.loads((folder / "plan.json").read_text())
    choices, made = plan["variants"][0]["choice"]["choices"], []
    for number in range(2):
        module: Any = load_script(folder / "kernel.py", f"attention_{id(row)}_{number}")
        module.VARIANTS = tuple(dataclasses.replace(v, **edits) for v in module.VARIANTS)
        module.kernel(*tensors)
        made.append(module.kernel)
    shown = {**choices, **edits}
    parts = f", {shown['splits']} parts" if shown["splits"] > 1 else ""
    return f"{shown['tile_m']}x{shown['tile_n']}, {shown['stages']} stages{parts}", made


def check(row: Row, kernel: Callable[..., Any]) -> tuple[float, list[str]]:
    """Return rel_err against float64 on the first sequence's first heads, and what is wrong."""
    import torch

    q, k, v, *table = row.tensors(1)
    ratio, kept = row.heads // row.kv_heads, 2
    out = kernel(q, k, v, *table)[:1, :, : kept * ratio]
    if table:
        k, v = (x[table[0][:1]].flatten(1, 2) for x in (k, v))
        row = replace(row, page=0)
    parts = (q[:1, :, : kept * ratio].double(), k[:1, :, :kept].double(), v[:1, :, :kept].double())
    with torch.no_grad():
        want = row.reference()(*parts)
    found = compare(out, want, out, LIMIT)
    return found.rel_err, list(found.faults)


def measured(row: Row, edits: Edits, count: int) -> dict[str, Any]:
    """Build, check and measure one row."""
    import torch

    from kgen.bench.timing import call_us, capture, in_turn, set_count

    plan, (kernel, twin) = kernels_of(row, edits)
    rel_err, faults = check(row, kernel)
    l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
    sets = [row.tensors(seed) for seed in range(set_count(row.bytes, l2_bytes))]
    us = call_us(kernel, sets)
    ours, other = capture(kernel, sets, us), capture(twin, sets, us)
    band = min(half_width(in_turn(ours, other, count)), MOST_BAND)
    result: dict[str, Any] = {"row": str(row), "plan": plan, "rel_err": rel_err, "faults": faults, "band": band}
    result["peers"] = {}
    for name, peer in peers_of(row).items():
        pairs = in_turn(ours, capture(peer, sets, us), count)
        ratio = interval([theirs / own for own, theirs in pairs])
        result["speed"] = row.speed(interval([own for own, _ in pairs]).median)
        speed = row.speed(interval([theirs for _, theirs in pairs]).median)
        result["peers"][name] = {"ratio": [ratio.median, ratio.low, ratio.high], "speed": speed}
    return result


def peers_of(row: Row) -> dict[str, Callable[..., Any]]:
    """Return what a row is compared with: with pages, the kernel of the same row without."""
    if not row.page:
        return row.peers()
    _, (kernel, _) = kernels_of(replace(row, page=0), {})
    return {"unpaged": row.unpaged(kernel)}


def print_table(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Print a line per row, and the geometric means; no speed is shown for a wrong result."""
    good = [row for row in rows if not row["faults"]]
    names = [name for name in BARS if any(name in row["peers"] for row in good)]
    heads = (*(f"{name[:6]:>6}" for name in names), *(f" {name + '/kgen [95 %]':<21}" for name in names))
    print(f"{'row':<28} {'speed':>6} {' '.join(heads)} band  plan")
    for row in good:
        cells, speeds = [], []
        for name in names:
            peer = row["peers"].get(name)
            speeds.append(_speed(peer["speed"]) if peer else f"{'-':>6}")
            words = "{:.3f} [{:.3f},{:.3f}]".format(*peer["ratio"]) if peer else "-"
            bar = _bar(name, row["row"])
            mark = "" if not peer or peer["ratio"][1] >= bar - row["band"] else " <"
            cells.append(f"{words + mark:<22}")
        head = f"{row['row']:<28} {_speed(row['speed'])} {' '.join(speeds)}"
        print(f"{head}  {' '.join(cells)} {row['band']:.3f} {row['plan']}")
    means = {
        name: geomean([row["peers"][name]["ratio"][0] for row in good if name in row["peers"]])
        for name in BARS
        if any(name in row["peers"] for row in good)
    }
    print(*(f"geomean of {name} / kgen: {mean:.3f}" for name, mean in means.items()), sep="; ")
    for row in rows:
        if row["faults"]:
            print(f"FAIL {row['row']}: {str(row['faults'])[:300]}")
    return {"geomeans": means, "wrong": len(rows) - len(good)}


def _speed(speed: float) -> str:
    """Return TFLOP/s, or TB/s of a decode row."""
    return f"{speed:>6.0f}" if speed >= 10 else f"{speed:>6.3f}"


def _bar(peer: str, row: str) -> float:
    if row.endswith("decode"):
        return DECODE_BARS[peer]
    return BARS[peer] if peer != "fa4" or not row.startswith("S1024") else 0.0


def print_plans(rows: tuple[Row, ...]) -> None:
    """Print the first plans of every row."""
    from kgen.families.attention.rules_facts import AttentionFacts
    from kgen.planning.attention import solve_attention
    from kgen.target import load_device

    for row in rows:
        mean = (row.length + 1) / 2 if row.causal else row.length
        ratio = row.heads // row.kv_heads
        facts = AttentionFacts(
            queries=ratio if row.is_decode else row.length,
            keys=row.length,
            d=row.d,
            dv=row.d,
            batch=row.batch * row.kv_heads,
            ratio=1 if row.is_decode else ratio,
            mean_keys=mean,
            most_keys=row.length,
            bounded=int(row.causal),
            score_ops=int(row.causal),
            page_size=row.page,
        )
        for ranked in solve_attention(facts, load_device(TARGET), top=4).ranked:
            speed = _speed(row.speed(ranked.time_us))
            print(f"{row!s:<28} predicted {ranked.time_us:>8.1f} us,{speed}  {ranked.candidate}")


def _edits(text: str) -> Edits:
    return {name: int(value) for name, _, value in (part.partition("=") for part in text.split(","))}


def attempted(row: Row, edits: Edits, count: int) -> dict[str, Any]:
    """Measure one row; a failure is its fault, and the others go on."""
    try:
        result = measured(row, edits, count)
    except Exception as error:
        result = {"row": str(row), "faults": [f"{type(error).__name__}: {error}"]}
    print(f"  {row}: {'FAIL' if result['faults'] else 'done'}", flush=True)
    return result


def main() -> int:
    """Measure and print a table; 1 if a result is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, help="folder for the record")
    parser.add_argument("--rows", type=int, nargs="+", help="numbers of rows; all by default")
    parser.add_argument("--prefill", action="store_true", help="the six rows of head dim 128 alone")
    parser.add_argument("--decode", action="store_true", help="the rows of one query per sequence alone")
    parser.add_argument("--paged", action="store_true", help="one query per sequence, K and V in pages")
    parser.add_argument("--edit", type=_edits, default={}, help="values of the rows of VARIANTS, as name=number,...")
    parser.add_argument("--count", type=int, default=20, help="A B B A turns per row and peer")
    parser.add_argument("--dry-run", action="store_true", help="print the plans; needs no GPU")
    arguments = parser.parse_args()
    rows = PREFILL if arguments.prefill else DECODE if arguments.decode else PAGED if arguments.paged else ROWS
    rows = tuple(rows[i] for i in arguments.rows) if arguments.rows else rows
    if arguments.dry_run:
        print_plans(rows)
        return 0
    started = time.perf_counter()
    found = [attempted(row, arguments.edit, arguments.count) for row in rows]
    summary = print_table(found)
    print(f"{time.perf_counter() - started:.0f} s")
    if arguments.out:
        name = "attention_decode" if arguments.decode else "attention_paged" if arguments.paged else "attention"
        write_record(arguments.out, name, {"summary": summary, "rows": found, "edits": arguments.edit})
    return 1 if summary["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
