"""Products of rows in groups, as a mixture of experts has them, against torch's own kernel.

    python benchmarks/grouped.py --emit FOLDER                     write the packages; needs no GPU
    python benchmarks/grouped.py --packages FOLDER --out RECORDS   measure them

Each row takes one of the groups by chance. Both arms run in one process, as CUDA-graph replays forth and back. Of the
gate, torch's arm is eager: its product, and two kernels behind it.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "gpu"))
from records import write_record
from workers import load_script

TARGET = "h200"
LIMIT = 0.01  # of the relative error to torch's result
EXPECTED_US = 1000.0  # sizes the graphs
ROUNDS = 12
Function = Callable[..., torch.Tensor]


def product(x: torch.Tensor, weight: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
    """Rows of each group by the group's weight."""
    return torch._grouped_mm(x, weight.mT, offs=offs)


def gate(x: torch.Tensor, weight: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
    """Gate and up projection of all experts, and what their down projection reads of them."""
    left, right = torch._grouped_mm(x, weight.mT, offs=offs).chunk(2, dim=-1)
    return F.silu(left) * right


@dataclass(frozen=True, slots=True)
class Shape:
    """Rows in so many groups, with a weight [n, k] each."""

    function: Function
    rows: int
    groups: int
    n: int
    k: int

    @property
    def name(self) -> str:
        """The folder of its package."""
        return f"{self.function.__name__}_{self.rows}_{self.groups}_{self.n}_{self.k}"

    def tensors(self, device: str) -> tuple[torch.Tensor, ...]:
        """Return x, the weights and the ends of the groups; on the device `meta` without values."""
        x = torch.empty(self.rows, self.k, dtype=torch.bfloat16, device=device).normal_()
        weight = torch.empty(self.groups, self.n, self.k, dtype=torch.bfloat16, device=device).normal_(0, self.k**-0.5)
        taken = torch.randint(self.groups, (self.rows,), generator=torch.Generator().manual_seed(0))
        ends = torch.bincount(taken, minlength=self.groups).cumsum(0).int()
        return x, weight, ends.to(device)


SHAPES = (
    Shape(product, 4096, 8, 14336, 4096),
    Shape(product, 8192, 64, 2048, 7168),
    Shape(product, 4096, 256, 4096, 7168),
    Shape(product, 128, 128, 2048, 7168),
    Shape(gate, 8192, 64, 4096, 7168),
)


def emit(folder: Path) -> None:
    """Write the packages."""
    import kgen

    for shape in SHAPES:
        kgen.emit(shape.function, shape.tensors("meta"), target=TARGET, folder=folder / shape.name)


def measure(shape: Shape, folder: Path) -> dict[str, Any]:
    """Return the times of both arms, and how far the results are apart."""
    from kgen.bench.statistics import interval
    from kgen.bench.timing import capture, round_robin

    kernel = load_script(folder / shape.name / "kernel.py", f"kernel_{shape.name}").kernel
    tensors = shape.tensors("cuda")
    out, want = kernel(*tensors).float(), shape.function(*tensors).float()
    error = ((out - want).norm() / want.norm()).item()
    del out, want
    replays = [capture(arm, [tensors], EXPECTED_US) for arm in (kernel, shape.function)]
    ours, theirs = round_robin(replays, ROUNDS)
    ratio = interval([b / a for a, b in zip(ours, theirs, strict=True)])
    return {
        "shape": shape.name,
        "us": median(ours),
        "torch_us": median(theirs),
        "tflops": 2 * shape.rows * shape.n * shape.k / median(ours) / 1e6,
        "rel_err": error,
        "torch / kgen": [ratio.median, ratio.low, ratio.high],
    }


def show(row: dict[str, Any]) -> None:
    """Print a shape."""
    ratio = "{:.3f} [{:.3f}, {:.3f}]".format(*row["torch / kgen"])
    times = f"{row['us']:>8.1f} us  torch {row['torch_us']:>8.1f} us  {row['tflops']:>5.0f} TF/s"
    print(f"{row['shape']:<28} {times}  {row['rel_err']:.1e}  torch / kgen {ratio}", flush=True)


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--emit", type=Path, help="folder for the packages")
    parser.add_argument("--packages", type=Path, help="folder of the packages to measure")
    parser.add_argument("--out", type=Path, help="folder for the record")
    arguments = parser.parse_args()
    if arguments.emit:
        emit(arguments.emit)
        return 0
    rows = []
    for shape in SHAPES:
        rows.append(measure(shape, arguments.packages))
        show(rows[-1])
        torch.cuda.empty_cache()
    wrong = [row["shape"] for row in rows if not row["rel_err"] <= LIMIT]
    for name in wrong:
        print(f"FAIL {name} differs from torch")
    if arguments.out:
        write_record(arguments.out, "grouped_bfloat16", {"rows": rows})
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
