"""`kgen probe` against what was measured another way: on a GPU, in one run.

    python benchmarks/probe_peers.py [--out probe.json]

Two probes run in turn with products of torch that triton's `do_bench` times, each after a rest. The table compares them
shape by shape, the second probe with the first, and where this GPU is an H200 both with the figures that were measured
once on one. Exit status 1 where a bar is missed.

Bars: the probe's best bf16 product within 5 % of the best beside it; on an H200 its copy and its products within 5 % of
the figures; less than a minute; its file is a target at once.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[1]
BAR, SECONDS, PROBES = 0.05, 60.0, 2
SHAPES = ((4096, 4096, 4096), (8192, 8192, 8192), (8192, 4096, 14336), (16384, 8192, 8192))
PASSES, REST_SECONDS = 2, 0.5
# On one H200 (driver 580, torch 2.11): TB/s of a 2 GiB copy, TFLOP/s of cuBLAS; medians of triton's do_bench.
H200 = {
    ("copy_bandwidth", "2048 MiB"): 4.25,
    ("bf16", "4096x4096x4096"): 696.2,
    ("bf16", "8192x8192x8192"): 700.3,
    ("bf16", "8192x4096x14336"): 727.9,
    ("tf32", "4096x4096x4096"): 398.2,
    ("fp32", "4096x4096x4096"): 50.5,
    ("fp8", "8192x8192x8192"): 1319.1,
    ("int8", "8192x8192x8192"): 911.6,
}


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison: the probe's rate against another; `decides` says that it can fail the run."""

    quantity: str
    what: str
    probed: float | None
    other: float
    against: str
    decides: bool

    @property
    def ratio(self) -> float:
        """The probe's rate over the other."""
        return (self.probed or 0.0) / self.other

    @property
    def ok(self) -> bool:
        """Whether the bar is met, where there is one."""
        return not self.decides or abs(self.ratio - 1) <= BAR


def rows(answer: Mapping[str, Any], beside: Mapping[str, float]) -> list[Row]:
    """Return the comparisons of a probe's answer; `beside` are TFLOP/s of bf16 products by shape."""
    samples = answer["measurement"]["samples"]
    return [*_beside_rows(samples, beside), *(_figure_rows(samples) if answer["shipped"] == "h200" else ())]


def repeated(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[Row]:
    """Yield what a second probe finds against the first one, quantity by quantity: nothing is decided by it."""
    before, after = (_measured(answer) for answer in (first, second))
    for quantity, value in before.items():
        yield Row(quantity, "in the file", after.get(quantity), value, "the first probe", False)


def _measured(answer: Mapping[str, Any]) -> dict[str, float]:
    found = answer["device"]["quantities"].items()
    return {name.partition(".")[2]: q["value"] for name, q in found if name.startswith("measured.")}


def _beside_rows(samples: Sequence[Mapping[str, Any]], beside: Mapping[str, float]) -> Iterator[Row]:
    probed = {s["label"]: s["value"] for s in samples if s["quantity"] == "bf16"}
    for shape, rate in beside.items():
        yield Row("bf16", shape, probed.get(shape), rate, "torch beside it", False)
    yield Row("bf16", "best", max(probed.values(), default=None), max(beside.values()), "torch beside it", True)


def _figure_rows(samples: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    for (quantity, label), figure in H200.items():
        found = [s["value"] for s in samples if s["quantity"] == quantity and s["label"].endswith(label)]
        yield Row(quantity, label, max(found, default=None), figure, "an H200 once", True)


def table(found: Sequence[Row]) -> str:
    """Return the comparisons as text."""
    lines = [f"{'quantity':18} {'what':18} {'probe':>8} {'other':>8} {'ratio':>6}  against"]
    for row in found:
        probed = "none" if row.probed is None else f"{row.probed:.4g}"
        verdict = "" if row.ok else "  MISSED"
        cells = f"{row.quantity:18} {row.what:18} {probed:>8} {row.other:>8.4g} {row.ratio:>6.3f}"
        lines.append(f"{cells}  {row.against}{verdict}")
    return "\n".join(lines)


class Beside:
    """bf16 products of torch, timed by triton's `do_bench`, each after a rest."""

    def __init__(self) -> None:
        self._calls = {f"{m}x{n}x{k}": (_product(m, n, k), 2 * m * n * k) for m, n, k in SHAPES}
        self.us: dict[str, list[float]] = {shape: [] for shape in self._calls}

    def run(self) -> None:
        """Time all shapes in turn."""
        from triton.testing import do_bench  # torch for CPUs comes without it

        for _ in range(PASSES):
            for shape, (call, _) in self._calls.items():
                torch.cuda.synchronize()
                time.sleep(REST_SECONDS)
                self.us[shape].append(1e3 * float(do_bench(call, return_mode="median")))

    def rates(self) -> dict[str, float]:
        """Return TFLOP/s by shape."""
        return {shape: flops / median(self.us[shape]) / 1e6 for shape, (_, flops) in self._calls.items()}


def _product(m: int, n: int, k: int) -> Callable[[], torch.Tensor]:
    a, b = (torch.randn(rows_, k, device="cuda", dtype=torch.bfloat16) for rows_ in (m, n))
    return lambda: torch.matmul(a, b.t())


def kgen_json(folder: Path, *arguments: str) -> dict[str, Any]:
    """Run kgen in a folder and return its answer; its progress is shown."""
    command = [sys.executable, "-m", "kgen.cli", *arguments, "--json"]
    path = ":".join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    answer: dict[str, Any] = json.loads(done.stdout)
    if not answer["ok"]:
        raise SystemExit(f"{' '.join(arguments)}: {answer['message']}")
    return answer


def main() -> int:
    """Run both and print the table last."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="also write everything as JSON")
    arguments = parser.parse_args()
    beside, answers = Beside(), []
    beside.run()
    with tempfile.TemporaryDirectory() as name:
        for number in range(PROBES):
            file = f"probed_{number}.yaml"
            answers.append(kgen_json(Path(name), "probe", "-o", file))
            beside.run()
        kgen_json(Path(name), "solve", "--gemm", "4096,4096,4096", "--target", file, "--top", "1")
    found = [row for answer in answers for row in rows(answer, beside.rates())]
    if arguments.out is not None:
        text = {"probes": answers, "beside": beside.rates(), "rows": [asdict(row) for row in found]}
        arguments.out.write_text(json.dumps(text, indent=2), encoding="utf-8")
    return report(answers, found)


def report(answers: Sequence[Mapping[str, Any]], found: Sequence[Row]) -> int:
    """Print the file, the differences from the shipped one, and the table last; return the exit status."""
    print(answers[0]["text"])
    for d in answers[0]["differences"]:
        percent = "" if d["percent"] is None else f"  {d['percent']:+.1f} %"
        print(f"{answers[0]['shipped']} differs: {d['name']:32} {d['shipped']} -> {d['probed']} {d['unit']}{percent}")
    print(table([*repeated(*answers), *found]))
    seconds = [answer["seconds"] for answer in answers]
    in_time = max(seconds) < SECONDS
    print(f"seconds of the probes: {seconds}{'' if in_time else '  MISSED'}")
    return int(not in_time or not all(row.ok for row in found))


if __name__ == "__main__":
    sys.exit(main())
