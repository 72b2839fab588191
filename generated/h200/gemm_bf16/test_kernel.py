"""Test kernel.py against reference.py, and time it.

gemm_bf16

    python test_kernel.py                  every case of shapes.json
    python test_kernel.py --shape-id ID    one case; may be repeated

Each case runs in a process of its own, which is killed at its time limit (TEST_TIMEOUT_SEC, 30 s by default). The last
line printed is `[test_kernel] RESULT_JSON={...}`. Exit status: 0 all passed, 1 something failed, 4 no CUDA device here.
"""

import argparse
import json
import math
import multiprocessing
import os
import signal
import statistics
import sys
from dataclasses import dataclass, field
from pathlib import Path

import torch

REL_ERR = 0.01  # limit on ||out - ref|| / ||ref||, in float64
ELEMENT_ERR = 0.1  # limit on |out - ref| / (|ref| + rms(ref)) of an element: 10 x REL_ERR
OFFSETS = (0, 1)  # of the tensors' first elements from an aligned address: any base is accepted
REFUSED_OFFSETS = ()
REFUSALS = (TypeError, ValueError, NotImplementedError)  # what kernel.py raises outside of what it accepts
SM_COUNT = 132  # of the NVIDIA H200 SXM; on a device with another count the roofline is not checked
PEAK_FLOPS = 9.89e14  # bf16 products, dense [uw_h200]
PEAK_BYTES = 4.8e12  # per second; device memory [aiwiki_h200]
WORK = {  # of each case: operations, bytes read and bytes written by a kernel that touches everything once
    "default": (137438953472, 67108864, 33554432),
}


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
    latency_us: float | None = None  # median
    latency_us_p10: float | None = None
    latency_us_p90: float | None = None
    ref_latency_us: float | None = None
    tflops: float | None = None
    bandwidth_gbps: float | None = None
    speedup_vs_ref: float | None = None
    measurement_error: str | None = None


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


def largest(values):
    """Return the largest value that is not None, or None."""
    return max((value for value in values if value is not None), default=None)


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
    if rel_err > limits.rtol:
        problems.append(f"rel_err {rel_err:.3g} is above {limits.rtol:g}")
    elif max_rel_err > ELEMENT_ERR:
        problems.append(f"one element is off by {max_rel_err:.3g} of |ref| + rms(ref), the limit is {ELEMENT_ERR:g}")
    if limits.atol is not None and max_abs_err > limits.atol:
        problems.append(f"max_abs_err {max_abs_err:.3g} is above {limits.atol:g}")
    return problems


def storage_bytes(tensor):
    """Return a copy of all the memory behind a tensor, padding included."""
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage()).clone()


def call_poisoned(function, inputs):
    """Call with every `torch.empty` filled with NaN (integers: their largest), so that unwritten output shows."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        out = function(*inputs.values())
        if torch.cuda.is_available():
            torch.cuda.synchronize()  # a fault of the kernel shows here, not in a later call
        return out
    finally:
        torch.use_deterministic_algorithms(False)


def check_call(function, inputs, expected, limits, result):
    """Call the kernel twice; return what is wrong with its output, its inputs afterwards, and its memory."""
    before = {name: storage_bytes(x) for name, x in inputs.items()}
    out = call_poisoned(function, inputs)
    problems = compare(out, expected, limits, result)
    for name, x in inputs.items():
        if not torch.equal(storage_bytes(x), before[name]):
            problems.append(f"input {name} was written to")
    again = call_poisoned(function, inputs)
    places = {x.untyped_storage().data_ptr(): "the output of another call" for x in tensors_in(again) if x.numel()}
    places |= {x.untyped_storage().data_ptr(): f"input {name}" for name, x in inputs.items() if x.numel()}
    for i, x in enumerate(tensors_in(out)):
        if x.numel() and (other := places.get(x.untyped_storage().data_ptr())):
            problems.append(f"output {i} shares the memory of {other}")
    return problems


def plant_special_values(inputs):
    """Put NaN into the first and +Inf into the last element of each float tensor of several elements."""
    for x in inputs.values():
        if x.is_floating_point() and x.numel() > 1:
            x[(0,) * x.ndim].fill_(math.nan)
            x[(-1,) * x.ndim].fill_(math.inf)
    return inputs


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
        if x.ndim > 1 and min(x.shape[-2:]) > 1:
            turned = x.contiguous() if x.stride(-1) != 1 else x.mT.contiguous().mT
            yield f"{name} of strides {list(turned.stride())}", {**inputs, name: turned}


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


def times_us(call, warmup, runs):
    """Return the device time of single calls with a cold L2, in microseconds, sorted."""
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    cold = torch.zeros(properties.L2_cache_size, device="cuda")  # four bytes for each byte of L2
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()  # replayed, so that no host time is measured
    with torch.cuda.graph(graph):
        call()
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(warmup + runs)]
    for start, end in events:
        cold.sum()  # reading evicts, and leaves nothing to be written back while the kernel runs
        start.record()
        graph.replay()
        end.record()
    torch.cuda.synchronize()
    return sorted(start.elapsed_time(end) * 1e3 for start, end in events[warmup:])


def measure(function, reference, inputs, arguments, result):
    """Time the kernel and the reference; no speed is reported that the device cannot reach."""
    times = times_us(lambda: function(*inputs.values()), arguments.warmup, arguments.timed_runs)
    latency = statistics.median(times)
    flops, bytes_read, bytes_written = WORK[result.id]
    least = max(flops / PEAK_FLOPS, bytes_read / PEAK_BYTES) * 1e6  # written bytes may stay in L2
    if torch.cuda.get_device_properties(0).multi_processor_count == SM_COUNT and latency < least:
        result.measurement_error = f"{latency:.2f} us is above the roofline: the device needs {least:.2f} us"
        return
    result.latency_us = latency
    result.latency_us_p10, result.latency_us_p90 = times[len(times) // 10], times[len(times) * 9 // 10]
    result.tflops = flops / latency * 1e-6
    result.bandwidth_gbps = (bytes_read + bytes_written) / latency * 1e-3
    try:
        times = times_us(lambda: reference(*inputs.values()), arguments.warmup, arguments.timed_runs)
    except RuntimeError:
        return  # not every reference can be captured in a graph
    result.ref_latency_us = statistics.median(times)
    result.speedup_vs_ref = result.ref_latency_us / latency


def check_case(case, cases, arguments, device, result):
    """Check and time one case, filling `result`."""
    function, reference = load(arguments.workspace, cases[case]["init_kwargs"], arguments.seed, device)
    from input import _layouts, _make_inputs

    def make(seed, offset=0):
        return _make_inputs(**cases[case]["input_kwargs"], seed=seed, offset=offset, device=device)

    for seed in range(arguments.seed, arguments.seed + max(1, arguments.multi_seed)):
        expected = reference(*make(seed).values())
        for offset in OFFSETS:
            problems = check_call(function, make(seed, offset), expected, arguments, result)
            result.failures += [f"{case}, seed {seed}, offset {offset}: {problem}" for problem in problems]
    expected = reference(*plant_special_values(make(arguments.seed)).values())
    out = call_poisoned(function, plant_special_values(make(arguments.seed)))
    problems = compare(out, expected, arguments, result)
    result.failures += [f"{case}, with NaN and Inf in the inputs: {problem}" for problem in problems]
    layouts = [_layouts(**other["input_kwargs"]) for other in cases.values()]
    accepted = {tuple(shape for _, shape, _ in layout.values()) for layout in layouts}
    wrong = list(outside(make(arguments.seed), accepted))
    wrong += [(f"a base {offset} off an aligned address", make(arguments.seed, offset)) for offset in REFUSED_OFFSETS]
    result.failures += [f"{case}: {problem}" for problem in check_refusals(function, wrong)]
    if not result.failures:
        result.status = "PASS"
        if device == "cuda":
            measure(function, reference, make(arguments.seed), arguments, result)


def run_in_child(case, cases, arguments, device, connection):
    """Send "ready", then the result of one case; a SIGALRM ends Python code that takes too long."""

    def on_alarm(number, frame):
        raise OutOfTimeError(f"{case}: not done after {arguments.limit_s} s")

    # TF32 or sums in bf16 would make the reference less exact than the kernel
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.set_grad_enabled(False)
    result = Result(case)
    signal.signal(signal.SIGALRM, on_alarm)
    connection.send("ready")
    signal.alarm(arguments.limit_s)
    try:
        check_case(case, cases, arguments, device, result)
    except OutOfTimeError as error:
        result = Result(case, "TIMEOUT_FAIL", [*result.failures, str(error)])
    except Exception as error:
        result = Result(case, failures=[*result.failures, f"{case}: {type(error).__name__}: {error}"])
    signal.alarm(0)
    connection.send(result)


def run_case(case, cases, arguments, device):
    """Run one case in a process of its own; kill it when a blocked driver call keeps the alarm from ending it."""
    context = multiprocessing.get_context("spawn")  # a forked process could not use CUDA
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=run_in_child, args=(case, cases, arguments, device, sender), daemon=True)
    child.start()
    sender.close()
    try:
        receiver.recv()
        if not receiver.poll(arguments.limit_s + 1):  # the alarm comes first where it can
            return Result(case, "TIMEOUT_FAIL", [f"{case}: killed after {arguments.limit_s} s"])
        return receiver.recv()
    except EOFError:
        child.join()
        return Result(case, failures=[f"{case}: the process ended with exit code {child.exitcode}"])
    finally:
        child.kill()
        child.join(5)


def geometric_mean(values):
    """Return the geometric mean, or None when a value is missing."""
    return statistics.geometric_mean(values) if values and None not in values else None


def summary(results, failures, version):
    """Return what RESULT_JSON holds; a mean is null unless every case was measured."""
    latencies = [r.latency_us for r in results]
    measured = latencies and None not in latencies
    return {
        "version": version,
        "all_pass": bool(results) and not failures and all(r.status == "PASS" for r in results),
        "failures": failures,
        "latency_us_geomean": geometric_mean(latencies),
        "latency_us_arith_mean": statistics.fmean(latencies) if measured else None,
        "latency_us_by_shape": {r.id: r.latency_us for r in results},
        "speedup_vs_ref_geomean": geometric_mean([r.speedup_vs_ref for r in results]),
        "rel_err": largest([r.rel_err for r in results]),
        "max_abs_err": largest([r.max_abs_err for r in results]),
        "max_rel_err": largest([r.max_rel_err for r in results]),
        "tflops": geometric_mean([r.tflops for r in results]),
        "bandwidth_gbps": geometric_mean([r.bandwidth_gbps for r in results]),
        "cases": [dict(vars(r)) for r in results],
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
        speed = f"  {result.latency_us:.2f} us ({spread})  {result.tflops:.1f} TFLOPS  {result.bandwidth_gbps:.0f} GB/s"
    if result.speedup_vs_ref is not None:
        speed += f"  {result.speedup_vs_ref:.2f}x reference"
    print(f"{result.status} {result.id}  rel_err {error}{speed}")
    for line in (*result.failures, *([result.measurement_error] if result.measurement_error else [])):
        print(f"  {line}")


def parse(argv):
    """Return the command line's arguments."""
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description="Test kernel.py against reference.py and time it.")
    parser.add_argument("--version", default="v0", help="name of this version in RESULT_JSON")
    parser.add_argument("--no-memory", action="store_true", help="accepted, without effect: this test writes no file")
    parser.add_argument("--multi-seed", type=int, default=1, metavar="N", help="draw the inputs from N seeds")
    parser.add_argument("--seed", type=int, default=0, help="first seed")
    parser.add_argument("--shape-id", action="append", metavar="ID", help="case to run; default: all")
    parser.add_argument("--warmup", type=int, default=10, help="calls before the timed ones")
    parser.add_argument("--timed-runs", type=int, default=100)
    parser.add_argument("--rtol", type=float, default=REL_ERR, help="limit on rel_err")
    parser.add_argument("--atol", type=float, default=None, help="limit on the error of one element")
    parser.add_argument("--workspace", type=Path, default=here, help="folder of kernel.py, reference.py, shapes.json")
    return parser, parser.parse_args(argv)


def main(argv=None, device="cuda"):
    """Run the cases; return the exit status."""
    parser, arguments = parse(argv)
    arguments.workspace = arguments.workspace.resolve()
    arguments.limit_s = int(os.environ.get("TEST_TIMEOUT_SEC", "30"))
    cases = json.loads((arguments.workspace / "shapes.json").read_text(encoding="utf-8"))
    selected = arguments.shape_id or list(cases)
    if unknown := [case for case in selected if case not in cases]:
        parser.error(f"no case {', '.join(unknown)} in shapes.json; it has {', '.join(cases)}")
    results, failures, status = [], [], 1
    if device == "cuda" and not torch.cuda.is_available():
        failures, status = ["no CUDA device here: the kernel was not run"], 4
        print(failures[0], file=sys.stderr)
    else:
        for case in selected:
            results.append(run_case(case, cases, arguments, device))
            print_case(results[-1])
        failures = [failure for result in results for failure in result.failures]
    found = summary(results, failures, arguments.version)
    print(f"[test_kernel] RESULT_JSON={json.dumps(without_nan(found), allow_nan=False)}", flush=True)
    return 0 if found["all_pass"] else status


if __name__ == "__main__":
    sys.exit(main())
