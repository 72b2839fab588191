"""What the scripts that run many jobs share: shards, one-line reasons, and the short table that ends their output."""

import argparse
import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
MOST_FAILURES = 40


def add_arguments(parser: argparse.ArgumentParser, processes: int) -> None:
    """Add the options that these scripts have in common."""
    parser.add_argument("--processes", type=int, default=min(processes, os.cpu_count() or 1))
    parser.add_argument("--shard", type=shard_of, default=(1, 1), metavar="I/N", help="every N-th job, from the I-th")
    parser.add_argument("--dry-run", action="store_true", help="emit only; needs no GPU")
    parser.add_argument("--compile", action="store_true", help="with --dry-run: compile each kernel and read its code")


def shard_of(text: str) -> tuple[int, int]:
    """Return (i, n) of "i/n", counted from 1."""
    index, _, count = text.partition("/")
    found = int(index), int(count)
    if not 1 <= found[0] <= found[1]:
        raise ValueError(text)
    return found


def sharded(items: Sequence[T], shard: tuple[int, int]) -> list[T]:
    """Return the items of a shard."""
    return list(items[shard[0] - 1 :: shard[1]])


def reason_of(error: BaseException) -> str:
    """Return an error in one line."""
    text = " ".join(str(error).split())
    return text if isinstance(error, NotImplementedError) else f"{type(error).__name__}: {text}"


def is_of_the_device(error: BaseException) -> bool:
    """Whether an error may stay with the process that met it."""
    return "CUDA" in str(error) or "cuda" in type(error).__module__


def add_compile_faults(rows: Sequence[dict[str, Any]], processes: int) -> None:
    """Cross-compile the packages that rows name under "folders", and add what is not as their plans say."""
    from kgen.check import check_packages

    of_folder = {folder: row for row in rows for folder in row.get("folders", ())}
    for result in check_packages([Path(folder) for folder in of_folder], jobs=processes):
        of_folder[str(result.folder)]["faults"] += [f"compile: {finding}" for finding in result.findings]


def print_failures(rows: Sequence[dict[str, Any]]) -> None:
    """Print the first failures with a reason in one line, and how often each kind of reason came."""
    wrong = [row for row in rows if row["faults"]]
    for row in wrong[:MOST_FAILURES]:
        print(f"FAIL {row['label'][:110]}\n     {' '.join(row['faults'][0].split())[:220]}")
    kinds = Counter(kind_of(row["faults"][0]) for row in wrong)
    for kind, count in kinds.most_common(25):
        print(f"{count:>5} x {kind}")


def kind_of(fault: str) -> str:
    """Return a fault without its places and numbers."""
    text = re.sub(r"^[^:]*(?:program|py|yaml)[^:]*:\d+: ", "", " ".join(fault.split()))
    return re.sub(r"\d[\d.e+-]*", "#", text)[:110]
