"""What the scripts that run many programs through `kgen.build` share: the run of all of them, its table and record."""

import argparse
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from records import write_record
from sharding import add_compile_faults, reason_of
from workers import Job, Outcome, run_jobs

Row = dict[str, Any]


def refused(error: Exception) -> Row:
    """Return the outcome of a program that is not built."""
    return {"faults": [reason_of(error)], "refused": isinstance(error, NotImplementedError)}


def row_of(outcome: Outcome) -> Row:
    """Return what is recorded of a program."""
    result = outcome.result or {"faults": [outcome.failure]}
    return {"label": outcome.job.label, "seconds": round(outcome.seconds, 2), **result}


def run_programs(
    script: Path,
    labels: Mapping[int, str],
    arguments: argparse.Namespace,
    limit_seconds: float,
    print_table: Callable[[list[Row]], None],
) -> int:
    """Run, or emit, the programs of a script by index, print and record what became of them; 1 if one is wrong."""
    started = time.perf_counter()
    function = "emit_program" if arguments.dry_run else "run_program"
    work = [Job(label, function, {"index": index}) for index, label in labels.items()]
    rows = [row_of(outcome) for outcome in run_jobs(script, work, arguments.processes, limit_seconds)]
    if arguments.compile:
        add_compile_faults(rows, arguments.processes)
    print_table(rows)
    refusals = sum(row.get("refused", False) for row in rows)
    summary = {"programs": len(work), "wrong": sum(bool(row["faults"]) for row in rows), "refused": refusals}
    print(f"{len(work)} programs, {summary['wrong']} wrong, {refusals} of them refused", end=", ")
    print(f"{time.perf_counter() - started:.0f} s")
    if arguments.out:
        part = "" if arguments.shard == (1, 1) else "_{}_of_{}".format(*arguments.shard)
        write_record(arguments.out, f"{script.stem}{part}", {"summary": summary, "rows": rows})
    return 1 if summary["wrong"] else 0
