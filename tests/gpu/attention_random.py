"""Random attentions through `kgen.build`, against the reference in float64.

    python tests/gpu/attention_random.py --out RECORDS          on the GPU; prints a table
    python tests/gpu/attention_random.py --dry-run [--compile]  without one: emits every kernel, or compiles it too

Each result is compared with the reference in float64: rel_err, dtype, shape, places of NaN and infinities, two runs
bit for bit on poisoned results, inputs and the gaps between them unchanged. Each has to be one fused kernel.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from attention_problems import COUNT, problem
from compare import bits, check_runs, compare_all, eager, expected
from random_gemms import compile_all, progress, row_of
from records import write_record
from workers import Job, run_jobs

import kgen

TARGET = "h200"
LIMIT_SECONDS = 120.0
LIMIT = 0.01  # of rel_err


def run_problem(index: int) -> dict[str, Any]:
    """Build problem `index` on the GPU and compare it; run by a child process."""
    p = problem(index)
    made = p.make("cuda")
    tensors, before = [tensor for tensor, _ in made], [bits(base) for _, base in made]
    reference = p.reference()
    kernel = kgen.build(reference, tensors, target=TARGET)
    out, faults = check_runs(kernel, tensors)
    # eager PyTorch ended in a misaligned address with the operands of problem 136, so that it is given copies
    copied = eager(reference, [tensor.clone(memory_format=torch.contiguous_format) for tensor in tensors])
    found = compare_all(out, expected(reference, tensors), copied, LIMIT)
    faults += found.faults
    for operand, (_, base), old in zip(p.operands, made, before, strict=True):
        if not torch.equal(bits(base), old):
            faults.append(f"the kernel wrote into {operand.name} or between its rows")
    plan, unfused = plan_of(kernel.folders)
    return {"rel_err": found.rel_err, "faults": [*faults, *unfused], "plan": plan}


def emit_problem(index: int) -> dict[str, Any]:
    """Emit the kernel of problem `index` on the CPU; the comparison is tried on what PyTorch computes there."""
    p = problem(index)
    tensors = [tensor for tensor, _ in p.make("cpu")]
    reference = p.reference()
    folders = kgen.build(reference, tensors, target=TARGET).folders
    result = eager(reference, tensors)
    found = compare_all(result, expected(reference, tensors), result, 2 * LIMIT)
    plan, faults = plan_of(folders)
    faults += [f"eager PyTorch: {fault}" for fault in found.faults]
    return {"rel_err": found.rel_err, "faults": faults, "plan": plan, "folders": [str(f) for f in folders]}


def plan_of(folders: tuple[Path, ...]) -> tuple[str, list[str]]:
    """Return the tile of a build in words, and what is wrong where it is not one attention kernel."""
    plans = [json.loads((folder / "plan.json").read_text()) for folder in folders]
    variants = [v for plan in plans for v in plan["variants"]]
    attentions = [v for v in variants if "overlap" in v["choice"]["choices"]]
    copies = any("in copies with rows of whole 16 bytes" in reason for plan in plans for reason in plan["cut"])
    if len(attentions) != 1 or (len(variants) != 1 and not copies):
        return "", [f"{len(variants)} kernels, and not one attention"]
    c = attentions[0]["choice"]["choices"]
    parts = f", {c['splits']} parts" if c["splits"] > 1 else ""
    rows = "few rows: " if c["store_path"] == "direct" else ""
    return f"{rows}{c['tile_m']}x{c['tile_n']}, {c['stages']} stages{parts}", []


def print_table(rows: list[dict[str, Any]]) -> None:
    """Print how many problems each tile served, and their largest errors."""
    by_plan: dict[str, list[float]] = {}
    for row in rows:
        by_plan.setdefault(row.get("plan", "none"), []).append(row.get("rel_err", 0.0))
    for plan, errors in sorted(by_plan.items()):
        print(f"{plan:<36} {len(errors):>3} problems, largest rel_err {max(errors):.2e}")


def main() -> int:
    """Run everything and print a table; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, help="folder for the record")
    parser.add_argument("--processes", type=int, default=12)
    parser.add_argument("--only", type=int, nargs="+", help="indices of problems")
    parser.add_argument("--dry-run", action="store_true", help="emit only; needs no GPU")
    parser.add_argument("--compile", action="store_true", help="with --dry-run: compile each kernel and read its code")
    arguments = parser.parse_args()
    started = time.perf_counter()
    function = "emit_problem" if arguments.dry_run else "run_problem"
    jobs = [Job(str(problem(i)), function, {"index": i}) for i in arguments.only or range(COUNT)]
    outcomes = run_jobs(Path(__file__), jobs, arguments.processes, LIMIT_SECONDS, progress)
    rows = [row_of(outcome) for outcome in outcomes]
    wrong = [row for row in rows if row["faults"]]
    if arguments.compile:
        folders = [Path(folder) for row in rows for folder in row.pop("folders", ())]
        wrong += [{"label": fault, "faults": [fault]} for fault in compile_all(folders, arguments.processes)]
    print_table(rows)
    for row in wrong:
        print(f"FAIL  {row['label'][:200]}\n      {row['faults'][0][:300]}")
    print(f"{len(rows)} problems, {len(wrong)} wrong, {time.perf_counter() - started:.0f} s")
    if arguments.out:
        summary = {"problems": len(rows), "wrong": len(wrong), "limit": LIMIT}
        write_record(arguments.out, "attention_random", {"summary": summary, "rows": rows})
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
