"""One kernel for every number of rows: right, compiled once for each plan, timed beside F.linear and fixed rows.

    python benchmarks/dynamic.py
    python benchmarks/dynamic.py --rows 1,64,1000 --fixed 64

The package of specs/linear_bf16_dynamic.yaml against torch's, and for some numbers of rows against the kernel that kgen
makes for that number alone. All run in one process in turn, as CUDA-graph replays over buffers that pass the L2 cache
three times. Values are new in every run.
"""

import argparse
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from types import ModuleType

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "gpu"))
from workers import load_script

import kgen
from kgen.bench.statistics import geomean
from kgen.bench.timing import Tensors, capture, host_us, round_robin, set_count
from kgen.spec.model import Case, Spec

SPEC = Path(__file__).resolve().parents[1] / "specs" / "linear_bf16_dynamic.yaml"
TARGET = "h200"
ROWS = (1, 7, 16, 48, 64, 100, 128, 512, 1000, 2048, 4096, 8192)
FIXED = (16, 128, 4096)
CHECKED = (2, 3, 5, 15, 17, 31, 33, 63, 65, 127, 129, 200, 257, 513, 700, 1025, 2100, 3200, 4097, 6300, 8191)
LIMIT = 0.005  # of ||out - ref|| / ||ref|| against torch's own result; both round once to bf16
TURNS = 15


def fixed_at(spec: Spec, rows: int) -> Spec:
    """Return the spec for one number of rows."""
    assert spec.dynamic is not None
    case = Case("default", tuple((n, rows if n == spec.dynamic.name else e) for n, e in spec.cases[0].extents))
    extents = tuple((n, dict(case.extents)[n]) for n, _ in spec.extents)
    return replace(spec, name=f"{spec.name}_{rows}", extents=extents, cases=(case,), dynamic=None)


def loaded(spec: Spec, folder: Path) -> ModuleType:
    """Emit a spec's package and import its kernel.py."""
    package = kgen.emit(spec, target=TARGET, folder=folder / spec.name)
    assert package.folder is not None
    return load_script(package.folder / "kernel.py", spec.name)


def operands(rows: int, columns: int, depth: int, offset: int = 0) -> Tensors:
    """Return x, `offset` elements behind an aligned address, and the weight."""
    memory = torch.empty(rows * depth + offset, device="cuda", dtype=torch.bfloat16)
    x = memory[offset:].view(rows, depth).normal_()
    return x, torch.randn(columns, depth, device="cuda").to(torch.bfloat16)


def check(module: ModuleType, columns: int, depth: int) -> str:
    """Return how the results at many numbers of rows compare, and how often a variant was compiled for them."""
    worst = 0.0
    for rows in (*CHECKED, *ROWS):
        for offset in (0, 1):
            x, weight = operands(rows, columns, depth, offset)
            want = F.linear(x, weight).double()
            worst = max(worst, ((module.kernel(x, weight).double() - want).norm() / want.norm()).item())
    empty = module.kernel(operands(0, columns, depth)[0], weight)
    assert worst < LIMIT and empty.shape == (0, columns), (worst, empty.shape)
    made = module.compiled.cache_info()
    calls = made.hits + made.misses
    assert made.misses <= len(module.VARIANTS), made
    numbers = len({*CHECKED, *ROWS})
    return f"{numbers} numbers of rows, rel_err at most {worst:.1e}; {made.misses} functions compiled for {calls} calls"


def timed(rows: int, modules: list[ModuleType], shape: tuple[int, int]) -> list[float]:
    """Return microseconds of F.linear and of the kernels."""
    columns, depth = shape
    moved = 2 * (rows * depth + columns * depth + rows * columns)
    count = min(set_count(moved, torch.cuda.get_device_properties(0).L2_cache_size), 8)
    sets = [operands(rows, columns, depth) for _ in range(count)]
    expected = max(moved / 4e6, 2 * rows * columns * depth / 7e8)
    replays = [capture(f, sets, expected) for f in (F.linear, *(m.kernel for m in modules))]
    return [median(times) for times in round_robin(replays, TURNS)]


def numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of a list."""
    return tuple(int(part) for part in text.split(",") if part)


def main() -> None:
    """Print what was checked, the host's time per call, and a row per number of rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=numbers, default=ROWS)
    parser.add_argument("--fixed", type=numbers, default=FIXED)
    arguments = parser.parse_args()
    torch.manual_seed(int(time.time()))
    spec = kgen.load_spec(SPEC)
    extents = dict(spec.cases[0].extents)
    shape = (extents["N"], extents["K"])
    with tempfile.TemporaryDirectory() as folder:
        module = loaded(spec, Path(folder))
        fixed = {rows: loaded(fixed_at(spec, rows), Path(folder)) for rows in arguments.fixed}
        print(check(module, *shape))
        few = operands(16, *shape)
        print(f"host us per call: {host_us(module.kernel, few):.2f}, F.linear {host_us(F.linear, few):.2f}")
        print("| M | plan | us | F.linear us | F.linear / kgen | fixed M us |\n|---|---|---|---|---|---|")
        ratios = []
        for rows in arguments.rows:
            modules = [module, *([fixed[rows]] if rows in fixed else [])]
            torchs, ours, *alone = timed(rows, modules, shape)
            ratios.append(torchs / ours)
            plan = next(iter(module.planned(((rows, shape[1]), shape))[2]))
            of_fixed = f"{alone[0]:.2f}" if alone else ""
            print(f"| {rows} | {plan} | {ours:.2f} | {torchs:.2f} | {ratios[-1]:.3f} | {of_fixed} |", flush=True)
        print(f"geomean {geomean(ratios):.3f}")


if __name__ == "__main__":
    main()
