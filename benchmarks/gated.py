"""A gate in one kernel against what torch runs of it, and against kgen's plain product of the same operands.

    python benchmarks/gated.py --emit FOLDER                     write the packages of both kernels; needs no GPU
    python benchmarks/gated.py --packages FOLDER --out RECORDS   measure them, and whatever else FOLDER has

    silu(x @ w[:n].T) * (x @ w[n:].T)    x [8192, 4096], w [2 * 14336, 4096], bf16

All arms run in one process, as CUDA-graph replays forth and back over all of them. A package whose name starts with
`plain` computes x @ w.T.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "gpu"))
from records import write_record
from workers import load_script

M, N, K = 8192, 14336, 4096
TARGET = "h200"
LIMIT = 0.01  # of the relative error to torch's result, which rounds the product to bf16 before the gate
EXPECTED_US = 2500.0  # sizes the graphs
ROUNDS = 12

Function = Callable[..., torch.Tensor]


def gated(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Gate and up projection of a transformer's MLP, and what the down projection reads of them."""
    gate, up = F.linear(x, weight).chunk(2, dim=-1)
    return F.silu(gate) * up


def plain(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The product alone."""
    return F.linear(x, weight)


def emit(folder: Path) -> None:
    """Write the packages of the gate and of the plain product."""
    import kgen

    tensors = (torch.empty(M, K, dtype=torch.bfloat16), torch.empty(2 * N, K, dtype=torch.bfloat16))
    for function in (gated, plain):
        kgen.emit(function, tensors, target=TARGET, folder=folder / function.__name__)


def arms(folder: Path, *, compiles: bool) -> dict[str, Function]:
    """Return what is timed: the kernels of a folder's packages, and torch."""
    found = sorted(path for path in folder.iterdir() if (path / "kernel.py").is_file())
    kernels = {path.name: load_script(path / "kernel.py", f"kernel_{path.name}").kernel for path in found}
    compiled = {"compile": torch.compile(gated, mode="max-autotune-no-cudagraphs", dynamic=False)} if compiles else {}
    return {**kernels, "eager": gated, **compiled, "cublas": plain}


def measure(folder: Path, *, compiles: bool) -> dict[str, Any]:
    """Return the time of every arm, and how far each gate is from torch's result."""
    from kgen.bench.statistics import interval
    from kgen.bench.timing import capture, round_robin

    generator = torch.Generator("cuda").manual_seed(0)
    x, weight = (torch.randn(rows, K, generator=generator, device="cuda").bfloat16() for rows in (M, 2 * N))
    weight = weight * K**-0.5
    functions = arms(folder, compiles=compiles)
    errors, want = {}, gated(x, weight).float()
    for name, function in functions.items():
        out = function(x, weight)
        if out.shape == want.shape:
            errors[name] = ((out.float() - want).norm() / want.norm()).item()
        del out
    replays = [capture(function, [(x, weight)], EXPECTED_US) for function in functions.values()]
    times = dict(zip(functions, round_robin(replays, ROUNDS), strict=True))
    better = min((name for name in ("eager", "compile") if name in times), key=lambda name: median(times[name]))
    product = next(name for name in times if name.startswith("plain"))
    ratios = {
        name: {
            f"{better} / arm": interval([b / a for a, b in zip(times[name], times[better], strict=True)]),
            f"arm / {product}": interval([a / b for a, b in zip(times[name], times[product], strict=True)]),
        }
        for name in times
    }
    rows = [
        {
            "arm": name,
            "us": median(samples),
            "tflops": 4 * M * N * K / median(samples) / 1e6,
            "rel_err": errors.get(name),
            "ratios": {words: [r.median, r.low, r.high] for words, r in ratios[name].items()},
        }
        for name, samples in times.items()
    ]
    faults = [f"{name} differs from torch by {error:.1e}" for name, error in errors.items() if not error <= LIMIT]
    return {"shape": [M, 2 * N, K], "better_peer": better, "rows": rows, "faults": faults}


def show(record: dict[str, Any]) -> None:
    """Print a line per arm."""
    for row in record["rows"]:
        ratios = "  ".join(f"{words} {r[0]:.3f} [{r[1]:.3f},{r[2]:.3f}]" for words, r in row["ratios"].items())
        error = "" if row["rel_err"] is None else f"{row['rel_err']:.1e}"
        print(f"{row['arm']:<22} {row['us']:>8.1f} us {row['tflops']:>5.0f} TF/s  {error:<8} {ratios}")
    for fault in record["faults"]:
        print(f"FAIL {fault}")


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--emit", type=Path, help="folder for the packages")
    parser.add_argument("--packages", type=Path, help="folder of the packages to measure")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--out", type=Path, help="folder for the record")
    arguments = parser.parse_args()
    if arguments.emit:
        emit(arguments.emit)
        return 0
    record = measure(arguments.packages, compiles=not arguments.no_compile)
    show(record)
    if arguments.out:
        write_record(arguments.out, "gated_bfloat16", record)
    return 1 if record["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())
