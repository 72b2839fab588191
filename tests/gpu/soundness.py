"""Soundness of the rules: legal candidates compile with no spill and run right; what is outside of a rule does not.

    python tests/gpu/soundness.py --out RECORDS      on the GPU: compiles and runs the samples
    python tests/gpu/soundness.py --dry-run          without one: compiles them
    python tests/gpu/soundness.py --converse         no GPU: the nearest point outside each smem and register rule

The samples are every n/20-th legal candidate in solver order and two on the edge of each rule, of each product of
`choices.PRODUCTS` in each of its types.
"""

import argparse
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from choices import HEAVY, PRODUCTS, Base, base_of, sampled_rows, shown, write_choice
from compare import check_runs, compare, eager, expected
from records import write_record
from workers import Job, load_script, run_jobs

from kgen.check import CheckResult, check_packages
from kgen.planning.candidates import Candidate, candidate_at
from kgen.rules.edges import edge_points
from kgen.rules.model import Value
from kgen.rules.solve import BoundRules, LegalSet, solve

TARGET = "h200"
LIMITS = {"float32": 1e-5, "tf32": 1e-3}  # of rel_err, where the type of the result does not give it
LIMIT_SECONDS = 60.0
# The rules about shared memory and registers: a point outside of one alone must fail on the hardware.
RESOURCE_RULES = (
    "smem",
    "smem_unit",
    "accumulators",
    "register_pool",
    "warp_groups",
    "printed_fused",
    "printed_one_consumer",
    "printed_resident",
    "printed_three_consumers",
    "printed_three_fused",
    "printed_three_int8",
    "printed_planes_direct",
    "printed_staged_plain",
    "printed_staged_fused",
)


def sampled_points(bound: BoundRules) -> dict[tuple[Any, ...], str]:
    """Return the sampled points with why each was taken."""
    legal = solve(bound)
    points = {legal.point(row): f"row {row} of {legal.count}" for row in sampled_rows(legal.count)}
    for rule in bound.rules.rules:
        for point in edge_points(bound, rule.name).inside:
            points.setdefault(point, f"edge of {rule.name}")
    return points


def emit_samples(product: str, dtype: str, folder: str) -> dict[str, Any]:
    """Write the packages of the samples of one product; run by a child process."""
    base = base_of(PRODUCTS[product].reference, PRODUCTS[product].tensors(dtype, "cpu"), TARGET, "sample")
    rows = []
    for number, (point, why) in enumerate(sampled_points(base.bound).items()):
        package = write_choice(base, dict(point), Path(folder) / f"{product}_{dtype}_{number:03}")
        rows.append({"folder": str(package), "product": product, "dtype": dtype, "point": shown(point), "why": why})
    return {"rows": rows}


def emit_outside(product: str, dtype: str, folder: str) -> dict[str, Any]:
    """Write packages of the nearest points outside of the resource rules of one product; run by a child process."""
    tried = (PRODUCTS | HEAVY)[product]
    base = base_of(tried.reference, tried.tensors(dtype, "cpu"), TARGET, "outside")
    legal, rows = solve(base.bound), []
    for name in RESOURCE_RULES:
        if (outside := nearest_outside(base, legal, name)) is None:
            continue
        package = write_choice(base, dict(legal.point(0)), Path(folder) / f"{product}_{dtype}_{name}", outside)
        rows.append(
            {
                "folder": str(package),
                "product": product,
                "dtype": dtype,
                "rule": name,
                "point": shown(outside.choices),
                "acc_regs": outside.number("acc_regs"),
                "smem_bytes": outside.number("smem_bytes"),
            }
        )
    return {"rows": rows}


def nearest_outside(base: Base, legal: LegalSet, name: str) -> Candidate | None:
    """Return the nearest point that breaks this rule: this one alone, else also the templates' stricter ones."""
    if base.bound.rules.rule(name) is None:
        return None
    if outside := edge_points(base.bound, name, 1).outside:
        beyond = solve(base.bound, dict(outside[0]), without=name)
        return candidate_at(beyond, 0)
    rule = base.hardware.rules.rule(name)
    if rule is None:
        return None
    fixed: dict[str, Value] = {"load_path": dict(legal.point(0))["load_path"], "schedule": "cooperative", "wg_n": 1}
    beyond = solve(base.hardware, fixed, without=name)
    columns = beyond.columns | base.hardware.stored
    broken = ~np.broadcast_to(rule.holds(columns), (beyond.count,))
    for printed in base.bound.rules.rules:
        if printed.name not in RESOURCE_RULES:
            broken = broken & printed.holds(columns)
    nearest = min(np.flatnonzero(broken), key=lambda row: beyond.columns["acc_regs"][row], default=None)
    return None if nearest is None else candidate_at(beyond, int(nearest))


def run_sample(folder: str, product: str, dtype: str) -> dict[str, Any]:
    """Compile a package in this process, run it and compare; run by a child process."""
    module = load_script(Path(folder) / "kernel.py", f"sample_{Path(folder).name}")
    tensors = PRODUCTS[product].tensors(dtype, "cuda", seed=7)
    reference = PRODUCTS[product].reference
    out, faults = check_runs(module.kernel, tensors)
    found = compare(out, expected(reference, tensors), eager(reference, tensors), LIMITS.get(dtype))
    return {"faults": [*faults, *found.faults], "rel_err": found.rel_err}


def emit_all(function: str, processes: int, folder: Path, products: list[str]) -> list[dict[str, Any]]:
    """Emit the packages of every product and dtype."""
    work = [
        Job(f"{name} {dtype}", function, {"product": name, "dtype": dtype, "folder": str(folder)})
        for name in products
        for dtype in (PRODUCTS | HEAVY)[name].dtypes
    ]
    rows = []
    for outcome in run_jobs(Path(__file__), work, processes, LIMIT_SECONDS):
        if outcome.result is None:
            raise SystemExit(f"{outcome.job.label} could not be emitted: {outcome.failure}")
        rows += outcome.result["rows"]
    return rows


def compile_rows(rows: list[dict[str, Any]], processes: int, told: Callable[[CheckResult], str | None]) -> None:
    """Cross-compile the packages of the rows, and add to each what was found and the registers."""

    def progress(result: CheckResult, done: int, count: int) -> None:
        if (words := told(result)) or done % 50 == 0:
            print(f"  compiled {done}/{count} {words or ''}", flush=True)

    results = check_packages([Path(row["folder"]) for row in rows], jobs=processes, progress=progress)
    for row, result in zip(rows, results, strict=True):
        kernels = [kernel for variant in result.variants for kernel in variant.kernels]
        row["findings"] = [plain_text(str(finding))[:400] for finding in result.findings]
        row["registers"] = max((kernel.registers for kernel in kernels), default=0)
        row["spills"] = sum(kernel.spills for kernel in kernels)


def plain_text(text: str) -> str:
    """Return a compiler's words on one line, without terminal colours."""
    return " ".join(re.sub(r"\x1b\[\d*m", "", text).split())


def run_rows(rows: list[dict[str, Any]], processes: int) -> None:
    """Run the packages of the rows, and add what was found to each."""
    work = [Job(r["point"], "run_sample", {k: r[k] for k in ("folder", "product", "dtype")}) for r in rows]

    def progress(outcome: Any, done: int) -> None:
        if outcome.failure or outcome.result["faults"] or done % 50 == 0:
            print(f"  ran {done}/{len(rows)} {(outcome.failure or '; '.join(outcome.result['faults']))[:400]}")

    for row, outcome in zip(rows, run_jobs(Path(__file__), work, processes, LIMIT_SECONDS, progress), strict=True):
        row |= outcome.result or {"faults": [outcome.failure]}


def sound(arguments: argparse.Namespace, folder: Path) -> int:
    """Compile the samples, run them where a GPU is, and print a table."""
    started = time.perf_counter()
    rows = emit_all("emit_samples", arguments.processes, folder, arguments.products)
    compile_rows(rows, arguments.processes, lambda r: None if r.ok else str(r.findings[0])[:200])
    runs = torch.cuda.is_available() and not arguments.dry_run
    if runs:
        run_rows(rows, arguments.processes)
    wrong = [row for row in rows if row["findings"] or row.get("faults")]
    print(f"{'product':<16} {'dtype':<9} candidates  spill or fail  wrong  largest rel_err")
    for product, dtype in dict.fromkeys((row["product"], row["dtype"]) for row in rows):
        here = [row for row in rows if (row["product"], row["dtype"]) == (product, dtype)]
        failing, bad = (sum(bool(row.get(what)) for row in here) for what in ("findings", "faults"))
        error = max((row.get("rel_err", 0.0) for row in here), default=0.0)
        print(f"{product:<16} {dtype:<9} {len(here):>10}  {failing:>13}  {bad if runs else '-':>5}  {error:.2e}")
    for row in wrong[:30]:
        words = "; ".join(row["findings"] + row.get("faults", []))[:200]
        print(f"FAIL  {row['product']} {row['dtype']} {row['point']} ({row['why']}): {words}")
    seconds = round(time.perf_counter() - started)
    print(f"{len(rows)} candidates, {'compiled and run' if runs else 'compiled'}, {len(wrong)} wrong, {seconds} s")
    if arguments.out:
        summary = {"candidates": len(rows), "run": runs, "wrong": len(wrong), "seconds": seconds}
        write_record(arguments.out, "soundness", {"summary": summary, "rows": without_folders(rows)})
    return 1 if wrong else 0


def converse(arguments: argparse.Namespace, folder: Path) -> int:
    """Compile the nearest points outside of the resource rules, and print what became of each."""
    rows = emit_all("emit_outside", arguments.processes, folder, [*arguments.products, *HEAVY])
    compile_rows(rows, arguments.processes, lambda r: None)
    print(f"{'rule':<20} {'product':<16} {'dtype':<9} {'registers':>9} {'spills':>6}  outside point: what happened")
    for row in sorted(rows, key=lambda row: RESOURCE_RULES.index(row["rule"])):
        words = "; ".join(row["findings"]).replace("default_", "")[:120] or "COMPILES: the rule is too tight here"
        print(
            f"{row['rule']:<20} {row['product']:<16} {row['dtype']:<9} {row['registers']:>9} {row['spills']:>6}  "
            f"{row['point']}: {words}"
        )
    by_rule = Counter((row["rule"], bool(row["findings"])) for row in rows)
    loose = [rule for rule in RESOURCE_RULES if by_rule[rule, False] and not by_rule[rule, True]]
    untried = [rule for rule in RESOURCE_RULES if not by_rule[rule, False] + by_rule[rule, True]]
    print(f"too tight for every product: {', '.join(loose) or 'none'}; implied by other rules: {', '.join(untried)}")
    if arguments.out:
        summary = {"points": len(rows), "too_tight": loose, "implied_by_other_rules": untried}
        write_record(arguments.out, "soundness_converse", {"summary": summary, "rows": without_folders(rows)})
    return 1 if loose else 0


def without_folders(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows for a record: the packages are gone by then."""
    return [{key: value for key, value in row.items() if key != "folder"} for row in rows]


def main() -> int:
    """Prove one direction; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, help="folder for the record")
    parser.add_argument("--processes", type=int, default=12)
    parser.add_argument("--products", nargs="+", choices=tuple(PRODUCTS), default=list(PRODUCTS))
    parser.add_argument("--dry-run", action="store_true", help="compile only")
    parser.add_argument("--converse", action="store_true", help="points outside of the rules; needs no GPU")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kgen-soundness-") as folder:
        return (converse if arguments.converse else sound)(arguments, Path(folder))


if __name__ == "__main__":
    sys.exit(main())
