"""The process behind problems of `kernelbench.py`: emits them, checks them as KernelBench does, and measures them.

A problem is a file of the suite with Model, get_inputs and get_init_inputs; the harness makes the models from seed 42,
leaves them in train mode, casts every input to float32, and compares with rtol = atol = 1e-4. Inputs are drawn on the
GPU here: some are 17 GB.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

import torch
from compare import tensors_of
from copying import copies, paired, with_faster_copy
from sharding import is_of_the_device, reason_of
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode
from workers import load_script

import kgen
from kgen.bench.statistics import interval, spread
from kgen.bench.timing import Tensors, capture, round_robin, set_count
from kgen.check.cache import default_cache_dir

TARGET = "h200"
SEED, TOLERANCE, PIECE = 42, 1e-4, 2**26
MANY_L2 = 16  # inputs of that many L2 caches leave nothing in it from one call to the next: one set of them is enough
OWN_TYPES = (95,)  # cast to float32, its class indices make the reference itself raise
ALLOCATIONS = ("empty", "empty_like", "empty_strided", "device", "int64", "float32", "bfloat16", "float16", "bool")
CAST = """

def _cast(get):
    return lambda: [x.to(torch.float32) if isinstance(x, torch.Tensor) else x for x in get()]


get_inputs = _cast(get_inputs)  # as the harness does
"""
_CHECKED: dict[str, tuple[torch.nn.Module, torch.nn.Module]] = {}


def number_of(path: str) -> int:
    """Return the number that a problem's file name starts with."""
    return int(Path(path).name.partition("_")[0])


def emit(path: str) -> dict[str, Any]:
    """Emit a problem from its own file and, where the harness casts its inputs, from the file with that cast.

    Of the second the kernel is checked. Returns the bytes of the inputs and results, and the operations of products.
    """
    inputs, results, flops = sizes(path)
    found: dict[str, Any] = {"input_bytes": inputs, "result_bytes": results, "flops": flops}
    found |= {"faults": [], "refused": False}
    file = Path(path)
    try:
        kgen.emit(file, target=TARGET, folder=folder_of(path))
        if is_cast(path):
            file = folder_of(path).parent / "cast" / file.name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(Path(path).read_text(encoding="utf-8") + CAST, encoding="utf-8")
            kgen.emit(file, target=TARGET, folder=folder_of(path))
    except Exception as error:
        return {**found, "faults": [reason_of(error)], "refused": isinstance(error, NotImplementedError)}
    text = (folder_of(path) / "kernel.py").read_text(encoding="utf-8")
    return {**found, "faults": fallbacks(text), "lines": text.count("\n"), "folders": [str(folder_of(path))]}


def folder_of(path: str) -> Path:
    """Return where a problem's package is written."""
    return default_cache_dir() / "kernelbench" / Path(path).stem.strip("_").lower()


def fallbacks(text: str) -> list[str]:
    """Return the operations of torch that a kernel.py computes with: there should be none."""
    used = set(re.findall(r"\btorch\.(\w+)\(", text)) - set(ALLOCATIONS)
    found = sorted(name for name in used if hasattr(torch.ops.aten, name))
    found += ["torch.nn.functional"] if re.search(r"\bF\.\w+\(|nn\.functional", text) else []
    return [f"kernel.py computes with torch: {', '.join(found)}"] if found else []


def module_of(path: str) -> ModuleType:
    """Import a problem's file."""
    return load_script(Path(path), f"problem_{number_of(path)}")


def is_cast(path: str) -> bool:
    """Whether the harness changes the types of the inputs."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        inputs = module_of(path).get_inputs()
    return number_of(path) not in OWN_TYPES and any(
        isinstance(x, torch.Tensor) and x.dtype != torch.float32 for x in inputs
    )


def sizes(path: str) -> tuple[int, int, int]:
    """Return the bytes of the inputs and of the results, and the operations of products, without drawing any."""
    with FakeTensorMode(allow_non_fake_inputs=True), FlopCounterMode(display=False) as counter:
        inputs = drawn(path)
        results = tensors_of(made(module_of(path), path)(*inputs))
    return sum(nbytes(x) for x in inputs), sum(nbytes(x) for x in results), counter.get_total_flops()


def nbytes(value: Any) -> int:
    """Return the bytes of a tensor; of a number, none."""
    return value.nbytes if isinstance(value, torch.Tensor) else 0


def drawn(path: str) -> list[Any]:
    """Return the inputs as the harness hands them over, on the current default device."""
    inputs = module_of(path).get_inputs()
    if number_of(path) in OWN_TYPES:
        return list(inputs)
    return [x.to(torch.float32) if isinstance(x, torch.Tensor) else x for x in inputs]


def seeded(seed: int) -> None:
    """Seed the CPU and the GPU."""
    torch.manual_seed(seed)
    if torch.cuda.is_available():
        torch.cuda.manual_seed(seed)


def made(module: ModuleType, path: str) -> torch.nn.Module:
    """Return a Model, in train mode, with the parameters that seed 42 gives it."""
    seeded(SEED)
    init_inputs = module_of(path).get_init_inputs()
    seeded(SEED)
    model: torch.nn.Module = module.Model(*init_inputs)
    return model


@contextmanager
def on_gpu() -> Iterator[None]:
    """Draw on the GPU, and record no gradients."""
    with torch.no_grad(), torch.device("cuda"):
        yield


def warm(path: str) -> dict[str, Any]:
    """Let torch.compile fill its caches; run by another process than the one that measures."""
    with on_gpu():
        inputs = drawn(path)
    with torch.no_grad():
        _compiled(made(module_of(path), path).to("cuda"))(*inputs)
    del inputs
    _free()
    return {}


def check(path: str) -> dict[str, Any]:
    """Compare the emitted Model with the reference on one trial; both stay for `measure`."""
    try:
        return _check(path)
    except Exception as error:
        if is_of_the_device(error):
            raise
        return {"faults": [reason_of(error)]}
    finally:
        _free()


def _check(path: str) -> dict[str, Any]:
    emitted = load_script(folder_of(path) / "kernel.py", f"kernel_{number_of(path)}")
    original, new = (made(module, path).to("cuda") for module in (module_of(path), emitted))
    torch.manual_seed(SEED)
    seed = int(torch.randint(0, 2**32 - 1, (1,)).item())
    with on_gpu():
        seeded(seed)
        inputs = drawn(path)
    with torch.no_grad():
        want, got = original(*inputs), new(*inputs)
    torch.cuda.synchronize()
    faults = differences(got, want)
    faults += [f"buffer {name}: {fault}" for name, fault in changed_states(new, original)]
    _CHECKED[path] = original, new
    return {"faults": faults}


def differences(got: torch.Tensor, want: torch.Tensor) -> list[str]:
    """Return how a result differs from the reference's, by the harness's measure, piece by piece."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return [f"{got.dtype}{list(got.shape)}, expected {want.dtype}{list(want.shape)}"]
    pieces = zip(got.reshape(-1).split(PIECE), want.reshape(-1).split(PIECE), strict=True)
    for number, (one, other) in enumerate(pieces):
        if not torch.allclose(other, one, rtol=TOLERANCE, atol=TOLERANCE):
            worst = (one.double() - other.double()).abs().max().item()
            return [f"differs by {worst:.2e} in piece {number}"]
    return []


def changed_states(new: torch.nn.Module, original: torch.nn.Module) -> list[tuple[str, str]]:
    """Return the buffers that a train-mode call left otherwise than the reference did."""
    mine = dict(new.named_buffers())
    pairs = [(name, buffer, mine[name]) for name, buffer in original.named_buffers() if name in mine]
    return [(name, fault) for name, theirs, ours in pairs for fault in differences(ours, theirs)]


def measure(path: str, turns: int, peer: str) -> dict[str, Any]:
    """Time the emitted Model, itself again, torch and a copy of as many bytes in one round robin.

    `peer` is `eager` or `torch.compile`.
    """
    original, new = _CHECKED.pop(path)
    with torch.no_grad():
        found = _timed(path, original if peer == "eager" else _compiled(original), new, turns)
    _free()
    return {**found, "faults": []}


def _timed(path: str, peer: Callable[..., Any], new: torch.nn.Module, turns: int) -> dict[str, Any]:
    with on_gpu():
        first = drawn(path)
    traffic = sum(map(nbytes, (*first, *tensors_of(peer(*first)))))
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    count = 1 if traffic >= MANY_L2 * l2 else set_count(traffic, l2)
    sets: list[Tensors] = [tuple(first)]
    with on_gpu():
        sets += [tuple(drawn(path)) for _ in range(count - 1)]
    _free()
    functions: dict[str, Callable[..., Any]] = {"kgen": new, "twin": new, "peer": peer}
    replays = {name: capture(function, sets, traffic / 4e6) for name, function in functions.items()}
    replays |= copies(traffic, count, traffic / 4e6)
    samples = round_robin(list(replays.values()), turns)
    times = {name: paired(one) for name, one in zip(replays, samples, strict=True)}
    return {"bytes": traffic, **said(with_faster_copy(times), traffic)}


def said(times: dict[str, list[float]], traffic: int) -> dict[str, Any]:
    """Return what the samples say; a ratio is the other's time over kgen's, turn by turn."""
    ours = times["kgen"]
    found = {}
    for name in ("twin", "peer", "copy"):
        ratio = interval([other / one for other, one in zip(times[name], ours, strict=True)])
        found[name] = [ratio.median, ratio.low, ratio.high]
    return {
        "us": median(ours),
        "us_spread": spread(ours),
        "tb_s": traffic / median(ours) / 1e6,
        "peer_us": median(times["peer"]),
        "copy_us": median(times["copy"]),
        "ratio": found["peer"],
        "fraction": found["copy"],
        "band": max(1 - found["twin"][1], found["twin"][2] - 1, 0.0),
    }


def _compiled(model: torch.nn.Module) -> Callable[..., Any]:
    import torch._inductor.config as config

    torch._dynamo.reset()
    config.autotune_local_cache = False  # what it picks, it measures in this process
    config.compile_threads = 1
    compiled: Callable[..., Any] = torch.compile(model, dynamic=False)
    return compiled


def _free() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
