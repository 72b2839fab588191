"""The parts of docs/measurements.md on attention and on compute-sanitizer: each takes a record and returns its text."""

from typing import Any

Record = dict[str, Any]
PEERS = {"cudnn": "cuDNN", "fa4": "FlashAttention-4", "unpaged": "without pages"}


def table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    """Return a Markdown table."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def attention(record: Record) -> str:
    """Rows of attention beside their peers."""
    good = [row for row in record["rows"] if not row["faults"]]
    names = [name for name in PEERS if any(name in row["peers"] for row in good)]
    rows = []
    for row in good:
        peers = [row["peers"].get(name) for name in names]
        speeds = (_speed(peer["speed"]) if peer else "" for peer in peers)
        ratios = ("{:.3f} [{:.3f}, {:.3f}]".format(*peer["ratio"]) if peer else "" for peer in peers)
        rows.append(
            (
                row["row"],
                row["plan"],
                _speed(row["speed"]),
                *speeds,
                *ratios,
                f"{row['band']:.3f}",
                f"{row['rel_err']:.1e}",
            )
        )
    words = [PEERS[name] for name in names]
    head = ("row", "plan", "kgen", *words, *(f"{word} / kgen" for word in words), "band", "rel_err")
    method = (
        "The first plan of each row, chosen with no measurement. Random bf16, (batch, tokens, heads, head dim); 16384 "
        "tokens in all of a row of prefill. CUDA-graph replays over buffers that pass the L2 cache three times, in the "
        "order A B B A; TFLOP/s (causal rows count half) or, of one query per sequence, TB/s of K and V; ratios of "
        "times with the 95 % interval of the median; rel_err against float64."
    )
    means = "; ".join(
        f"{PEERS[name]} / kgen {mean:.3f}" for name, mean in record["summary"]["geomeans"].items() if name in names
    )
    wrong = [f"{row['row']}: {row['faults'][0]}" for row in record["rows"] if row["faults"]]
    ending = f"\n\nWrong, and not timed: {'; '.join(wrong)}." if wrong else ""
    return f"{method}\n\n{table(head, rows)}\n\nGeometric means: {means}.{ending}"


def _speed(speed: float) -> str:
    return f"{speed:.0f}" if speed >= 10 else f"{speed:.3f}"


def attention_candidates(record: Record) -> str:
    """The best of the first candidates beside the best legal one."""
    rows = []
    for row in record["rows"]:
        best = row["best"]
        shown = f"{best['tile_m']}x{best['tile_n']}, {best['stages']} stages, {best['splits']} parts"
        shares = (f"{row['first_of_best']:.3f}", f"{row['first_four_of_best']:.3f}")
        rows.append((row["row"], row["timed"], len(row["wrong"]), f"rank {best['rank']}: {shown}", *shares))
    head = ("row", "candidates timed", "wrong", "the fastest", "the first of it", "the best of the first 4")
    return table(head, rows)


def attention_random(record: Record) -> str:
    """Random problems: how many are right, and in how many plans."""
    summary, rows = record["summary"], record["rows"]
    right = [row for row in rows if not row["faults"]]
    worst, plans = max(row["rel_err"] for row in right), len({row["plan"] for row in right})
    wrong = "".join(f"\n- {row['label']}: {row['faults'][0]}" for row in rows if row["faults"])
    return (
        f"{summary['problems']} problems (lengths, heads, ratios, head dims, masks, score functions, strides; fixed "
        f"seeds) in {plans} plans, {summary['wrong']} wrong: rel_err against float64 is {worst:.1e} at most, "
        f"{summary['limit']} is allowed.{wrong}"
    )


def sanitizer(record: Record) -> str:
    """Packages under compute-sanitizer."""
    return table(("run", "verdict"), [(run["job"], run["verdict"]) for run in record["runs"]])
