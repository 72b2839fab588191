"""The public cases through `kgen.build`.

    python tests/gpu/public_cases.py --out RECORDS [--big]   on the GPU
    python tests/gpu/public_cases.py --dry-run               without one: what is built

A case is run as `cases_public` asks: every input set, the oracle on the CPU, its own tolerance. A refusal is right only
where the case accepts one.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import case_checking
import cases_public
import torch
from records import write_record
from workers import Job, Outcome, run_jobs

import kgen

TARGET = "h200"
LIMIT_SECONDS = 240.0


def case_of(name: str) -> dict[str, Any]:
    """Return the case of that id."""
    found: dict[str, Any] = next(case for case in cases_public.CASES if case["id"] == name)
    return found


def run_case(name: str, device: str) -> dict[str, Any]:
    """Check one case; on the CPU its kernels are emitted and not run. Run by a child process."""
    case = case_of(name)
    if device == "cuda":
        return {"faults": case_checking.check(case, run=run_built, device=device)}
    return {"faults": emit_case(case)}


def run_built(fn: Any, *tensors: torch.Tensor) -> Any:
    """Run a reference's kernel; one that the case builds again is served from the cache."""
    return kgen.build(fn, tensors, target=TARGET)(*tensors)


def emit_case(case: dict[str, Any]) -> list[str]:
    """Emit the kernels of every input set of a case; return what goes wrong beyond what the case asks for."""
    faults = []
    for label, make, _ in case_checking.input_sets(case):
        try:
            kgen.build(case["fn"], make(), target=TARGET)
        except case.get("raises", ()):
            continue
        except Exception as error:
            if case.get("accept") != "match_or_refuse" or not isinstance(error, NotImplementedError):
                faults.append(f"{label}: {type(error).__name__}: {error}")
            continue
        if "raises" in case:
            faults.append(f"{label}: no error raised")
    return faults


def jobs(device: str, big: bool, only: list[str] | None) -> list[Job]:
    """Return the cases to run."""
    chosen = [c["id"] for c in cases_public.CASES if (big or not c.get("big")) and (not only or c["id"] in only)]
    return [Job(name, "run_case", {"name": name, "device": device}) for name in chosen]


def row_of(outcome: Outcome) -> dict[str, Any]:
    """Return what is recorded of a case."""
    result = outcome.result or {"faults": [outcome.failure]}
    case = case_of(outcome.job.label)
    return {"label": case["id"], "source": case["source"], "seconds": round(outcome.seconds, 2), **result}


def main() -> int:
    """Check the cases and print a table; 1 if any is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, help="folder for the record")
    parser.add_argument("--processes", type=int, default=12)
    parser.add_argument("--only", nargs="+", help="ids of cases")
    parser.add_argument("--big", action="store_true", help="the case of 2^31 elements too (9 GB)")
    parser.add_argument("--dry-run", action="store_true", help="emit only; needs no GPU")
    arguments = parser.parse_args()
    started = time.perf_counter()
    work = jobs("cpu" if arguments.dry_run else "cuda", arguments.big, arguments.only)
    rows = [row_of(o) for o in run_jobs(Path(__file__), work, arguments.processes, LIMIT_SECONDS)]
    wrong = [row for row in rows if row["faults"]]
    for row in rows:
        detail = " ".join("; ".join(row["faults"]).split())[:300]
        print(f"{'FAIL' if row['faults'] else 'ok':<8}{row['label']:<30} {detail}")
    print(f"{len(rows)} run, {len(wrong)} wrong, {time.perf_counter() - started:.0f} s")
    if arguments.out:
        summary = {"run": len(rows), "wrong": len(wrong)}
        write_record(arguments.out, "public_cases", {"summary": summary, "rows": rows})
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
