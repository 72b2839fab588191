"""Few plans for an extent that is known at run time: which candidates, and which of them at which values.

Every candidate is ranked at each value of a grid. A few of them are kept, such that at every value one of them is as
good as the best of all, or nearly; a table says which. Pure arithmetic on predicted times.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kgen.ir.tensor import ExtentRange
from kgen.rules.solve import LegalSet, Point


@dataclass(frozen=True, slots=True)
class Limits:
    """How many plans there may be for values up to `FEW` and for larger ones; each is compiled when first needed."""

    few: int
    many: int


FEW = 128  # rows below which the operand of the other side is all that is read
# The model tells kernels of few rows apart by a percent, where they differ by ten: 15.2 us against 13.7 us at M = 16,
# N = K = 4096 on an H200. There, what it prefers is taken.
TOLERANCE_OF_FEW, TOLERANCE = 0.005, 0.03  # how far behind the best candidate before another plan is added
ALIGNED, ANY_BASE = Limits(4, 5), Limits(1, 2)  # kernels for any base are there to be right
SWITCH = 0.005  # how far behind the best of the plans one may be before the table goes over to it
_NEAR, _FAR = 64, 2048  # the grid has multiples of 64 up to here, more below 256, and beyond multiples of 128
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
    values = [1, 2, 4, *range(8, 65, 8), *range(80, 129, 16), *range(160, 257, 32), *range(_NEAR, _FAR + 1, 64)]
    value = _FAR
    while value < highest:
        value = max(value + 128, round(value * _GROWTH) // 128 * 128)
        values.append(value)
    inside = {value // step * step for value in values if lowest <= value // step * step < highest}
    return (*sorted({lowest, *inside} - {highest}), highest)


def choose(extent: ExtentRange, solved: Solved, limits: Limits) -> Choice:
    """Return few plans and their table. The same range and times give the same choice."""
    grid = grid_of(extent)
    points, times = _times(grid, extent, solved)
    best = times.min(axis=0)
    parts = (
        _Part(times / best, np.where(np.array(grid) <= FEW, _weights(grid), 0.0), TOLERANCE_OF_FEW, limits.few),
        _Part(times / best, np.where(np.array(grid) > FEW, _weights(grid), 0.0), TOLERANCE, limits.many),
    )
    kept = list(dict.fromkeys(row for part in parts if part.weights.any() for row in _few(part)))
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


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Candidates by values: times as ratios to the best, what each value counts, and how few plans are to be found."""

    ratios: np.ndarray
    weights: np.ndarray
    tolerance: float
    most: int

    def lost(self, rows: list[int]) -> float:
        """Return what some rows together lose."""
        return float(self.losses(self.ratios[rows].min(axis=0)[None])[0])

    def best_with(self, kept: list[int]) -> int:
        """Return the row that, added to those kept, loses least; of equal ones the first in the order of the rules."""
        covered = np.minimum(self.ratios[kept].min(axis=0), self.ratios) if kept else self.ratios
        return int(np.argmin(self.losses(covered)))

    def losses(self, ratios: np.ndarray) -> np.ndarray:
        """Return what sets of plans lose: beyond the tolerance it counts a hundred times; no plan at all, most."""
        lost = np.minimum(ratios, 1e3) - 1
        return np.asarray((lost + 100 * np.maximum(lost - self.tolerance, 0)) @ self.weights)

    def suffice(self, rows: list[int]) -> bool:
        """Return whether some rows are within the tolerance at every value that counts."""
        return bool(rows) and bool((self.ratios[rows].min(axis=0)[self.weights > 0] <= 1 + self.tolerance).all())


def _few(part: _Part) -> list[int]:
    """Return the rows of few candidates that are nearly best: as few as are within the tolerance, or `most`.

    One is added after the other, each time the one that helps most; then each is exchanged for a better one while there
    is any.
    """
    kept: list[int] = []
    while len(kept) < part.most and not part.suffice(kept):
        kept = _exchanged(part, [*kept, part.best_with(kept)])
    return kept


def _exchanged(part: _Part, kept: list[int]) -> list[int]:
    lost = part.lost(kept)
    while True:
        for place in range(len(kept)):
            others = [row for i, row in enumerate(kept) if i != place]
            tried = [*others[:place], part.best_with(others), *others[place:]]
            if (found := part.lost(tried)) < lost * (1 - 1e-9):
                kept, lost = tried, found
                break
        else:
            return kept


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
