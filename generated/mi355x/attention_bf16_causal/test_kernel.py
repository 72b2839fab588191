"""Test kernel.py against reference.py, and time it.

attention_bf16_causal

    python test_kernel.py                  every case of shapes.json
    python test_kernel.py --shape-id ID    one case; may be repeated

Each case runs in a process of its own, which is killed at its time limit (TEST_TIMEOUT_SEC, 30 s by default). The last
line printed is `[test_kernel] RESULT_JSON={...}`. Exit status: 0 all passed, 1 something failed, 4 no CUDA device here.
A time that the device cannot reach is a `measurement_error`: it is left out of the means, and fails nothing.
"""

import argparse
import fcntl
import hashlib
import json
import math
import multiprocessing
import os
import signal
import statistics
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import distributions
from pathlib import Path

import torch
from torch.overrides import TorchFunctionMode

REL_ERR = {  # limit on ||out - ref|| / ||ref||, in float64, by element type; results of other types must be equal
    torch.bfloat16: 0.01,
}
ELEMENT_FACTOR = 10  # limit on |out - ref| / (|ref| + rms(ref)) of an element: 10 x REL_ERR
UPDATED = ()  # inputs that the reference updates in place
OFFSETS = (0, 1)  # of the tensors' first elements from an aligned address: any base is accepted
HIDDEN = ("v",)  # a mask hides values of these: 0 * Inf is NaN where they are multiplied, and kernels skip them
REFUSED_OFFSETS = ()
REFUSALS = (TypeError, ValueError, NotImplementedError)  # what kernel.py raises outside of what it accepts
SM_COUNT = 256  # of the AMD Instinct MI355X; on a device with another count the roofline is not checked
PEAK_FLOPS = 2.517e15  # bf16 products, dense [derived]
PEAK_BYTES = 8e12  # per second; device memory [atrex_utilization]
WORK = {  # of each case: operations, bytes read and bytes written by a kernel that touches everything once
    "default": (8598323200, 12582912, 8388608),
}
POISONS = (0xFF, 0x7F)  # bytes that fill what the kernel allocates: NaN in floats, then numbers out of any range
LEAST_BAND, MOST_BAND = 2**12, 2**24  # bytes of the guard band on each side of what the kernel allocates
L2_PASSES = 3  # timed calls go round sets of inputs and outputs that are so many times as large as the L2 cache
MOST_SETS, MOST_CALLS = 1024, 4096  # of one CUDA graph: below 180 KB a call, part of an L2 cache of 60 MB stays warm
REPLAY_US = 2500.0  # that one replay takes, at least: events resolve 0.5 us
START_LIMIT_S = 120  # for a process to find the device
TURN_LIMIT_S = 600  # for others on the GPU to let go of it, where --gpu-lock is given
NO_DEVICE = "no CUDA device here: the kernel was not run"
COMPILERS = ("nvidia-cutlass-dsl", "apache-tvm-ffi", "flydsl")  # distributions whose versions are reported


class OutOfTimeError(BaseException):
    """Raised by SIGALRM; no `except Exception` on its way holds it up."""


@dataclass
class Result:
    """What is known of one case: None where it was not computed; the errors are the largest of all calls."""

    id: str
    status: str = "FAIL"
    failures: list = field(default_factory=list)
    rel_err: float | None = None  # ||out - ref|| / ||ref||
    max_abs_err: float | None = None  # |out - ref| of one element
    max_rel_err: float | None = None  # |out - ref| / (|ref| + rms(ref)) of one element
    latency_us: float | None = None  # median of the replays; the next two are percentiles
    latency_us_p10: float | None = None
    latency_us_p90: float | None = None
    ref_latency_us: float | None = None
    tflops: float | None = None
    bandwidth_gbps: float | None = None
    speedup_vs_ref: float | None = None
    sets: int | None = None  # of inputs and outputs that the timed calls go round
    l2_passes: float | None = None  # bytes of all sets over those of the L2 cache: below 1 the calls find it warm
    measurement_error: str | None = None  # why the time is no speed
    not_measured: str | None = None  # why there is no time


def load(workspace, init_kwargs, seed, device):
    """Return the callable under test and its reference."""
    sys.path.insert(0, str(workspace))
    import kernel
    import reference

    return kernel.kernel, reference.reference


def structure(value):
    """Return containers, dtypes and shapes of a result as text."""
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, dict):
        return f"dict({', '.join(f'{name}: {structure(v)}' for name, v in value.items())})"
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__}({', '.join(structure(v) for v in value)})"
    return repr(value)


def tensors_in(value):
    """Return the tensors of a result, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else ()
    return [tensor for part in parts for tensor in tensors_in(part)]


def present(values):
    """Return the values that are not None."""
    return [value for value in values if value is not None]


def largest(values):
    """Return the largest value that is not None, or None."""
    return max(present(values), default=None)


def compare(out, ref, limits, result):
    """Return how an output differs from the reference's; keep the largest errors in `result`."""
    if structure(out) != structure(ref):
        return [f"returns {structure(out)}, the reference {structure(ref)}"]
    problems = []
    for i, (x, y) in enumerate(zip(tensors_in(out), tensors_in(ref), strict=True)):
        problems += [f"output {i}: {problem}" for problem in compare_tensors(x, y, limits, result)]
    return problems


def compare_tensors(x, y, limits, result):
    """Return how a tensor differs from the reference's."""
    if not y.is_floating_point():
        wrong = int((x != y).sum())
        result.rel_err = largest([result.rel_err, math.inf if wrong else 0.0])
        return [f"{wrong} of {y.numel()} elements differ"] if wrong else []
    rtol = REL_ERR[y.dtype] if limits.rtol is None else limits.rtol
    element_err = ELEMENT_FACTOR * REL_ERR[y.dtype]
    x, y = x.double(), y.double()
    for kind, places in (("NaN", torch.isnan), ("+Inf", torch.isposinf), ("-Inf", torch.isneginf)):
        if not torch.equal(places(x), places(y)):
            return [f"{kind} in {int(places(x).sum())} places, the reference in {int(places(y).sum())}: not the same"]
    finite = torch.isfinite(y)
    x, y = torch.where(finite, x, 0.0), torch.where(finite, y, 0.0)
    error, norm = (x - y).abs(), y.norm()
    rms = norm / max(y.numel(), 1) ** 0.5
    rel_err = float(error.norm() / norm) if norm > 0 else math.inf if error.any() else 0.0
    max_abs_err = float(error.max()) if error.numel() else 0.0
    # where the reference is 0, so must the output be
    max_rel_err = float((error / (y.abs() + rms)).nan_to_num(0.0, math.inf).max()) if error.numel() else 0.0
    result.rel_err = largest([result.rel_err, rel_err])
    result.max_abs_err = largest([result.max_abs_err, max_abs_err])
    result.max_rel_err = largest([result.max_rel_err, max_rel_err])
    problems = []
    if rel_err > rtol:
        problems.append(f"rel_err {rel_err:.3g} is above {rtol:g}")
    elif max_rel_err > element_err:
        problems.append(f"one element is off by {max_rel_err:.3g} of |ref| + rms(ref), the limit is {element_err:g}")
    if limits.atol is not None and max_abs_err > limits.atol:
        problems.append(f"max_abs_err {max_abs_err:.3g} is above {limits.atol:g}")
    return problems


class GuardBands(TorchFunctionMode):
    """Puts what the kernel allocates between two bands of memory, and fills all of it with one byte.

    A band is one step along the tensor's slowest axis, such as a row. What the kernel sees has storage of its own.
    """

    def __init__(self, poison):
        super().__init__()
        self.poison, self.guarded = poison, []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        kind = func.__name__.removeprefix("new_").partition("_")[0]  # of e.g. new_empty_strided
        return self.guard(made, kind == "empty") if kind in ("empty", "full", "ones", "zeros") else made

    def guard(self, made, is_empty):
        """Return a tensor like the one made, between guard bands."""
        band = min(max(max(made.stride(), default=1) * made.itemsize, LEAST_BAND), MOST_BAND)
        band = -(-band // 256) * 256  # whole 256 bytes keep the address aligned
        count = 1 + sum((n - 1) * s for n, s in zip(made.shape, made.stride(), strict=True)) if made.numel() else 0
        end = band + count * made.itemsize
        memory = torch.full((end + band,), self.poison, dtype=torch.uint8, device=made.device)
        storage = memory.untyped_storage()[band:end]  # shares the memory
        tensor = made.new_empty(0).set_(storage, 0, made.shape, made.stride())
        self.guarded.append((tensor, memory[:band], memory[end:]))
        return tensor if is_empty else tensor.copy_(made)

    def damage(self, outputs):
        """Return which guard bands were written to."""
        names = {x.untyped_storage().data_ptr(): f"output {i}" for i, x in enumerate(outputs)}
        problems = []
        for tensor, before, after in self.guarded:
            name = names.get(tensor.untyped_storage().data_ptr(), f"workspace {structure(tensor)}")
            for side, band in (("before its first", before), ("after its last", after)):
                if (band != self.poison).any():
                    problems.append(f"{name}: memory {side} element was written to")
        return problems


def call_guarded(function, inputs, poison):
    """Call where every allocation is poisoned and guarded; return the output and which guard bands were written to."""
    with GuardBands(poison) as bands:
        out = function(*inputs.values())
    if torch.cuda.is_available():
        torch.cuda.synchronize()  # a fault of the kernel shows here, not in a later call
    return out, bands.damage(tensors_in(out))


def unwritten(outs):
    """Return which elements of the outputs of several calls hold the poison that each call found in its memory."""
    if len({structure(out) for out in outs}) > 1:
        return []
    problems = []
    for i, calls in enumerate(zip(*map(tensors_in, outs), strict=True)):
        elements = [x.contiguous().reshape(-1, 1).view(torch.uint8) for x in calls]
        left = [(x == poison).all(1) for x, poison in zip(elements, POISONS, strict=True)]
        if count := int(torch.stack(left).all(0).sum()):
            problems.append(f"output {i}: {count} of {calls[0].numel()} elements were never written")
    return problems


def memory_of(tensor):
    """Return all the memory behind a tensor as bytes, guard bands and padding included."""
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())


def expect(reference, inputs):
    """Return the reference's result and the inputs, of which it updated those of UPDATED."""
    return reference(*inputs.values()), inputs


def compare_call(out, inputs, expected, limits, result):
    """Return how a call's result and the inputs that it updated differ from the reference's."""
    ref, ref_inputs = expected
    problems = compare(out, ref, limits, result)
    for name in UPDATED:
        found = compare_tensors(inputs[name], ref_inputs[name], limits, result)
        problems += [f"input {name}, updated in place: {problem}" for problem in found]
    return problems


def updated_memory(inputs):
    """Return the addresses of the inputs that are updated in place: a result may be one of them."""
    return {inputs[name].untyped_storage().data_ptr() for name in UPDATED}


def check_call(function, inputs, expected, limits, result):
    """Call the kernel once for each poison; return what is wrong with outputs, inputs afterwards, and memory."""
    before = {name: memory_of(x).clone() for name, x in inputs.items()}
    given = {name: inputs[name].clone() for name in UPDATED}
    outs, damages, differences = [], [], []
    for poison in POISONS:
        out, damage = call_guarded(function, inputs, poison)
        differences += compare_call(out, inputs, expected, limits, result)
        for name, x in given.items():
            inputs[name].copy_(x)  # what else was written to stays as it is
        outs.append(out)
        damages += damage
    problems = damages + unwritten(outs) + differences
    for name, x in inputs.items():
        if not torch.equal(memory_of(x), before[name]):
            problems.append(f"input {name} was written to{' outside of its elements' if name in UPDATED else ''}")
    places = {x.untyped_storage().data_ptr(): "the output of another call" for x in tensors_in(outs[1]) if x.numel()}
    places |= {x.untyped_storage().data_ptr(): f"input {name}" for name, x in inputs.items() if x.numel()}
    for i, x in enumerate(tensors_in(outs[0])):
        place = x.untyped_storage().data_ptr()
        if x.numel() and place not in updated_memory(inputs) and (other := places.get(place)):
            problems.append(f"output {i} shares the memory of {other}")
    return list(dict.fromkeys(problems))  # both calls often say the same


def has_infinity(dtype):
    """Return whether a float type has infinities; fp8_e4m3 has none: what +Inf becomes there depends on the torch."""
    return bool(torch.tensor(math.inf).to(dtype).double().isinf())


def plant_special_values(inputs):
    """Put NaN into the first element of each float tensor of several, and +Inf, or else NaN, into the last."""
    for name, x in inputs.items():
        if x.is_floating_point() and x.numel() > 1 and name not in HIDDEN:
            x[(0,) * x.ndim].fill_(math.nan)
            x[(-1,) * x.ndim].fill_(math.inf if has_infinity(x.dtype) else math.nan)
    return inputs


def with_free_strides(inputs):
    """Return the inputs with other strides along axes of one element, where no stride is ever used."""
    strides = {name: [s + 7 * (n == 1) for n, s in zip(x.shape, x.stride(), strict=True)] for name, x in inputs.items()}
    return {name: x.as_strided(x.shape, strides[name]) for name, x in inputs.items()}


def padded(x):
    """Return a copy whose slowest axis has a stride one larger, or None where that is no other layout."""
    axes = [axis for axis, extent in enumerate(x.shape) if extent > 1]
    if not axes or 0 in x.stride():
        return None
    slowest = max(axes, key=x.stride)
    strides = [stride + (axis == slowest) for axis, stride in enumerate(x.stride())]
    return torch.empty_strided(x.shape, strides, dtype=x.dtype, device=x.device).copy_(x)


def outside(inputs, accepted):
    """Yield inputs just outside of what the kernel accepts, each with what is wrong with it."""
    for name, x in inputs.items():
        other = torch.float32 if x.dtype == torch.float64 else torch.float64
        yield f"{name} of dtype {other}", {**inputs, name: x.to(other)}
        yield f"{name} with an axis more", {**inputs, name: x[None]}
        if x.ndim:
            wider = {**inputs, name: x.new_zeros((*x.shape[:-1], x.shape[-1] + 1))}
            if tuple(tuple(y.shape) for y in wider.values()) not in accepted:
                yield f"{name} of shape {list(wider[name].shape)}", wider
        if not all(y.numel() for y in inputs.values()):
            continue  # nothing is multiplied: where the elements lie has no meaning
        if x.is_cuda:
            yield f"{name} on the CPU", {**inputs, name: x.cpu()}
        if x.ndim > 1 and min(x.shape[-2:]) > 1:
            turned = x.contiguous() if x.stride(-1) != 1 else x.mT.contiguous().mT
            yield f"{name} of strides {list(turned.stride())}", {**inputs, name: turned}
        if (loose := padded(x)) is not None:
            yield f"{name} of strides {list(loose.stride())}", {**inputs, name: loose}


def check_refusals(function, wrong):
    """Return which of the wrong inputs the kernel did not refuse."""
    problems = []
    for what, inputs in wrong:
        try:
            function(*inputs.values())
            problems.append(f"accepts {what}")
        except REFUSALS as error:
            if not str(error):
                problems.append(f"refuses {what} without a message")
        except Exception as error:
            problems.append(f"fails on {what} instead of refusing it: {type(error).__name__}: {error}")
    return problems


def capture(function, sets, rounds):
    """Return a CUDA graph of calls that go round the sets, and the last output of each set: held, each has its own."""
    graph, outs = torch.cuda.CUDAGraph(), [None] * len(sets)
    with torch.cuda.graph(graph):
        for _ in range(rounds):
            for i, inputs in enumerate(sets):
                outs[i] = function(*inputs.values())
    return graph, outs


def replay(graph):
    """Replay a graph and return the events around it."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    graph.replay()
    end.record()
    return start, end


def elapsed_us(spans):
    """Return the time between the events of each pair, in microseconds."""
    torch.cuda.synchronize()
    return [start.elapsed_time(end) * 1e3 for start, end in spans]


def long_capture(function, sets):
    """Return a graph that takes REPLAY_US or more, its outputs, and the number of its calls."""
    function(*sets[0].values())  # compiles, and makes what is made once
    graph, outs = capture(function, sets, 1)
    _, once = elapsed_us([replay(graph) for _ in range(2)])
    rounds = max(1, min(math.ceil(REPLAY_US / max(once, 1.0)), MOST_CALLS // len(sets)))
    return *(capture(function, sets, rounds) if rounds > 1 else (graph, outs)), rounds * len(sets)


def check_replay(captured, reference, sets, drawn, arguments, result):
    """Replay with other inputs on poisoned outputs; return what is wrong: a launch may have missed the capture."""
    graph, outs = captured
    for inputs in (sets[0], sets[-1]):
        for name, x in inputs.items():
            memory_of(x).copy_(memory_of(drawn[name]))
    updated = {place for inputs in sets for place in updated_memory(inputs)}
    for x in tensors_in(outs):
        if x.untyped_storage().data_ptr() not in updated:
            memory_of(x).fill_(POISONS[0])
    replay(graph)
    expected = expect(reference, drawn)
    return [p for i in (0, -1) for p in compare_call(outs[i], sets[i], expected, arguments, result)]


def times_us(captured, warmup, runs, limit_s):
    """Return the times of one call in each graph, sorted; the graphs alternate, A B B A, to meet the same clocks."""
    once = sum(elapsed_us([replay(graph) for graph, _, _ in captured]))
    most = max(3, int(limit_s * 1e6 / once))  # a slow kernel is replayed less often than was asked for
    warmup, runs = min(warmup, most), max(1, min(runs, most))
    spans = [[] for _ in captured]
    for turn in range(warmup + runs):
        for i in range(len(captured))[:: -1 if turn % 2 else 1]:
            spans[i].append(replay(captured[i][0]))
    counts = [calls for _, _, calls in captured]
    return [sorted(us / n for us in elapsed_us(of[warmup:])) for of, n in zip(spans, counts, strict=True)]


def measure(function, reference, make, arguments, result):
    """Time the kernel and the reference in turn; no speed is reported that the device cannot reach."""
    flops, bytes_read, bytes_written = WORK[result.id]
    if not bytes_written:
        result.not_measured = "not measured: the output has no elements"
        return
    device = torch.cuda.get_device_properties(torch.cuda.current_device())
    moved = bytes_read + bytes_written
    result.sets = min(max(2, -(-L2_PASSES * device.L2_cache_size // moved)), MOST_SETS)
    result.l2_passes = result.sets * moved / device.L2_cache_size
    sets = [make(arguments.seed + i) for i in range(result.sets)]
    captured = [long_capture(function, sets)]
    # with a call of each set alone, inputs that are updated in place are updated once
    checked = capture(function, sets, 1) if UPDATED else captured[0][:2]
    drawn = make(arguments.seed + result.sets - 1)
    if problems := check_replay(checked, reference, sets, drawn, arguments, result):
        result.failures += [f"{result.id}, replayed in a CUDA graph: {problem}" for problem in dict.fromkeys(problems)]
        return
    with suppress(RuntimeError):  # not every reference can be captured
        captured.append(long_capture(reference, sets))
    take_turn(arguments, fcntl.LOCK_EX)
    times, *ref_times = times_us(captured, arguments.warmup, arguments.timed_runs, arguments.limit_s / 4)
    take_turn(arguments, fcntl.LOCK_SH)
    latency = statistics.median(times)
    least = max(flops / PEAK_FLOPS, bytes_read / PEAK_BYTES) * 1e6  # written bytes may stay in L2
    if device.multi_processor_count == SM_COUNT and latency < least:
        result.measurement_error = f"{latency:.3g} us is above the roofline: the device needs {least:.3g} us"
        return
    result.latency_us = latency
    result.latency_us_p10, result.latency_us_p90 = times[len(times) // 10], times[len(times) * 9 // 10]
    result.tflops = flops / latency * 1e-6 if flops else None
    result.bandwidth_gbps = moved / latency * 1e-3
    if ref_times:
        result.ref_latency_us = statistics.median(ref_times[0])
        result.speedup_vs_ref = result.ref_latency_us / latency


def calls_to_check(make, arguments):
    """Yield what is special about a call, the inputs of the reference, and those of the kernel."""
    first = arguments.seed
    for seed in (*range(first, first + max(1, arguments.multi_seed)), arguments.fresh_seed):
        for offset in OFFSETS:
            yield f"seed {seed}, offset {offset}", make(seed), make(seed, offset)
    for offset in OFFSETS:
        planted = [plant_special_values(make(first, o)) for o in (0, offset)]
        yield f"with NaN and Inf in the inputs, offset {offset}", *planted
    if any(1 in x.shape for x in make(first).values()):
        yield "with other strides along axes of one element", make(first), with_free_strides(make(first))


def check_case(case, cases, arguments, device, result):
    """Check and time one case, filling `result`."""
    function, reference = load(arguments.workspace, cases[case]["init_kwargs"], arguments.seed, device)
    from input import _layouts, _make_inputs

    def make(seed, offset=0):
        return _make_inputs(**cases[case]["input_kwargs"], seed=seed, offset=offset, device=device)

    for what, ref_inputs, inputs in calls_to_check(make, arguments):
        problems = check_call(function, inputs, expect(reference, ref_inputs), arguments, result)
        result.failures += [f"{case}, {what}: {problem}" for problem in problems]
    layouts = [_layouts(**other["input_kwargs"]) for other in cases.values()]
    accepted = {tuple(shape for _, shape, _ in layout.values()) for layout in layouts}
    wrong = list(outside(make(arguments.seed), accepted))
    wrong += [(f"a base {offset} off an aligned address", make(arguments.seed, offset)) for offset in REFUSED_OFFSETS]
    result.failures += [f"{case}: {problem}" for problem in check_refusals(function, wrong)]
    if device == "cuda" and not result.failures:
        measure(function, reference, make, arguments, result)
    result.status = "FAIL" if result.failures else "PASS"


def facts_of(device):
    """Return what torch says of the device, or None where there is none."""
    if device == "cuda" and not torch.cuda.is_available():
        return None
    if device != "cuda":
        return {"name": device, "compute_units": None}
    found = torch.cuda.get_device_properties(torch.cuda.current_device())
    names = {"compute_units": "multi_processor_count", "memory_bytes": "total_memory", "l2_bytes": "L2_cache_size"}
    return {"name": found.name, **{key: getattr(found, name) for key, name in names.items()}}


def opened(path):
    """Open a file to lock it; another user's allows to be read alone."""
    try:
        return os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)


def take_turn(arguments, how):
    """Wait for the GPU among those who lock the same file: shared to work, exclusive to time. The alarm waits, too."""
    if arguments.gpu_lock is not None:
        left_s = signal.alarm(0)
        fcntl.flock(arguments.gpu_lock, how)
        signal.alarm(left_s)


def run_in_child(case, cases, arguments, device, connection):
    """Send facts of the device, then the result of one case; a SIGALRM ends Python code that takes too long."""

    def on_alarm(number, frame):
        raise OutOfTimeError(f"{case}: not done after {arguments.limit_s} s")

    # TF32 or sums in bf16 would make the reference less exact than the kernel
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.set_grad_enabled(False)
    result = Result(case)
    signal.signal(signal.SIGALRM, on_alarm)
    facts = facts_of(device)
    connection.send(facts)
    if facts is None:
        return
    signal.alarm(arguments.limit_s)
    try:
        if arguments.gpu_lock is not None:
            arguments.gpu_lock = opened(arguments.gpu_lock)
        take_turn(arguments, fcntl.LOCK_SH)
        check_case(case, cases, arguments, device, result)
    except OutOfTimeError as error:
        result = Result(case, "TIMEOUT_FAIL", [*result.failures, str(error)])
    except Exception as error:
        result = Result(case, failures=[*result.failures, f"{case}: {type(error).__name__}: {error}"])
    signal.alarm(0)
    connection.send(result)


def run_case(case, cases, arguments, device):
    """Return facts of the device and the result of one case, from a process of its own; no facts: no device.

    It is killed when a blocked driver call keeps the alarm from ending it.
    """
    context = multiprocessing.get_context("fork")  # torch is imported once; this process itself never uses the device
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=run_in_child, args=(case, cases, arguments, device, sender), daemon=True)
    child.start()
    sender.close()
    facts = None
    try:
        if not receiver.poll(START_LIMIT_S):
            return facts, Result(case, "TIMEOUT_FAIL", [f"{case}: the device was not there after {START_LIMIT_S} s"])
        facts = receiver.recv()
        if facts is None:
            return facts, Result(case, failures=[NO_DEVICE])
        waits_s = 0 if arguments.gpu_lock is None else TURN_LIMIT_S
        if not receiver.poll(arguments.limit_s + 1 + waits_s):  # the alarm comes first where it can
            waited = f" and waiting for the GPU, {waits_s} s at most" if waits_s else ""
            return facts, Result(case, "TIMEOUT_FAIL", [f"{case}: killed after {arguments.limit_s} s{waited}"])
        return facts, receiver.recv()
    except EOFError:
        child.join()
        return facts, Result(case, failures=[f"{case}: the process ended with exit code {child.exitcode}"])
    finally:
        child.kill()
        child.join(5)


def geometric_mean(values):
    """Return the geometric mean of the values that are not None, or None when there are none."""
    return statistics.geometric_mean(present(values)) if present(values) else None


def summary(results, failures, arguments, device):
    """Return what RESULT_JSON holds; means are over the cases that have work, null where one of them has no time."""
    kernel = arguments.workspace / "kernel.py"
    installed = {d.name: d.version for d in distributions()}
    timed = [r for r in results if r.not_measured is None]
    if any(r.latency_us is None for r in timed):
        timed = []
    latencies = [r.latency_us for r in timed]
    return {
        "version": arguments.version,
        "all_pass": bool(results) and not failures and all(r.status == "PASS" for r in results),
        "failures": failures,
        "measured": len(present(r.latency_us for r in results)),
        "latency_us_geomean": geometric_mean(latencies),
        "latency_us_arith_mean": statistics.fmean(latencies) if latencies else None,
        "latency_us_by_shape": {r.id: r.latency_us for r in results},
        "speedup_vs_ref_geomean": geometric_mean([r.speedup_vs_ref for r in timed]),
        "rel_err": largest([r.rel_err for r in results]),
        "max_abs_err": largest([r.max_abs_err for r in results]),
        "max_rel_err": largest([r.max_rel_err for r in results]),
        "tflops": geometric_mean([r.tflops for r in timed]),
        "bandwidth_gbps": geometric_mean([r.bandwidth_gbps for r in timed]),
        "cases": [dict(vars(r)) for r in results],
        "seed": arguments.seed,
        "fresh_seed": arguments.fresh_seed,
        "kernel_sha256": hashlib.sha256(kernel.read_bytes()).hexdigest() if kernel.is_file() else None,
        "device": device,
        "versions": {
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
            **{name: installed[name] for name in COMPILERS if name in installed},
        },
    }


def without_nan(value):
    """Return a value with every NaN and infinity replaced by None, for JSON has neither."""
    if isinstance(value, dict):
        return {name: without_nan(v) for name, v in value.items()}
    if isinstance(value, list):
        return [without_nan(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_case(result):
    """Print one case on a line, and its failures below."""
    error = "not computed" if result.rel_err is None else f"{result.rel_err:.2e}"
    speed = ""
    if result.latency_us is not None:
        spread = f"{result.latency_us_p10:.2f}..{result.latency_us_p90:.2f}"
        speed = f"  {result.latency_us:.2f} us ({spread})  {result.bandwidth_gbps:.0f} GB/s"
        speed += "" if result.tflops is None else f"  {result.tflops:.1f} TFLOPS"
        speed += "" if result.l2_passes >= 1 else "  warm L2"
    if result.speedup_vs_ref is not None:
        speed += f"  {result.speedup_vs_ref:.2f}x reference"
    print(f"{result.status} {result.id}  rel_err {error}{speed}")
    for line in (*result.failures, *present([result.measurement_error, result.not_measured])):
        print(f"  {line}")


def parse(argv):
    """Return the command line's arguments."""
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description="Test kernel.py against reference.py and time it.")
    parser.add_argument("--version", default="v0", help="name of this version in RESULT_JSON")
    parser.add_argument("--no-memory", action="store_true", help="accepted, without effect: this test writes no file")
    parser.add_argument("--multi-seed", type=int, default=1, metavar="N", help="draw the inputs from N seeds")
    parser.add_argument("--seed", type=int, default=0, help="first seed; one more, a fresh one, is drawn in each run")
    parser.add_argument("--shape-id", action="append", metavar="ID", help="case to run; default: all")
    parser.add_argument("--warmup", type=int, default=10, help="replays before the timed ones")
    parser.add_argument("--timed-runs", type=int, default=30, help="replays; their median is reported")
    parser.add_argument("--rtol", type=float, default=None, help="limit on rel_err; default: REL_ERR")
    parser.add_argument("--atol", type=float, default=None, help="limit on the error of one element")
    parser.add_argument("--workspace", type=Path, default=here, help="folder of kernel.py, reference.py, shapes.json")
    parser.add_argument("--gpu-lock", metavar="FILE", help="time while nobody else who locks FILE uses the GPU")
    return parser, parser.parse_args(argv)


def main(argv=None, device="cuda"):
    """Run the cases; return the exit status."""
    parser, arguments = parse(argv)
    arguments.workspace = arguments.workspace.resolve()
    arguments.limit_s = int(os.environ.get("TEST_TIMEOUT_SEC", "30"))
    arguments.fresh_seed = int.from_bytes(os.urandom(4), "big")
    cases = json.loads((arguments.workspace / "shapes.json").read_text(encoding="utf-8"))
    selected = arguments.shape_id or list(cases)
    if unknown := [case for case in selected if case not in cases]:
        parser.error(f"no case {', '.join(unknown)} in shapes.json; it has {', '.join(cases)}")
    results, facts = [], None
    print(f"seed {arguments.seed}, fresh seed {arguments.fresh_seed}: --seed {arguments.fresh_seed} repeats it")
    for case in selected:
        found, result = run_case(case, cases, arguments, device)
        if result.failures == [NO_DEVICE]:
            print(NO_DEVICE, file=sys.stderr)
            break
        facts = found or facts
        results.append(result)
        print_case(result)
    failures = [failure for result in results for failure in result.failures] if results else [NO_DEVICE]
    report = summary(results, failures, arguments, facts)
    print(f"[test_kernel] RESULT_JSON={json.dumps(without_nan(report), allow_nan=False)}", flush=True)
    return 0 if report["all_pass"] else 1 if results else 4


if __name__ == "__main__":
    sys.exit(main())
