"""fp8 products with scales of blocks, against torch._scaled_mm with them and against kgen's own product of one scale.

    python benchmarks/block_scales.py --emit FOLDER [--shape M,N,K ...]   write the packages; needs no GPU
    python benchmarks/block_scales.py --packages FOLDER --out RECORDS     measure them

x [m, k] has a scale for each 1 x 128, weight [n, k] one for each 128 x 128. All arms of a shape run in one process, as
CUDA-graph replays over buffers that pass the L2 cache, forth and back over all of them. torch takes the scales of x
with rows contiguous, kgen here with k contiguous.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "gpu"))
from records import write_record
from workers import load_script

BLOCK = 128
SHAPES = (
    (4096, 7168, 2048),
    (4096, 4096, 7168),
    (8192, 8192, 8192),
    (4096, 2112, 7168),
    (64, 7168, 2048),
    (64, 2112, 7168),
    (16, 4096, 7168),
)
TARGET = "h200"
LIMIT = 4e-3  # of the relative error to the product in float64: what rounding to bf16 is
SAMPLED_ROWS = 128
ROUNDS = 12

Function = Callable[..., torch.Tensor]
Tensors = tuple[torch.Tensor, ...]


def blocks(x: torch.Tensor, weight: torch.Tensor, x_scale: torch.Tensor, weight_scale: torch.Tensor) -> torch.Tensor:
    """The product of the operands times their scales."""
    rows = weight_scale.repeat_interleave(BLOCK, 0)[: weight.shape[0]]
    wide = x.float() * x_scale.repeat_interleave(BLOCK, 1)
    return (wide @ (weight.float() * rows.repeat_interleave(BLOCK, 1)).T).to(torch.bfloat16)


def whole(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """The product with one scale."""
    return ((x.float() @ weight.float().T) * scale).to(torch.bfloat16)


def torch_blocks(
    x: torch.Tensor, weight: torch.Tensor, x_scale: torch.Tensor, weight_scale: torch.Tensor
) -> torch.Tensor:
    """What torch runs: scales of x with rows contiguous, those of the weight with k contiguous."""
    return torch._scaled_mm(x, weight.T, scale_a=x_scale, scale_b=weight_scale.T, out_dtype=torch.bfloat16)


def tensors(shape: tuple[int, int, int], device: str) -> Tensors:
    """Return operands and scales; rows of the weight's scales are padded to 16 bytes, as torch wants them."""
    m, n, k = shape
    columns, rows = -(-k // BLOCK), -(-n // BLOCK)
    x, weight = ((torch.randn(r, k, device=device) * k**-0.25).to(torch.float8_e4m3fn) for r in (m, n))
    padded = torch.rand(rows, -(-columns // 4) * 4, device=device) + 0.5
    return x, weight, torch.rand(m, columns, device=device) + 0.5, padded[:, :columns]


def emit(folder: Path, shapes: tuple[tuple[int, int, int], ...]) -> None:
    """Write the packages of both products of each shape."""
    import kgen

    for shape in shapes:
        x, weight, *scales = tensors(shape, "cpu")
        words = "_".join(map(str, shape))
        kgen.emit(blocks, (x, weight, *scales), target=TARGET, folder=folder / f"blocks_{words}")
        kgen.emit(whole, (x, weight, torch.ones(())), target=TARGET, folder=folder / f"whole_{words}")


def rel_err(found: torch.Tensor, operands: Tensors) -> float:
    """Return the relative error of the first rows to the product in float64."""
    x, weight, x_scale, weight_scale = operands
    rows = weight_scale.double().repeat_interleave(BLOCK, 0)[: weight.shape[0]]
    wide = (x.double() * x_scale.double().repeat_interleave(BLOCK, 1)[:, : x.shape[1]])[:SAMPLED_ROWS]
    want = wide @ (weight.double() * rows.repeat_interleave(BLOCK, 1)[:, : x.shape[1]]).T
    return ((found[:SAMPLED_ROWS].double() - want).norm() / want.norm()).item()


def measure(folder: Path, shape: tuple[int, int, int]) -> dict[str, Any]:
    """Return the times of all arms of a shape, and the errors of those with scales of blocks."""
    from kgen.bench.statistics import interval
    from kgen.bench.timing import capture, round_robin, set_count

    m, n, k = shape
    words = "_".join(map(str, shape))
    l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
    sets = [tensors(shape, "cuda") for _ in range(set_count((m + n) * k + 2 * m * n, l2_bytes))]
    one = torch.ones((), device="cuda")
    arms: dict[str, tuple[Function, list[Tensors]]] = {
        "blocks": (load_script(folder / f"blocks_{words}" / "kernel.py", f"blocks_{words}").kernel, sets),
        "one scale": (
            load_script(folder / f"whole_{words}" / "kernel.py", f"whole_{words}").kernel,
            [(x, weight, one) for x, weight, *_ in sets],
        ),
        "torch": (torch_blocks, [(x, weight, sx.T.contiguous().T, sw) for x, weight, sx, sw in sets]),
    }
    errors, faults, replays = {}, [], {}
    expected_us = 2 * m * n * k / 1e9 + 6
    for arm, (function, inputs) in arms.items():
        try:
            if arm != "one scale":
                errors[arm] = rel_err(function(*inputs[0]), sets[0])
            replays[arm] = capture(function, inputs, expected_us)
        except (RuntimeError, ValueError) as error:
            faults.append(f"{arm}: {str(error).splitlines()[0]}")
    if errors.get("blocks", 1.0) > LIMIT:
        faults.append(f"blocks differs from the product in float64 by {errors.get('blocks')}")
    times = dict(zip(replays, round_robin(list(replays.values()), ROUNDS), strict=True))
    ratios = {
        arm: interval([other / mine for mine, other in zip(times["blocks"], times[arm], strict=True)]) for arm in times
    }
    return {
        "shape": list(shape),
        "us": {arm: median(samples) for arm, samples in times.items()},
        "tflops": {arm: 2 * m * n * k / median(samples) / 1e6 for arm, samples in times.items()},
        "arm / blocks": {arm: [r.median, r.low, r.high] for arm, r in ratios.items() if arm != "blocks"},
        "rel_err": errors,
        "faults": faults,
    }


def show(row: dict[str, Any]) -> None:
    """Print a line for a shape, and one for each fault."""
    times = "  ".join(f"{arm} {us:.1f} us ({row['tflops'][arm]:.0f} TF/s)" for arm, us in row["us"].items())
    ratios = "  ".join(f"{arm} / blocks {r[0]:.3f} [{r[1]:.3f},{r[2]:.3f}]" for arm, r in row["arm / blocks"].items())
    errors = "  ".join(f"{arm} {error:.1e}" for arm, error in row["rel_err"].items())
    print(f"{','.join(map(str, row['shape'])):<15} {times}  {ratios}  rel_err {errors}", flush=True)
    for fault in row["faults"]:
        print(f"FAIL {fault}", flush=True)


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--emit", type=Path, help="folder for the packages")
    parser.add_argument("--packages", type=Path, help="folder of the packages to measure")
    parser.add_argument("--shape", type=lambda text: tuple(map(int, text.split(","))), action="append")
    parser.add_argument("--out", type=Path, help="folder for the record")
    arguments = parser.parse_args()
    shapes = tuple(arguments.shape or SHAPES)
    if arguments.emit:
        emit(arguments.emit, shapes)
        return 0
    rows = []
    for shape in shapes:
        rows.append(measure(arguments.packages, shape))
        show(rows[-1])
    if arguments.out:
        write_record(
            arguments.out, "block_scales", {"rows": rows, "faults": [f for row in rows for f in row["faults"]]}
        )
    return 1 if any(row["faults"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
