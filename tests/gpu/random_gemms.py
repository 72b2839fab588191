"""Random matrix products through `kgen.build`, and how a built kernel behaves as a callable.

    python tests/gpu/random_gemms.py --out RECORDS          on the GPU; prints a table
    python tests/gpu/random_gemms.py --few --out RECORDS    those of few rows, and of few tiles over a long k, alone
    python tests/gpu/random_gemms.py --types --out RECORDS  those of fp8, int8, tf32 and fp32 operands alone
    python tests/gpu/random_gemms.py --dry-run [--compile]  without one: emits every kernel, or compiles it too

140 have bf16 or fp16 operands (`problems.py`), 130 those of the other types (`typed_problems.py`).
Each result is compared with the reference in float64: rel_err, dtype, shape, places of NaN and infinities, two runs
bit for bit on poisoned results, inputs and the gaps between them unchanged.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from behaviour import BEHAVIOURS
from compare import bits, check_runs, compare, eager, expected
from problems import COUNT, FIRST_OF_FEW, GemmProblem, problem
from records import write_record
from typed_problems import COUNT as TYPED_COUNT
from typed_problems import FIRST as FIRST_TYPED
from typed_problems import typed_problem
from workers import Job, Outcome, run_jobs

import kgen

TARGET = "h200"
LIMIT_SECONDS = 90.0


def problem_of(index: int) -> GemmProblem:
    """Return the problem of that index, and set torch's flag for it."""
    found = typed_problem(index) if index >= FIRST_TYPED else problem(index)
    torch.backends.cuda.matmul.allow_tf32 = found.allow_tf32
    return found


def run_problem(index: int) -> dict[str, Any]:
    """Build problem `index` on the GPU and compare it; run by a child process."""
    p = problem_of(index)
    made = [operand.make("cuda", 100 * index + place) for place, operand in enumerate(p.operands)]
    tensors, before = [tensor for tensor, _ in made], [bits(base) for _, base in made]
    reference = p.reference()
    started = time.perf_counter()
    kernel = kgen.build(reference, tensors, target=TARGET)
    seconds = time.perf_counter() - started
    out, faults = check_runs(kernel, tensors)
    found = compare(out, expected(reference, tensors), eager(reference, tensors), p.limit)
    faults += found.faults
    for operand, (_, base), old in zip(p.operands, made, before, strict=True):
        if not torch.equal(bits(base), old):
            faults.append(f"the kernel wrote into {operand.name} or between its rows")
    return {"rel_err": found.rel_err, "faults": faults, "build_s": round(seconds, 2), "paths": paths_of(kernel.folders)}


def run_behaviour(name: str) -> dict[str, Any]:
    """Run one check of a built kernel as a callable; run by a child process."""
    return {"faults": BEHAVIOURS[name](TARGET)}


def emit_problem(index: int) -> dict[str, Any]:
    """Emit the kernel of problem `index` on the CPU; the comparison is tried on what PyTorch computes there."""
    p = problem_of(index)
    tensors = [operand.make("cpu", 100 * index + place)[0] for place, operand in enumerate(p.operands)]
    reference = p.reference()
    folders = kgen.build(reference, tensors, target=TARGET).folders
    result = eager(reference, tensors)
    found = compare(result, expected(reference, tensors), result, p.limit)
    compiled = [str(f) for f in folders] if p.extents != "empty" else []  # no launch, so nothing to compile
    faults = [f"eager PyTorch: {fault}" for fault in found.faults]
    return {"rel_err": found.rel_err, "faults": faults, "paths": paths_of(folders), "folders": compiled}


def paths_of(folders: tuple[Path, ...]) -> str:
    """Return the load and store paths of the variants of a build."""
    plans = [json.loads((folder / "plan.json").read_text()) for folder in folders]
    choices = [variant["choice"]["choices"] for plan in plans for variant in plan["variants"]]
    return " ".join(f"{c['load_path']}/{c['store_path']}{_schedule(c)}" for c in choices)


def _schedule(choices: dict[str, Any]) -> str:
    """Return what a choice has besides its paths: parts of k, CTAs on an SM, exchanged operands."""
    words = {"cluster_k": "k", "resident": "r"}
    parts = [f",{word}{choices[axis]}" for axis, word in words.items() if choices.get(axis, 1) > 1]
    return "".join(parts) + (",swap" if choices.get("swap") else "")


def compile_all(folders: list[Path], processes: int) -> list[str]:
    """Cross-compile the packages and return what is not as their plans say."""
    from kgen.check import check_packages

    def progress(result: Any, done: int, count: int) -> None:
        if not result.ok:
            print(f"  {done}/{count} {result.folder}: {str(result.findings[0])[:300]}", flush=True)

    results = check_packages(folders, jobs=processes, progress=progress)
    return [f"{r.folder}: {finding}" for r in results for finding in r.findings]


def jobs(arguments: argparse.Namespace) -> list[Job]:
    """Return the problems, and on a GPU the behaviours."""
    few, typed = range(FIRST_OF_FEW, COUNT), range(FIRST_TYPED, FIRST_TYPED + TYPED_COUNT)
    parts = [*(few if arguments.few else ()), *(typed if arguments.types else ())]
    chosen = arguments.only or parts or (*range(COUNT), *typed)
    function = "emit_problem" if arguments.dry_run else "run_problem"
    made = [Job(str(problem_of(i)), function, {"index": i}) for i in chosen]
    if not (arguments.dry_run or arguments.only or parts):
        made += [Job(f"    {name}", "run_behaviour", {"name": name}) for name in BEHAVIOURS]
    return made


def faults_of(outcome: Outcome) -> list[str]:
    """Return what is wrong with a job's outcome."""
    return [outcome.failure] if outcome.result is None else outcome.result["faults"]  # type: ignore[list-item]


def progress(outcome: Outcome, done: int) -> None:
    """Print a line for a failed job, and one for every 20."""
    if faults_of(outcome):
        print(f"FAIL {outcome.job.label}\n     {faults_of(outcome)[0][:700]}", flush=True)
    elif done % 20 == 0:
        print(f"  {done} done", flush=True)


def row_of(outcome: Outcome) -> dict[str, Any]:
    """Return what is recorded of a job."""
    return {
        "label": outcome.job.label.strip(),
        "faults": faults_of(outcome),
        "seconds": round(outcome.seconds, 2),
        **(outcome.result or {}),
    }


def print_table(rows: list[dict[str, Any]]) -> None:
    """Print counts by path, the largest errors, and the behaviours."""
    problems = [row for row in rows if "rel_err" in row or "paths" in row]
    by_path: dict[str, list[float]] = {}
    for row in problems:
        by_path.setdefault(row.get("paths", "none"), []).append(row.get("rel_err", 0.0))
    print(f"{'variants of the kernel':<42} problems  largest rel_err")
    for path, errors in sorted(by_path.items()):
        print(f"{path:<42} {len(errors):>8}  {max(errors):.2e}")
    for row in rows:
        if row not in problems and not row["faults"]:
            print(f"ok    {row['label']}")


def main() -> int:
    """Run everything and print a table; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, help="folder for the record")
    parser.add_argument("--processes", type=int, default=12)
    parser.add_argument("--only", type=int, nargs="+", help="indices of problems")
    parser.add_argument("--few", action="store_true", help="only products of few rows, or of few tiles over a long k")
    parser.add_argument("--types", action="store_true", help="fp8, int8, tf32 and fp32 operands alone")
    parser.add_argument("--dry-run", action="store_true", help="emit only; needs no GPU")
    parser.add_argument("--compile", action="store_true", help="with --dry-run: compile each kernel and read its code")
    arguments = parser.parse_args()
    started = time.perf_counter()
    work = jobs(arguments)
    outcomes = run_jobs(Path(__file__), work, arguments.processes, LIMIT_SECONDS, progress)
    rows = [row_of(outcome) for outcome in outcomes]
    wrong = [row for row in rows if row["faults"]]
    if arguments.compile:
        folders = [Path(folder) for row in rows for folder in row.pop("folders", ())]
        wrong += [{"label": fault, "faults": [fault]} for fault in compile_all(folders, arguments.processes)]
    print_table(rows)
    for row in wrong:
        print(f"FAIL  {row['label'][:150]}\n      {row['faults'][0][:300]}")
    print(f"{len(rows)} jobs, {len(wrong)} wrong, {time.perf_counter() - started:.0f} s")
    if arguments.out:
        summary = {"jobs": len(rows), "wrong": len(wrong), "seconds": round(time.perf_counter() - started)}
        write_record(
            arguments.out,
            "random_gemms_types" if arguments.types else "random_gemms",
            {"summary": summary, "rows": rows},
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
