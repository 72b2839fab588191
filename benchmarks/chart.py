"""docs/speed.svg from the records of `gemm.py`: how fast kgen's first plans are against cuBLAS, shape by shape.

    python benchmarks/chart.py RECORDS [--to docs/speed.svg]

Needs matplotlib (`pip install 'kgen[bench]'`). The same records give the same bytes.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "speed.svg"
DTYPES = (("bfloat16", "bf16", "#1f6f8b"), ("float16", "fp16", "#e0902f"))


def draw(axes: Axes, records: dict[str, dict[str, Any]]) -> None:
    """Draw a bar per shape and dtype: the ratio of the medians with its 95 % interval."""
    shapes: list[str] = []
    height = 0.8 / len(records)
    for place, (name, label, colour) in enumerate(d for d in DTYPES if d[0] in records):
        rows = [row for row in records[name]["rows"] if not row["faults"]]
        shapes = [" x ".join(map(str, row["shape"])) for row in rows]
        at = [i + (place - (len(records) - 1) / 2) * height for i in range(len(rows))]
        ratios = [row["ratio"] for row in rows]
        errors = [[r - low for r, low, _ in ratios], [high - r for r, _, high in ratios]]
        axes.barh(at, [r for r, _, _ in ratios], height, xerr=errors, color=colour, label=label)
    axes.axvline(1.0, color="black", linewidth=1)
    axes.set_yticks(range(len(shapes)), shapes)
    axes.invert_yaxis()
    axes.set_xlabel("cuBLAS time / kgen time (above 1: kgen is faster)")
    axes.legend(loc="lower right")


def main() -> int:
    """Draw the chart."""
    parser = argparse.ArgumentParser(description="Draw the speed chart.")
    parser.add_argument("records", type=Path)
    parser.add_argument("--to", type=Path, default=PICTURE)
    arguments = parser.parse_args()
    files = {name: arguments.records / f"gemm_{name}.json" for name, _, _ in DTYPES}
    records = {name: json.loads(file.read_text()) for name, file in files.items() if file.exists()}
    if not records:
        print(f"no record of benchmarks/gemm.py in {arguments.records}", file=sys.stderr)
        return 2
    mpl.rcParams["svg.hashsalt"] = "kgen"
    figure = Figure(figsize=(8, 6), layout="constrained")
    draw(figure.subplots(), records)
    figure.savefig(arguments.to, metadata={"Date": None})
    return 0


if __name__ == "__main__":
    sys.exit(main())
