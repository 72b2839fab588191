"""Few plans for an extent that is known at run time: which candidates, and which of them at which values.

Every candidate is ranked at each value of a grid. A few of them are kept, such that at every value one of them is as
good as the best of all, or nearly; a table says which. Pure arithmetic on predicted times.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kgen.ir.tensor import ExtentRange
from kgen.rules.solve import LegalSet, Point

TOLERANCE = 0.03  # how far behind the best candidate a plan may be before another one is added
MOST_PLANS = 8  # for aligned operands; each is compiled by itself when it is first needed
MOST_PLANS_OF_ANY_BASE = 2  # of the kernels that are there to be right
SWITCH = 0.01  # how far behind the best of the plans one may be before the table goes over to it
_NEAR, _FAR = 64, 2048  # the grid has multiples of 64 up to here, and then of 128
_GROWTH = 1.05  # least ratio of neighbours in the grid far out

Solved = Callable[[int], tuple[LegalSet, np.ndarray]]  # value -> the legal set there, and the time of each of its rows


@dataclass(frozen=True, slots=True)
class Reach:
    """A run of neighbouring values that one plan serves: `first..last`, and of `points` of the grid in it its times.

    `worst` is the largest ratio of its time to the best candidate's at one of them; `best_us` is that candidate's time
    at `last`.
    """

    first: int
    last: int
    plan: int
    time_us: float
    best_us: float
    worst: float
    points: int


@dataclass(frozen=True, slots=True)
class Choice:
    """The plans by number, each as a point that gives every axis, and which of them serves which values."""

    plans: tuple[Point, ...]
    reaches: tuple[Reach, ...]


def grid_of(extent: ExtentRange) -> tuple[int, ...]:
    """Return the values that candidates are ranked at; between two of them the larger one stands for all."""
    step = extent.multiple_of
    lowest, highest = max(-(-extent.lo // step) * step, step), extent.hi // step * step
    values = [1, 2, 4, 8, 16, 24, 32, 48, *range(_NEAR, _FAR + 1, 64)]
    value = _FAR
    while value < highest:
        value = max(value + 128, round(value * _GROWTH) // 128 * 128)
        values.append(value)
    inside = {value // step * step for value in values if lowest <= value // step * step < highest}
    return (*sorted({lowest, *inside} - {highest}), highest)


def choose(extent: ExtentRange, solved: Solved, most: int) -> Choice:
    """Return at most `most` plans and their table. The same range and times give the same choice."""
    grid = grid_of(extent)
    points, times = _times(grid, extent, solved)
    best = times.min(axis=0)
    ratios = times / best
    kept = _few(ratios, _weights(grid), most)
    reaches = _reaches(grid, extent, times[kept], best)
    used = sorted({r.plan for r in reaches}, key=lambda plan: next(i for i, r in enumerate(reaches) if r.plan == plan))
    numbered = {plan: number for number, plan in enumerate(used)}
    named = tuple(Reach(r.first, r.last, numbered[r.plan], r.time_us, r.best_us, r.worst, r.points) for r in reaches)
    return Choice(tuple(points[kept[plan]] for plan in used), named)


def _times(grid: tuple[int, ...], extent: ExtentRange, solved: Solved) -> tuple[list[Point], np.ndarray]:
    """Return all candidates and their times, a column for each value of the grid; infinite where one is not legal.

    One that serves a value of the grid also serves those below it, down to the value before: it is legal there, too.
    """
    found: list[tuple[LegalSet, np.ndarray, np.ndarray]] = []
    before = grid[0]
    for value in grid:
        legal, time = solved(value)
        least = before + extent.multiple_of
        also = legal if least >= value else solved(least)[0]
        keep = np.isin(legal.rank_of, also.rank_of)
        found.append((legal, legal.rank_of[keep], time[keep]))
        before = value
    first = found[0][0].ranks
    assert all(legal.ranks == first for legal, _, _ in found), "axes have one domain, whatever the extent"
    ranks = np.unique(np.concatenate([ranks for _, ranks, _ in found]))
    times = np.full((len(ranks), len(grid)), np.inf)
    for column, (_, some, time) in enumerate(found):
        times[np.searchsorted(ranks, some), column] = np.round(time, 3)  # far below what the model resolves
    return [first.point(int(rank)) for rank in ranks], times


def _weights(grid: tuple[int, ...]) -> np.ndarray:
    """Return how much each value counts: as an interval on a logarithmic scale, a power of two as a doubling."""
    pairs = zip((grid[0] / 2, *grid), grid, strict=False)
    return np.array([1.0 if (at & (at - 1)) == 0 else min(float(np.log2(at / before)), 1.0) for before, at in pairs])


def _few(ratios: np.ndarray, weights: np.ndarray, most: int) -> list[int]:
    """Return the rows of few candidates that are nearly best: as few as meet `TOLERANCE`, at most `most`.

    One is added after the other, each time the one that helps most; then each is exchanged for a better one while there
    is any.
    """
    kept: list[int] = []
    while len(kept) < most and (not kept or (ratios[kept].min(axis=0) > 1 + TOLERANCE).any()):
        kept = _exchanged(ratios, weights, [*kept, _best(ratios, weights, kept)])
    return kept


def _exchanged(ratios: np.ndarray, weights: np.ndarray, kept: list[int]) -> list[int]:
    cost = _cost(ratios[kept].min(axis=0)[None], weights)[0]
    while True:
        for place in range(len(kept)):
            others = [row for i, row in enumerate(kept) if i != place]
            row = _best(ratios, weights, others)
            tried = [*others[:place], row, *others[place:]]
            found = _cost(ratios[tried].min(axis=0)[None], weights)[0]
            if found < cost * (1 - 1e-9):
                kept, cost = tried, found
                break
        else:
            return kept


def _best(ratios: np.ndarray, weights: np.ndarray, kept: list[int]) -> int:
    """Return the row that, added to those kept, costs least; of equal ones the first in the order of the rules."""
    covered = np.minimum(ratios[kept].min(axis=0), ratios) if kept else ratios
    return int(np.argmin(_cost(covered, weights)))


def _cost(ratios: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return what sets of plans lose: what lies beyond the tolerance counts a hundred times; no plan at all, most."""
    lost = np.minimum(ratios, 1e3) - 1
    return np.asarray((lost + 100 * np.maximum(lost - TOLERANCE, 0)) @ weights)


def _reaches(grid: tuple[int, ...], extent: ExtentRange, times: np.ndarray, best: np.ndarray) -> tuple[Reach, ...]:
    """Return the table: each plan goes on while it is nearly the best of the plans, the one that reaches furthest."""
    nearly = times <= times.min(axis=0) * (1 + SWITCH)
    found: list[Reach] = []
    start = 0
    while start < len(grid):
        lengths = [_run(nearly[plan, start:]) for plan in range(len(times))]
        plan = max(range(len(times)), key=lambda p: (lengths[p], -float(times[p, start : start + lengths[p]].sum())))
        end = start + lengths[plan] - 1
        ratios = times[plan, start : end + 1] / best[start : end + 1]
        first = grid[start - 1] + extent.multiple_of if start else grid[0]
        last = grid[end]
        found.append(
            Reach(first, last, plan, float(times[plan, end]), float(best[end]), float(ratios.max()), end + 1 - start)
        )
        start = end + 1
    return tuple(found)


def _run(good: np.ndarray) -> int:
    """Return how many leading entries are true."""
    return len(good) if good.all() else int(np.argmin(good))
