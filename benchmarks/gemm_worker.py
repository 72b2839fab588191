"""The process behind one shape of `gemm.py`: builds its kernels, then measures them when it is told to.

Building is done by many such processes at once; measuring by one at a time, with nothing else on the GPU.
"""

import json
import math
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "gpu"))
from choices import base_of, best_of, shown, write_choice
from compare import compare, run_poisoned
from gemm_types import Comparison, Kernel, comparison, product
from workers import load_script

import kgen
from kgen.bench.statistics import interval, spread
from kgen.bench.timing import Replay, Tensors, capture, host_us, in_turn, round_robin, set_count
from kgen.planning.candidates import solve_gemm
from kgen.target import load_device

SAMPLED_ROWS = 128


@dataclass(frozen=True, slots=True)
class Prepared:
    """The kernels of a shape: each with its tile in words and its predicted time."""

    m: int
    n: int
    k: int
    of: Comparison
    kernels: tuple[tuple[str, float, Kernel], ...]
    reads: Kernel | None = None  # a kernel that only reads B
    wide: Kernel | None = None

    @property
    def flops(self) -> int:
        """Operations of one product."""
        return 2 * self.m * self.n * self.k

    @property
    def bytes(self) -> int:
        """Fewest bytes that one product moves."""
        return (self.m + self.n) * self.k * self.of.dtype.itemsize + self.m * self.n * self.of.out_bytes

    def tensors(self, seed: int) -> Tensors:
        """Return random operands whose products are near 1."""
        generator = torch.Generator("cuda").manual_seed(seed)
        return self.of.operand(self.m, self.k, generator), self.of.operand(self.n, self.k, generator)


_PREPARED: list[Prepared] = []


def prepare(
    shape: list[int], dtype: str, target: str, candidates: int, one_of_each: bool, reads: bool
) -> dict[str, Any]:
    """Build the first plan of a shape twice, or its best candidates once each; nothing is measured."""
    started = time.perf_counter()
    of = comparison(dtype)
    empty = Prepared(*shape, of, ())
    made = _candidates(empty, target, candidates, one_of_each) if candidates else _twins(empty, target)
    wide = None if of.wide is None or candidates else kgen.build(of.wide[0], empty.tensors(0), target=target)
    _PREPARED[:] = [Prepared(*shape, of, made, _reader(empty) if reads else None, wide)]
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return {"kernels": [(words, predicted) for words, predicted, _ in made], "seconds": time.perf_counter() - started}


def _twins(shape: Prepared, target: str) -> tuple[tuple[str, float, Kernel], ...]:
    tensors = shape.tensors(0)
    (folder,) = kgen.build(shape.of.reference, tensors, target=target).folders
    choice = json.loads((folder / "plan.json").read_text())["variants"][0]["choice"]
    return tuple((shown(choice["choices"]), choice["time_us"], _loaded(folder, f"twin{i}", tensors)) for i in range(2))


def _reader(shape: Prepared) -> Kernel:
    """Return a kernel that reads B and nothing else."""
    from read_only import reader

    _, b = shape.tensors(0)
    read = reader(b)
    return lambda a, b: read(b)


def _candidates(shape: Prepared, target: str, count: int, one_of_each: bool) -> tuple[tuple[str, float, Kernel], ...]:
    """Return the best candidates that differ in more than the number of stages, or the best of each schedule."""
    tensors = shape.tensors(0)
    base = base_of(shape.of.reference, list(tensors), target, "candidate")
    made = []
    for number, ranked in enumerate(best_of(solve_gemm(base.facts, base.device, top=None).ranked, count, one_of_each)):
        point = dict(ranked.candidate.choices)
        with tempfile.TemporaryDirectory() as folder:
            package = write_choice(base, point, Path(folder) / "package")
            made.append((shown(point), ranked.time_us, _loaded(package, f"candidate{number}", tensors)))
    return tuple(made)


def _loaded(folder: Path, name: str, tensors: Tensors) -> Kernel:
    """Import a package's kernel under a name of its own, and compile it by a run."""
    kernel: Kernel = load_script(folder / "kernel.py", name).kernel
    kernel(*tensors)
    return kernel


def measure(count: int) -> dict[str, Any]:
    """Compare the first plan with cuBLAS in turn, after the two builds of it with each other."""
    (prepared,) = _PREPARED
    (tile, predicted, kernel), (_, _, twin) = prepared.kernels
    sets = _sets(prepared)
    faults, rel_err = check(prepared, kernel, sets[0])
    replays = [capture(f, sets, predicted) for f in (kernel, twin, prepared.of.peer)]
    parity = [a / b for a, b in in_turn(replays[0], replays[1], max(10, count // 2))]
    pairs = in_turn(replays[0], replays[2], count)
    ours, cublas = [a for a, _ in pairs], [b for _, b in pairs]
    ratio = interval([b / a for a, b in pairs])
    us = interval(ours)
    if us.median < floor_us(prepared):
        faults.append(f"{us.median:.1f} us is below the roofline's {floor_us(prepared):.1f} us: a measurement error")
    read = {"read_us": median(_reads(prepared, sets, count))} if prepared.reads else {}
    return {
        **read,
        "tile": tile,
        "predicted_us": predicted,
        "us": us.median,
        "us_spread": spread(ours),
        "cublas_us": median(cublas),
        "cublas_spread": spread(cublas),
        "ratio": [ratio.median, ratio.low, ratio.high],
        "parity": [min(parity), median(parity), max(parity)],
        "tflops": prepared.flops / us.median / 1e6,
        "floor_us": floor_us(prepared),
        "rel_err": rel_err,
        "errors": errors_of_sums(prepared, kernel, sets[0]),
        "sets": len(sets),
        "faults": faults,
    }


def _reads(prepared: Prepared, sets: list[Tensors], count: int) -> list[float]:
    """Return times of reading B alone, over the same rotating buffers."""
    assert prepared.reads is not None
    replay = capture(prepared.reads, sets, floor_us(prepared))
    (times,) = round_robin([replay], max(5, count // 3))
    return times


def measure_candidates(count: int) -> dict[str, Any]:
    """Time every candidate and cuBLAS in one round robin."""
    (prepared,) = _PREPARED
    sets = _sets(prepared)
    functions = [kernel for _, _, kernel in prepared.kernels]
    replays: list[Replay] = [capture(f, sets, prepared.kernels[0][1]) for f in (*functions, prepared.of.peer)]
    *times, cublas = round_robin(replays, max(5, count // 3))
    rows = []
    for (tile, predicted, kernel), samples in zip(prepared.kernels, times, strict=True):
        faults, rel_err = check(prepared, kernel, sets[0])
        row = {"tile": tile, "predicted_us": predicted, "us": median(samples), "us_spread": spread(samples)}
        rows.append({**row, "rel_err": rel_err, "faults": faults})
    return {"cublas_us": median(cublas), "candidates": rows, "sets": len(sets), "faults": []}


def _sets(prepared: Prepared) -> list[Tensors]:
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    return [prepared.tensors(seed) for seed in range(set_count(prepared.bytes, l2))]


def floor_us(prepared: Prepared) -> float:
    """Return the roofline's time: the dense peak and the memory's bandwidth, as the device file states them."""
    device = load_device("h200")
    peak = device.dense_peak(prepared.of.peak)
    assert peak is not None
    memory = prepared.bytes / device.value("quantities.memory_bandwidth") / 1e6
    return max(prepared.flops / peak.value / 1e6, memory)


def check(prepared: Prepared, kernel: Kernel, tensors: Tensors) -> tuple[list[str], float]:
    """Compare rows of the result with float64, and all of it with what torch runs."""
    a, b = tensors
    out, theirs = run_poisoned(kernel, tensors, float("nan")), prepared.of.peer(a, b)
    rows, want = _sampled(prepared, tensors)
    found = compare(
        out[rows], want.to(theirs.dtype) if prepared.of.limit == 0 else want, theirs[rows], prepared.of.limit
    )
    whole = ((out.double() - theirs.double()).norm() / theirs.double().norm()).item()
    faults = list(found.faults)
    if not whole <= 2 * prepared.of.limit:
        faults.append(f"differs from torch's by {whole:.2e} over the whole result")
    return faults, found.rel_err


def errors_of_sums(prepared: Prepared, kernel: Kernel, tensors: Tensors) -> dict[str, float]:
    """Return rel_err of kgen's and of torch's result against float64, of fp32 results where the type has such.

    NaN stands for what this torch does not compute.
    """
    rows, want = _sampled(prepared, tensors)
    ours, theirs = (prepared.wide, prepared.of.wide[1]) if prepared.of.wide else (kernel, prepared.of.peer)
    assert ours is not None
    sides = {"kgen": ours, "torch": theirs}
    errors = {}
    for name, function in sides.items():
        try:
            errors[name] = ((function(*tensors)[rows].double() - want).norm() / want.norm()).item()
        except (RuntimeError, ValueError):
            errors[name] = math.nan
    return errors


def _sampled(prepared: Prepared, tensors: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
    """Return some rows, and the product's in float64."""
    a, b = tensors
    rows = torch.randperm(prepared.m, generator=torch.Generator().manual_seed(0))[:SAMPLED_ROWS].to("cuda")
    return rows, a[rows].double() @ b.double().t()


def host(target: str) -> dict[str, Any]:
    """Return microseconds of the host per call on a tiny product, where the GPU is never waited for."""
    a, b = torch.randn(2, 64, 64, device="cuda").to(torch.bfloat16)
    built = kgen.build(product, (a, b), target=target)
    kernel = _loaded(built.folders[0], "host", (a, b))
    functions: dict[str, Kernel] = {"kernel()": kernel, "kgen.build()": built, "torch.matmul": product}
    return {"host_us": {name: host_us(function, (a, b)) for name, function in functions.items()}}
