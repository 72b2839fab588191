"""Kernels on both sides of the register rules, compiled with no GPU: the points that the rules of CDNA are fitted to.

    python tests/cdna/frontier.py --target mi300x --minutes 20 --seed 1

appends rows to `frontier.csv`: a candidate that meets every rule but perhaps those about registers, and the registers
and spills that FlyDSL's compiler gave it. Sets take turns; of each group of candidates with the same sums, fragments
and pieces in transit a random one is taken. `tests/unit/test_cdna_register_rules.py` holds the rules to these rows.
"""

import argparse
import csv
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "gpu"))
from choices import Base, write_choice
from sets import sets

from kgen.check.compile import PackageChecker
from kgen.planning.candidates import candidate_at
from kgen.rules.ruleset import turns_of
from kgen.rules.solve import BoundRules, LegalSet, solve

FRONTIER = Path(__file__).with_name("frontier.csv")
REGISTER_RULES = (
    "registers",
    "printed_masks",
    "printed_converted",
    "printed_one",
    "printed_wide",
    "printed_deep",
    "printed_ends",
    "printed_full",
    "printed_parts",
    "printed_pieces",
    "printed_computed",
    "printed_registers",
)
AXES = (
    *("load_path", "store_path", "mma", "warps_m", "warps_n"),
    *("tile_m", "tile_n", "tile_k", "stages", "split_k"),
)
MEASURED = ("registers", "agprs", "sgprs", "vgpr_spills", "sgpr_spills")
COLUMNS = ("target", "set", *AXES, *MEASURED)
GROUPED_BY = ("acc_regs", "thread_regs", "read_ahead", "in_transit", "direct_regs", "mma", "load_path", "store_path")
NEAR = (0.75, 1.15)  # the registers that are counted, of those that a lane has


def without(bound: BoundRules, names: tuple[str, ...]) -> BoundRules:
    """Return the rules without some of them."""
    rules = tuple(rule for rule in bound.rules.rules if rule.name not in names)
    kept = replace(bound.rules, rules=rules, turns=turns_of(bound.rules.axes, bound.rules.lets, rules))
    return replace(bound, rules=kept)


def representatives(points: LegalSet, chance: random.Random) -> list[int]:
    """Return a row of each group of registers near the edge, in random order."""
    columns = {name: np.broadcast_to(points.columns[name], (points.count,)) for name in GROUPED_BY}
    counted = sum(columns[name] for name in ("acc_regs", "read_ahead", "in_transit", "direct_regs"))
    least, most = (share * columns["thread_regs"] for share in NEAR)
    groups: dict[tuple[Any, ...], list[int]] = {}
    for row in np.flatnonzero((counted >= least) & (counted <= most)):
        groups.setdefault(tuple(columns[name][row] for name in GROUPED_BY), []).append(int(row))
    found = [chance.choice(rows) for rows in groups.values()]
    chance.shuffle(found)
    return found


def measured(base: Base, points: LegalSet, row: int, checker: PackageChecker, folder: Path) -> dict[str, Any] | None:
    """Compile one candidate and return what it takes; None where it does not compile."""
    candidate = candidate_at(points, row)
    package = write_choice(base, dict(solve(base.bound).point(0)), folder / "package", candidate)
    kernels = [k for v in checker.check(package).variants for k in v.kernels if k.wave]
    if not kernels:
        return None
    waves = [k.wave for k in kernels if k.wave]
    return {axis: candidate.value(axis) for axis in AXES} | {
        "registers": max(k.registers for k in kernels),
        "agprs": max(w.agprs for w in waves),
        "sgprs": max(w.sgprs for w in waves),
        "vgpr_spills": max(w.vgpr_spills for w in waves),
        "sgpr_spills": max(w.sgpr_spills for w in waves),
    }


def rows(target: str, names: list[str], seed: int, until: float) -> Iterator[dict[str, Any]]:
    """Yield the rows of sets in turn until the time is over."""
    chance, queues = random.Random(seed), {}
    for name in names:
        base = sets()[name](target)
        points = solve(without(base.bound, REGISTER_RULES))
        queues[name] = base, points, representatives(points, chance)
    with tempfile.TemporaryDirectory(prefix="kgen-frontier-") as scratch:
        checker = PackageChecker(Path(tempfile.mkdtemp(dir=scratch)))
        while time.monotonic() < until and any(left for _, _, left in queues.values()):
            for name, (base, points, left) in queues.items():
                folder = Path(tempfile.mkdtemp(dir=scratch))
                if left and (row := measured(base, points, left.pop(), checker, folder)):
                    yield {"target": target, "set": name, **row}
        checker.close()


def main() -> None:
    """Append what can be measured in the time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--target", required=True)
    parser.add_argument("--only", nargs="+", default=[""], help="sets whose name starts so")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    names = [name for name in sets() if name.startswith(tuple(options.only))]
    is_new = not FRONTIER.exists()
    with FRONTIER.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if is_new:
            writer.writeheader()
        for row in rows(options.target, names, options.seed, time.monotonic() + 60 * options.minutes):
            writer.writerow(row)
            file.flush()


if __name__ == "__main__":
    main()
