"""The process behind rows of `memory_bound.py`: builds their kernels, then measures a row when it is told to.

Building is done by many such processes at once; measuring by one at a time, with nothing else on the GPU. What
torch.compile picks by measuring it picks then, too: `warm` only fills the caches on disk, in another process.
"""

import math
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "gpu"))
from compare import compare_all, expected, run_poisoned, tensors_of
from copying import copies, paired, with_faster_copy
from memory_rows import GROUPS, Row, on_cpu, on_gpu, peers
from sharding import is_of_the_device, reason_of
from workers import load_script

import kgen
from kgen.bench.statistics import interval, spread
from kgen.bench.timing import Replay, Tensors, capture, round_robin, set_count
from kgen.target import load_device

TARGET = "h200"
MODE = "max-autotune-no-cudagraphs"
LIMITS = {"float32": 1e-5, "bfloat16": 0.01, "float16": 0.01}
Kernel = Callable[..., Any]
_ROWS = {row.name: row for rows in GROUPS.values() for row in rows}
_KERNELS: dict[str, tuple[Kernel, Kernel]] = {}


def emit(row: str) -> dict[str, Any]:
    """Emit a row's kernels on the CPU."""
    try:
        made = kgen.build(_ROWS[row].function, _ROWS[row].tensors(on_cpu), target=TARGET)
    except Exception as error:
        return {"faults": [reason_of(error)]}
    return {"faults": [], "folders": [str(folder) for folder in made.folders]}


def warm(row: str) -> dict[str, Any]:
    """Let torch.compile fill its caches; what it measures meanwhile is thrown away."""
    with torch.no_grad():
        _compiled(_ROWS[row].function)(*_ROWS[row].tensors(on_gpu(0)))
    _free()
    return {}


def build(row: str) -> dict[str, Any]:
    """Build a row's kernel twice and run each once; a refusal is an answer, for the process has other rows."""
    tensors = _ROWS[row].tensors(on_gpu(0))
    try:
        (folder,) = kgen.build(_ROWS[row].function, tensors, target=TARGET).folders
        _KERNELS[row] = (_loaded(folder, f"{row}_0", tensors), _loaded(folder, f"{row}_1", tensors))
    except Exception as error:
        if is_of_the_device(error):
            raise
        return {"faults": [reason_of(error)]}
    finally:
        tensors = ()
        _free()
    return {"faults": []}


def build_quack(row: str) -> dict[str, Any]:
    """Compile QuACK's kernel of a row. After all of `build`: it changes classes of the DSL when it is imported."""
    if "quack" in peers(_ROWS[row]):
        _quack(_ROWS[row])(*_ROWS[row].tensors(on_gpu(0)))
        _free()
    return {}


def measure(row: str, turns: int) -> dict[str, Any]:
    """Time all arms of a row and a copy of as many bytes in one round robin."""
    wanted = _ROWS[row]
    if row not in _KERNELS and (faults := build(row)["faults"]):  # its process was lost to another row
        return {"faults": faults}
    kernel, twin = _KERNELS.pop(row)
    with torch.no_grad():
        arms = {"kgen": kernel, "twin": twin, "eager": wanted.function, "torch.compile": _compiled(wanted.function)}
        if "quack" in peers(wanted):
            arms["quack"] = _quack(wanted)
        tensors = wanted.tensors(on_gpu(0))
        faults, rel_err, traffic = _checked(wanted, kernel, tensors)
        for function in arms.values():
            function(*tensors)
        tensors = ()
        _free()
        found = _timed(wanted, arms, traffic, turns)
    _free()
    return {"row": row, "bytes": traffic, "rel_err": rel_err, **found, "faults": faults + _too_fast(found, traffic)}


def _checked(row: Row, kernel: Kernel, tensors: Tensors) -> tuple[list[str], float, int]:
    """Compare with float64; return faults, error, and the bytes of arguments and results."""
    out = run_poisoned(kernel, tensors, math.nan)
    traffic = sum(t.nbytes for t in (*tensors, *tensors_of(out)))
    found = compare_all(out, expected(row.function, tensors), row.function(*tensors), LIMITS[row.dtype])
    return list(found.faults), found.rel_err, traffic


def _timed(row: Row, arms: dict[str, Kernel], traffic: int, turns: int) -> dict[str, Any]:
    properties = torch.cuda.get_device_properties(0)
    count = set_count(traffic, properties.L2_cache_size)
    sets = [row.tensors(on_gpu(seed)) for seed in range(count)]
    expected_us = traffic / 4e6
    replays: dict[str, Replay] = {name: capture(function, sets, expected_us) for name, function in arms.items()}
    replays |= copies(traffic, count, expected_us)
    times = {
        name: paired(samples) for name, samples in zip(replays, round_robin(list(replays.values()), turns), strict=True)
    }
    return {"sets": count, "clocks": properties.name, **said(with_faster_copy(times), traffic)}


def said(times: dict[str, list[float]], traffic: int) -> dict[str, Any]:
    """Return what the samples of one round robin say; a ratio is the other's time over kgen's, turn by turn."""
    ours = times["kgen"]

    def ratio(name: str) -> list[float]:
        found = interval([other / one for other, one in zip(times[name], ours, strict=True)])
        return [found.median, found.low, found.high]

    twin = ratio("twin")
    return {
        "us": median(ours),
        "us_spread": spread(ours),
        "tb_s": traffic / median(ours) / 1e6,
        "copy_us": median(times["copy"]),
        "copy_tb_s": traffic // 2 * 2 / median(times["copy"]) / 1e6,
        "fraction": ratio("copy"),
        "band": max(1 - twin[1], twin[2] - 1, 0.0),
        "peers": {
            name: {"us": median(times[name]), "ratio": ratio(name)}
            for name in times
            if name not in ("kgen", "twin", "copy")
        },
    }


def _too_fast(found: dict[str, Any], traffic: int) -> list[str]:
    least = traffic / load_device(TARGET).value("quantities.memory_bandwidth") / 1e6
    if found["us"] >= least or found["sets"] * traffic < 2**28:
        return []
    return [f"{found['us']:.1f} us is below the roofline's {least:.1f} us: a measurement error"]


def _compiled(function: Kernel) -> Kernel:
    import torch._inductor.config as config

    torch._dynamo.reset()
    config.autotune_local_cache = False  # what it picks, it measures in this process
    config.compile_threads = 1
    compiled: Kernel = torch.compile(function, mode=MODE, dynamic=False)
    return compiled


def _quack(row: Row) -> Kernel:
    if row.op == "softmax":
        from quack.softmax import softmax_fwd

        return softmax_fwd  # type: ignore[no-any-return]
    from quack.rmsnorm import rmsnorm_fwd

    return lambda x, w: rmsnorm_fwd(x, w, eps=1e-6)[0]


def _loaded(folder: Path, name: str, tensors: Tensors) -> Kernel:
    """Import a package's kernel under a name of its own, and compile it by a run."""
    kernel: Kernel = load_script(folder / "kernel.py", name.replace(".", "_")).kernel
    kernel(*tensors)
    return kernel


def _free() -> None:
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
