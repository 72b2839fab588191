"""Times many legal candidates of loop kernels, to calibrate and to judge the cost model.

    python benchmarks/loop_candidates.py --out RECORDS [--only NAME] [--count 24]

Prints for each problem the share of the copy bandwidth that the model's first choice and the best candidate reach.
Each candidate is built as a package of one kernel would be, compiled in one of several processes, and timed alone on
the GPU by replays of a graph over rotating inputs.
"""

import argparse
import json
import multiprocessing
import random
import re
import statistics
import sys
import tempfile
import time
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import torch
from loop_problems import PROBLEMS, LoopProblem

from kgen.backends.registry import backend_of
from kgen.families.strided.facts import MAX_ACCESS_BYTES, facts_of
from kgen.frontend.importers import spec_from_callable
from kgen.pipeline import run
from kgen.planning.loops import legal_loops, ordered_loops
from kgen.planning.plan import Plan
from kgen.planning.plan_loops import plan_loop
from kgen.target import load_device

TARGET = "h200"
FLUSH_BYTES = 192 * 10**6  # of inputs and outputs that replays rotate over: three times the L2
REPLAYS = 12
AXES = ("schedule", "vec", "threads", "row_threads", "cluster", "steps")


def meta_inputs(problem: LoopProblem) -> tuple[torch.Tensor, ...]:
    """Return the inputs as types alone."""
    return tuple(torch.empty(shape, dtype=dtype, device="meta") for shape, dtype in problem.inputs)


def choose(problem: LoopProblem, count: int) -> list[dict[str, Any]]:
    """Return the first candidates by the model and others drawn with a fixed seed, as axis values."""
    form = run(spec_of(problem), load_device(TARGET), stop_after="partition").made["partition"]
    from kgen.families.strided.classify import classify_loop

    program = next(iter(form.values()))
    loop = classify_loop(program.problems[0])
    facts, device = facts_of(loop, MAX_ACCESS_BYTES), load_device(TARGET)
    legal = legal_loops(loop.family, facts, device)
    times, ranked = ordered_loops(legal, facts, device)
    order = [int(row) for row in ranked]
    near = [row for row in order if times.total[row] <= 1.4 * times.total[order[0]]]
    drawn = random.Random(problem.name).sample(near, min(count, len(near)))
    rows = dict.fromkeys([*order[:6], *drawn])
    return [{**dict(legal.point(row)), "predicted_us": float(times.total[row])} for row in rows]


def spec_of(problem: LoopProblem) -> Any:
    """Return the spec of a problem."""
    return spec_from_callable(problem.function, meta_inputs(problem))


def kernel_file(problem: LoopProblem, choice: dict[str, Any], folder: Path) -> Path:
    """Write the kernel.py of one candidate."""
    device, spec = load_device(TARGET), spec_of(problem)
    (case,) = (c.id for c in spec.cases)
    programs = run(spec, device, stop_after="partition").made["partition"]
    from kgen.families.strided.classify import classify_loop

    problem_ir = programs[case].problems[0]
    fixed = {axis: value for axis, value in choice.items() if axis != "predicted_us"}
    variants = plan_loop(case, problem_ir.name, classify_loop(problem_ir), device, fixed, MAX_ACCESS_BYTES)
    plan = Plan(spec.name, device, variants[:1])
    file = folder / f"candidate_{time.time_ns()}.py"
    file.write_text(backend_of(plan).view(spec, programs, plan).render())
    return file


def load(file: Path) -> Any:
    """Import an emitted file under a name of its own."""
    found = spec_from_file_location(file.stem, file)
    assert found is not None and found.loader is not None
    module = module_from_spec(found)
    found.loader.exec_module(module)
    return module


def time_us(call: Any, bytes_: int, make: Any) -> float:
    """Return the median time of a call on cold inputs, in microseconds."""
    sets = [make() for _ in range(max(2, -(-FLUSH_BYTES // max(bytes_, 1))) if bytes_ < FLUSH_BYTES else 2)]
    sets = sets[:24]
    for inputs in sets[:2]:
        call(*inputs)
    rounds = -(-8 // len(sets))  # a graph of few launches measures the start of the graph
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for inputs in sets * rounds:
            call(*inputs)
    graph.replay()
    torch.cuda.synchronize()
    samples = []
    for _ in range(REPLAYS):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        samples.append(start.elapsed_time(end) * 1e3 / len(sets) / rounds)
    return statistics.median(samples)


def moved_bytes(problem: LoopProblem, results: tuple[torch.Tensor, ...]) -> int:
    """Return the bytes of inputs and results."""
    return sum(t.numel() * t.element_size() for t in (*meta_inputs(problem), *results))


def make_inputs(problem: LoopProblem) -> tuple[torch.Tensor, ...]:
    """Return normal random inputs on the GPU."""
    return tuple(torch.randn(shape, device="cuda", dtype=torch.float32).to(dtype) for shape, dtype in problem.inputs)


def worker(jobs: Any, answers: Any, gpu: Any) -> None:
    """Compile candidates side by side with others, time them one at a time."""
    while (job := jobs.get()) is not None:
        name, choice = job
        problem = next(p for p in PROBLEMS if p.name == name)
        try:
            with tempfile.TemporaryDirectory() as folder:
                module = load(kernel_file(problem, choice, Path(folder)))
                started = time.perf_counter()
                module.compiled(module.VARIANTS[0].name, 0)
                seconds = time.perf_counter() - started
            with gpu:
                inputs = make_inputs(problem)
                out = module.kernel(*inputs)
                expected = problem.function(*inputs)
                error = float((out.double() - expected.double()).norm() / expected.double().norm())
                total = moved_bytes(problem, (out,))
                del inputs, out, expected
                measured = time_us(module.kernel, total, partial(make_inputs, problem))
                torch.cuda.empty_cache()
            answers.put((name, {**choice, "time_us": measured, "bytes": total, "error": error, "compile_s": seconds}))
        except Exception as failure:
            answers.put((name, {**choice, "failure": f"{type(failure).__name__}: {failure}"[:400]}))


def copy_rate() -> float:
    """Return the bytes per microsecond of a device copy of 1 GiB."""
    source = torch.empty(2**29, dtype=torch.bfloat16, device="cuda")
    target = torch.empty_like(source)
    samples = []
    for _ in range(12):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        target.copy_(source)
        end.record()
        end.synchronize()
        samples.append(2 * source.numel() * 2 / (start.elapsed_time(end) * 1e3))
    return statistics.median(samples)


def main() -> int:
    """Time the candidates of all chosen problems."""
    parser = argparse.ArgumentParser(description="Time candidates of loop kernels.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--count", type=int, default=16)
    parser.add_argument("--processes", type=int, default=14)
    arguments = parser.parse_args()
    problems = [p for p in PROBLEMS if re.search(arguments.only, p.name)]
    context = multiprocessing.get_context("spawn")
    jobs, answers, gpu = context.Queue(), context.Queue(), context.Lock()
    pool = [context.Process(target=worker, args=(jobs, answers, gpu), daemon=True) for _ in range(arguments.processes)]
    for process in pool:
        process.start()
    expected = 0
    for problem in problems:
        for choice in choose(problem, arguments.count):
            jobs.put((problem.name, choice))
            expected += 1
    for _ in pool:
        jobs.put(None)
    found: dict[str, list[dict[str, Any]]] = {p.name: [] for p in problems}
    for _ in range(expected):
        name, row = answers.get(timeout=300)
        found[name].append(row)
    rate = copy_rate()
    arguments.out.mkdir(parents=True, exist_ok=True)
    record = {"device": torch.cuda.get_device_name(), "copy_bytes_per_us": rate, "rows": found}
    (arguments.out / "loop_candidates.json").write_text(json.dumps(record, indent=1) + "\n")
    print(f"copy {rate / 1e6:.2f} TB/s")
    for name, rows in found.items():
        failed = [r for r in rows if "failure" in r]
        good = sorted((r for r in rows if "time_us" in r), key=lambda r: r["time_us"])
        wrong = sum(not r["error"] < 0.01 for r in good)
        if not good:
            print(f"{name}: all {len(rows)} failed: {failed[0]['failure'][:200]}")
            continue
        first = min(good, key=lambda r: r["predicted_us"])
        best = good[0]
        shown = {
            k: v for k, v in best.items() if k in ("schedule", "vec", "threads", "row_threads", "cluster", "steps")
        }
        share = best["bytes"] / best["time_us"] / rate
        print(
            f"{name}: best {best['time_us']:.1f} us {share:.3f} of copy {list(shown.values())}; first "
            f"{first['time_us']:.1f} predicted {first['predicted_us']:.1f}; failed {len(failed)} wrong {wrong}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
