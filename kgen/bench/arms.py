"""The arms of a comparison inside the measuring process: loaded, called, compared, captured, their machine code kept.

Each load of an arm is a module of its own, with its own state; nothing is shared between two arms, nor between two
cases, for each case has a process of its own. Imported in the measuring process only: it needs torch and a GPU.
"""

import importlib
import inspect
import json
import math
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from kgen.bench.timing import Function, Loop, Replay, Tensors, call_us, capture, loop
from kgen.check.compile_runner import load

SCALES = tuple(4.0**-power for power in range(13))  # of the operands, the first that the incumbent can represent
# Libraries of these packages hold no kernel of an incumbent, and some are a gigabyte of them.
_NOT_AN_INCUMBENT = ("torch", "nvidia", "nvidia_cutlass_dsl", "tvm_ffi", "triton", "numpy", "functorch")


@dataclass(frozen=True, slots=True)
class Arm:
    """A callable of the measurement, and the extension libraries that appeared while it was loaded."""

    name: str
    function: Function
    libraries: tuple[Path, ...]


def load_arm(name: str, request: Mapping[str, Any], seed: int, device: str) -> Arm:
    """Import an arm under a module name of its own; of a module class, construct it with the seed's parameters."""
    before = _loaded_libraries()
    file, module_name = request["file"], request["module"]
    module = load(file, f"kgen_bench_{name}") if file else importlib.import_module(module_name)
    entry = getattr(module, request["entry"])
    if inspect.isclass(entry):
        torch.manual_seed(seed)  # the same draws give the same parameters in every arm
        entry = entry(*request["init_args"], **(request["init_kwargs"] or {}))
        if isinstance(entry, torch.nn.Module):
            entry = entry.to(device)
    return Arm(name, entry, tuple(sorted(_loaded_libraries() - before)))


def _loaded_libraries() -> frozenset[Path]:
    """Return the extension libraries of this process: of Python modules, and those that only register torch ops."""
    files = [Path(file) for m in list(sys.modules.values()) if (file := getattr(m, "__file__", None))]
    files += [Path(file) for file in torch.ops.loaded_libraries]
    return frozenset(file for file in files if file.suffix == ".so" and not set(_NOT_AN_INCUMBENT) & set(file.parts))


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Return the tensors of a result, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, tuple | list) else ()
    return [tensor for part in parts for tensor in tensors_in(part)]


def scaled(tensors: Tensors, scale: float) -> Tensors:
    """Return the operands with every float multiplied by a power of two; strides stay as they are."""
    if scale != 1.0:
        for tensor in tensors:
            if tensor.is_floating_point():
                tensor.mul_(scale)
    return tensors


def representable_scale(function: Function, draw: Callable[[], Tensors]) -> float:
    """Return the largest scale of the operands at which the function's output is finite and does not saturate."""
    for scale in SCALES:
        outputs = tensors_in(function(*scaled(draw(), scale)))
        if all(_is_representable(out) for out in outputs):
            return scale
    raise ValueError(
        f"the incumbent's output is not finite, or saturates, on operands down to {SCALES[-1]:.1e} in size"
    )


def _is_representable(out: torch.Tensor) -> bool:
    if not out.is_floating_point() or not out.numel():
        return True
    largest = out.double().abs().max().item()
    return math.isfinite(largest) and (out.element_size() > 1 or largest < torch.finfo(out.dtype).max)


def agreement(first: Any, second: Any, limit: float) -> dict[str, Any]:
    """Return how the first arm's outputs differ from the second's: ||x - y|| / ||y|| in float64, and what is wrong."""
    ours, theirs = tensors_in(first), tensors_in(second)
    failures = []
    if len(ours) != len(theirs):
        return {"rel_err": None, "failures": [f"{len(ours)} outputs, the incumbent has {len(theirs)}"]}
    worst = 0.0
    for place, (x, y) in enumerate(zip(ours, theirs, strict=True)):
        if x.shape != y.shape or x.dtype != y.dtype:
            failures.append(f"output {place} is {_kind(x)}, the incumbent's {_kind(y)}")
            continue
        rel_err = _rel_err(x, y)
        if not rel_err <= limit:
            failures.append(f"output {place} differs from the incumbent's by {rel_err:.3g}, the limit is {limit:g}")
        worst = max(worst, rel_err) if not math.isnan(rel_err) else math.nan
    return {"rel_err": worst if math.isfinite(worst) else None, "failures": failures}


def _kind(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def _rel_err(x: torch.Tensor, y: torch.Tensor) -> float:
    if not y.is_floating_point():
        return float((x != y).any())
    difference, norm = (x.double() - y.double()).norm().item(), y.double().norm().item()
    return difference / norm if norm else (math.inf if difference else 0.0)


def captured(arm: Arm, sets: Sequence[Tensors]) -> Replay | Loop:
    """Return the arm's calls as a graph, or as a loop where no graph can hold them."""
    expected_us = call_us(arm.function, sets)
    with suppress(RuntimeError):
        replay = capture(arm.function, sets, expected_us)
        _require_recomputed(arm, replay, sets)
        return replay
    torch.cuda.synchronize()
    return loop(arm.function, sets, expected_us)


def _require_recomputed(arm: Arm, replay: Replay, sets: Sequence[Tensors]) -> None:
    """Raise unless a replay computes the results: a launch on another stream would not be part of the graph.

    Of an arm that updates its operands, every call has another result: it has to be written, whatever it is.
    """
    before = [tensor.clone() for tensor in sets[0]]
    expected = [tensor.clone() for tensor in tensors_in(arm.function(*sets[0]))]
    updates = not all(map(torch.equal, sets[0], before))
    results = tensors_in(replay.results[0])
    for tensor in results:
        tensor.zero_()
    replay.graph.replay()
    torch.cuda.synchronize()
    for found, wanted in zip(results, expected, strict=True):
        if not found.any() if updates else _rel_err(found, wanted) > 1e-2:
            raise RuntimeError(f"the graph of {arm.name} does not compute its result")


def launches_of(function: Function, tensors: Tensors) -> list[dict[str, Any]] | None:
    """Return the kernel launches of one call with their grids, or None where the driver's tracing shows none."""
    from torch.profiler import ProfilerActivity, profile

    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        try:
            with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
                function(*tensors)
                torch.cuda.synchronize()
            profiler.export_chrome_trace(str(trace))
            return _launches(json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]) or None
        except (RuntimeError, OSError, ValueError, KeyError):
            return None


def _launches(events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    kernels = sorted((e for e in events if e.get("cat") == "kernel"), key=lambda event: event["ts"])
    return [
        {
            "kernel": event["name"],
            "grid": event["args"]["grid"],
            "block": event["args"]["block"],
            "registers": event["args"].get("registers per thread"),
            "smem_bytes": event["args"].get("shared memory"),
        }
        for event in kernels
    ]


class CubinFolder:
    """The folder that the DSL drops cubins into: `take` moves what is new there to a place of its own."""

    def __init__(self, dump: Path, out: Path) -> None:
        self._dump, self._out = dump, out

    def take(self, arm: str) -> list[str]:
        """Move the cubins that appeared since the last call to `out/arm`; return their names."""
        place = self._out / arm
        place.mkdir(parents=True, exist_ok=True)
        names = []
        for cubin in sorted(self._dump.rglob("*.cubin")):
            name = f"{len(list(place.iterdir()))}.cubin"
            shutil.move(cubin, place / name)
            names.append(name)
        return names
