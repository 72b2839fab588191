"""What `kernelbench.py` found, in words: when a problem holds, a line of it, docs/coverage.md.

A problem that memory bounds holds where its result is right and kgen is faster than torch.compile, or within 0.93 of a
copy of as many bytes; a product where it is right and at least as fast as torch's own, or twice as fast where
arithmetic bounds it. From each bar goes the band that the same kernel timed twice shows, 3 % at most.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sections import renewed

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "coverage.md"
GROUPS = {
    "memory": (5, 12, *range(19, 41), *range(47, 50), *range(51, 54), *range(88, 97), *range(98, 101)),
    "products": (1, 2, 3, 4, *range(6, 12), *range(13, 19)),
}
PEERS = {"memory": "torch.compile", "products": "eager"}
BAND_LIMIT, COPY_BAR, WANTED = 0.03, 0.93, 36
PRODUCT_BAR, BOUND_BAR = 1.0, 2.0
FP32_FLOPS, COPY_BYTES = (
    50.5e12,
    4.25e12,
)  # a second, of cuBLAS and of a copy on an H200: which of them bounds a product
Row = dict[str, Any]
Rows = dict[str, Row]
INTRODUCTION = """\
# Coverage: KernelBench level 1

Each section is written by `python tests/gpu/kernelbench.py --report RECORDS`. A problem of level 1 of
ScalingIntelligence/KernelBench is emitted from its own file, with no operation of torch in kernel.py, and checked as
the suite does: seed 42, train mode, float32, rtol = atol = 1e-4, one trial; inputs are drawn on the GPU. What a row
compares is timed in turn in one process. From each bar goes the band of the same kernel timed twice (3 % at most).
"""
HEADERS = {
    "memory": """\
## What memory bounds

The pointwise operations, reductions, norms, softmax, losses and scans, against `torch.compile` and a copy of as many
bytes; where a copy of fewer bytes was faster, its rate counts. A problem holds where kgen is faster than torch.compile
or within 0.93 of the copy. The suite's harness casts every input to float32: problem 93's mask is one here, too; the
class indices of 95, cast, make its own reference fail, so they keep their type.
""",
    "products": """\
## Products

Against torch's own, fp32 as they are, tf32 off. A product holds where kgen is at least as fast; where its operations
take cuBLAS longer than a copy of its bytes takes (50.5 TFLOP/s, 4.25 TB/s), at least twice as fast.
""",
}
COLUMNS = {
    "memory": ["problem", "kgen us", "TB/s", "torch.compile / kgen", "of the copy", "band", "verdict"],
    "products": ["problem", "kgen us", "TFLOP/s", "torch / kgen", "bar", "band", "verdict"],
}


def verdict_of(row: Row) -> str:
    """Return whether a problem holds, and by which bar."""
    if row.get("refused"):
        return "refused"
    if row["faults"]:
        return "wrong"
    band = min(row["band"], BAND_LIMIT)
    if row["group"] == "products":
        below = "below the bar" if row["ratio"][1] >= PRODUCT_BAR - band else "slower"
        return "faster" if row["ratio"][1] >= bar_of(row) - band else below
    faster, near = row["ratio"][1] >= 1 - band, row["fraction"][1] >= COPY_BAR - band
    return {(True, True): "faster, at copy speed", (True, False): "faster", (False, True): "at copy speed"}.get(
        (faster, near), "slower"
    )


def bar_of(row: Row) -> float:
    """Return how many times as fast as torch's a product has to be."""
    is_bound = row["flops"] / FP32_FLOPS > row["bytes"] / COPY_BYTES
    return BOUND_BAR if is_bound else PRODUCT_BAR


def holds(row: Row) -> bool:
    """Whether a problem counts."""
    return verdict_of(row) not in ("refused", "wrong", "below the bar", "slower")


def line_of(path: str, row: Row) -> str:
    """Return a problem in one line."""
    name = Path(path).stem.strip("_")[:34]
    if row["faults"]:
        return f"FAIL {name}: {' '.join(str(row['faults'][0]).split())[:160]}"
    ratio, low, high = row["ratio"]
    return (
        f"{name:<35} {row['us']:>9.1f} us {row['tb_s']:.2f} TB/s  {PEERS[row['group']]} {ratio:.3f} "
        f"[{low:.3f},{high:.3f}]  copy {row['fraction'][0]:.3f}  band {row['band']:.3f}  {verdict_of(row)}"
    )


def against_fastest(rows: Sequence[Row]) -> list[Row]:
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


def document(folder: Path, before: str) -> str:
    """Return docs/coverage.md with the sections of the groups that the folder has records of, others as `before`."""
    headings = {group: header.partition("\n")[0].removeprefix("## ") for group, header in HEADERS.items()}
    written = {
        heading: section(folder, group)
        for group, heading in headings.items()
        if any(folder.glob(f"kernelbench_{group}*.json"))
    }
    lacking = {heading: f"{HEADERS[group]}\nNot measured yet.\n" for group, heading in headings.items()}
    return renewed(INTRODUCTION, before, written, lacking)


def section(folder: Path, group: str) -> str:
    """Return what was found of a group."""
    files = sorted(folder.glob(f"kernelbench_{group}*.json"))
    records = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    rows = sorted((row for record in records for row in record["rows"]), key=lambda row: int(row["number"]))
    rows = against_fastest(rows)
    done = {row["number"] for row in rows}
    asked = f" ({WANTED} are asked for)" if group == "memory" else ""
    columns = COLUMNS[group]
    lines = [
        HEADERS[group],
        f"**{sum(map(holds, rows))} of {len(GROUPS[group])} hold**{asked}; "
        f"{sum(verdict_of(row) == 'wrong' for row in rows)} wrong, "
        f"{sum(verdict_of(row) == 'refused' for row in rows)} refused, {len(set(GROUPS[group]) - done)} not run.",
        "",
        *map(run_of, records),
        "",
        f"| {' | '.join(columns)} |",
        f"|{' --- |' * len(columns)}",
        *map(cells_of, rows),
    ]
    return "\n".join(lines) + "\n"


def run_of(record: dict[str, Any]) -> str:
    """Return where a record is from: the command, with the suite where it is for everyone, device, versions, date."""
    command, machine = re.sub(r"--suite \S+", "--suite KernelBench/level1", record["command"]), record["machine"]
    versions = ", ".join(f"{name} {machine[name]}" for name in ("python", "torch", "nvidia-cutlass-dsl"))
    return f"`{command}`: {machine['gpu']['driver']}; {versions}; {record['date']}."


def cells_of(row: Row) -> str:
    """Return a line of the report's table."""
    verdict = verdict_of(row)
    if row["faults"]:
        why = " ".join(str(row["faults"][0]).split())[:120].replace("|", "/")
        return f"| {row['label']} | | | | | | {verdict}: {why} |"
    ratio, low, high = row["ratio"]
    rate, bar = f"{row['tb_s']:.2f}", f"{row['fraction'][0]:.3f}"
    if row["group"] == "products":
        rate, bar = f"{row['flops'] / row['us'] / 1e6:.1f}", f"{bar_of(row):.2f}"
    figures = f"{row['us']:.1f} | {rate} | {ratio:.3f} [{low:.3f}, {high:.3f}] | {bar}"
    return f"| {row['label']} | {figures} | {row['band']:.3f} | {verdict} |"
