"""Soundness of the rules for CDNA, with no GPU: legal candidates compile within the machine; what is outside does not.

    python tests/cdna/soundness.py                                  every set of both ISAs, both directions: a table
    python tests/cdna/soundness.py --target mi300x --of-commit 2    a point of either side of two sets that a hash picks

Inside are every n/20-th legal candidate in solver order and two on the edge of each rule. One that spills, or whose
machine code has other LDS or threads than the plan, fails. Outside is the nearest point that breaks a rule about LDS or
registers, that rule alone: it must spill or not compile. Of the rules of `NOT_MONOTONE` it may fit, where the compiler
spills with fewer registers elsewhere: those are listed with what they take. A rule whose points all break another one
too has none.
"""

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "gpu"))
from choices import Base, sampled_rows, write_choice
from programs import commit
from sets import sets

from kgen.check import CheckResult, check_packages
from kgen.planning.candidates import candidate_at
from kgen.rules.edges import edge_points
from kgen.rules.solve import BoundRules, Point, solve

TARGETS = ("mi300x", "mi355x")
# The rules about LDS and registers: a point outside of one alone must not fit.
RESOURCE_RULES = (
    "smem",
    "accumulators",
    "registers",
    "printed_masks",
    "printed_wide",
    "printed_deep",
    "printed_ends",
    "printed_full",
    "printed_parts",
    "printed_pieces",
    "printed_computed",
    "printed_converted",
    "printed_one",
    "printed_registers",
)
# Rules on whose far side the compiler's choices vary: some kernels spill, the nearest one need not. frontier.csv has
# what was compiled there, docs/cdna_gemm.md the counts.
NOT_MONOTONE = (
    "printed_converted",
    "printed_wide",
    "printed_deep",
    "printed_pieces",
    "printed_computed",
    "printed_registers",
)
MONOTONE = tuple(rule for rule in RESOURCE_RULES if rule not in NOT_MONOTONE)


@dataclass(frozen=True, slots=True)
class Sample:
    """A package of one candidate and why it was taken: a row or an edge, or the rule that it is outside of."""

    folder: Path
    target: str
    product: str
    why: str
    point: str
    is_inside: bool
    registers: int  # that a lane has


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a sample: what it was compiled to, and what is not as the rules say."""

    sample: Sample
    used: int
    spills: int
    exceeds: bool
    problem: str

    def __str__(self) -> str:
        one = self.sample
        made = f"{self.used} of {one.registers} registers, {self.spills} spilled"
        words = self.problem or ("does not fit" if self.exceeds else "fits")
        verdict = "FAIL" if self.problem else "ok"
        return f"  {verdict} {one.target} {one.product} ({one.why}): {one.point}: {made}: {words}"


def sampled_points(bound: BoundRules) -> dict[Point, str]:
    """Return the sampled points with why each was taken."""
    legal = solve(bound)
    points = {legal.point(row): f"row {row} of {legal.count}" for row in sampled_rows(legal.count)}
    for rule in bound.rules.rules:
        for point in edge_points(bound, rule.name).inside:
            points.setdefault(point, f"edge of {rule.name}")
    return points


def inside(target: str, name: str, base: Base, folder: Path) -> list[Callable[[], Sample]]:
    """Return what writes each of the samples of one set."""
    return [
        partial(_inside, target, name, base, folder / f"{name}_{number:03}", point, why)
        for number, (point, why) in enumerate(sampled_points(base.bound).items())
    ]


def _inside(target: str, name: str, base: Base, folder: Path, point: Point, why: str) -> Sample:
    candidate = candidate_at(solve(base.bound, dict(point)), 0)
    package = write_choice(base, dict(point), folder)
    return Sample(package, target, name, why, shown(point), True, candidate.number("thread_regs"))


def outside(
    target: str, name: str, base: Base, folder: Path, rules: Sequence[str] = RESOURCE_RULES
) -> list[Callable[[], Sample]]:
    """Return what writes the nearest points outside of rules of one set."""
    return [
        partial(_outside, target, name, base, folder / f"{name}_{rule}", point, rule)
        for rule in rules
        if base.bound.rules.rule(rule) is not None
        for point in edge_points(base.bound, rule, 1).outside
    ]


def _outside(target: str, name: str, base: Base, folder: Path, point: Point, rule: str) -> Sample:
    candidate = candidate_at(solve(base.bound, dict(point), without=rule), 0)
    package = write_choice(base, dict(solve(base.bound).point(0)), folder, candidate)
    return Sample(package, target, name, rule, shown(point), False, candidate.number("thread_regs"))


DIRECTIONS = {"both": (inside, outside), "inside": (inside,), "outside": (outside,)}


def shown(point: Point) -> str:
    """Return a candidate in a few words."""
    p = dict(point)
    return (
        f"{p['tile_m']}x{p['tile_n']}x{p['tile_k']} stages {p['stages']} warps {p['warps_m']}x{p['warps_n']} "
        f"mma {p['mma']} parts {p['split_k']} {p['load_path']}/{p['store_path']}"
    )


def judged(samples: Sequence[Sample], processes: int) -> Iterator[Outcome]:
    """Compile packages and say of each whether it is as the rules say."""
    results = check_packages([sample.folder for sample in samples], jobs=processes)
    for sample, result in zip(samples, results, strict=True):
        waves = [k.wave for v in result.variants for k in v.kernels if k.wave]
        used = max((k.registers for v in result.variants for k in v.kernels), default=0)
        spills = sum(wave.vgpr_spills + wave.sgpr_spills for wave in waves)
        failures = [v.failure for v in result.variants if v.failure]
        exceeds = bool(spills or failures)
        problem = _inside_problem(result, failures) if sample.is_inside else _outside_problem(sample, exceeds)
        yield Outcome(sample, used, spills, exceeds, problem)


def _inside_problem(result: CheckResult, failures: Iterable[str]) -> str:
    return "; ".join([*failures, *map(str, result.findings)])


def _outside_problem(sample: Sample, exceeds: bool) -> str:
    """Return why a point that breaks a rule is no proof of it, where it must be one."""
    return "" if exceeds or sample.why in NOT_MONOTONE else "fits: the rule is too tight here"


def of_set(target: str, name: str, options: argparse.Namespace, picked: random.Random | None) -> list[Outcome]:
    """Judge the samples of a set, or, where `picked` takes them, one inside and one outside of a rule with an edge."""
    base = sets()[name](target)
    with tempfile.TemporaryDirectory(prefix="kgen-soundness-") as scratch:
        if picked is None:
            groups = [make(target, name, base, Path(scratch)) for make in DIRECTIONS[options.direction]]
        else:
            groups = [inside(target, name, base, Path(scratch)), outside(target, name, base, Path(scratch), MONOTONE)]
            groups = [[picked.choice(found)] for found in groups if found]
        return list(judged([write() for found in groups for write in found], options.processes))


def row_of(target: str, name: str, outcomes: Sequence[Outcome]) -> str:
    """Return the row of a set in the table."""
    within = [o for o in outcomes if o.sample.is_inside]
    beyond = [o for o in outcomes if not o.sample.is_inside]
    bad, exceeds = sum(bool(o.problem) for o in within), sum(o.exceeds for o in beyond)
    fits = ", ".join(o.sample.why for o in beyond if not o.exceeds) or "-"
    return f"{target:<7} {name:<20} {len(within):>6} {bad:>4} {len(beyond):>7} {exceeds:>7}  {fits}"


def by_rule(outcomes: Iterable[Outcome]) -> Iterator[str]:
    """Yield for each rule how many of its nearest outside points do not fit."""
    counts = Counter((o.sample.why, o.exceeds) for o in outcomes if not o.sample.is_inside)
    for rule in RESOURCE_RULES:
        if total := counts[rule, True] + counts[rule, False]:
            yield f"{rule:<20} {counts[rule, True]:>3} of {total} nearest points outside do not fit"


def main() -> int:
    """Judge the sets of the targets and print the table; 1 if anything is not as the rules say."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--target", choices=TARGETS, nargs="+", default=TARGETS)
    parser.add_argument("--only", nargs="+", default=[""], help="sets whose name starts so")
    parser.add_argument("--of-commit", type=int, default=0, metavar="N", help="N sets that the commit's hash picks")
    parser.add_argument("--direction", choices=tuple(DIRECTIONS), default="both")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--all", action="store_true", help="print every point, not only what fails or fits outside")
    options = parser.parse_args()
    chosen = [(t, name) for t in options.target for name in sets() if name.startswith(tuple(options.only))]
    picked = random.Random(commit()) if options.of_commit else None
    if picked is not None:
        chosen = picked.sample(chosen, options.of_commit)
    found: list[Outcome] = []
    print(f"{'target':<7} {'set':<20} {'inside':>6} {'bad':>4} {'outside':>7} {'exceeds':>7}  outside of these it fits")
    for target, name in sorted(chosen):
        outcomes = of_set(target, name, options, picked)
        print(row_of(target, name, outcomes), flush=True)
        for outcome in outcomes:
            if outcome.problem or options.all or not (outcome.sample.is_inside or outcome.exceeds):
                print(outcome, flush=True)
        found += outcomes
    print(*by_rule(found), sep="\n")
    wrong = sum(bool(outcome.problem) for outcome in found)
    print(f"{len(chosen)} sets, {len(found)} packages, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
