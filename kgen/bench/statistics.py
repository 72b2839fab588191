"""What samples say: medians with their intervals, ratios of arms timed in turn, the parity band, and verdicts.

Pure arithmetic; `timing` makes the samples. A ratio is kgen's time over the incumbent's: below 1 kgen is faster.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

# Two processes place their buffers differently, which no comparison inside one of them shows: of one product of 1024^3,
# kgen / cuBLAS was 0.982 to 0.994 in four processes on an H200 (2026-11-29). No band is narrower than this, however
# quiet a process was.
BAND_FLOOR = 0.02
# A wider band decides nothing: what differs by less than 3 % could not be told from noise.
BAND_LIMIT = 0.03


class Verdict(StrEnum):
    """How kgen's kernel stands to the incumbent."""

    FASTER = "faster"  # beyond the band
    PARITY = "parity"  # inside the band
    SLOWER = "slower"  # beyond the band
    UNSTABLE = "unstable"  # the band is wider than BAND_LIMIT: nothing is decided


@dataclass(frozen=True, slots=True)
class Interval:
    """A median with the 95 % interval that the order statistics of the samples give it."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.3f} [{self.low:.3f}, {self.high:.3f}]"


def interval(samples: Sequence[float]) -> Interval:
    """Return the median and its 95 % interval: the order statistics that a fair coin leaves outside 1 time in 40.

    Of fewer than six samples it is their whole range, which covers less than 95 %.
    """
    ordered, count = sorted(samples), len(samples)
    outside, tail = 0, 0.5**count
    while outside < count // 2 and tail + math.comb(count, outside + 1) * 0.5**count <= 0.025:
        outside += 1
        tail += math.comb(count, outside) * 0.5**count
    return Interval(median(ordered), ordered[outside], ordered[count - 1 - outside])


def spread(samples: Sequence[float]) -> float:
    """Return the share of the median between the 10th and the 90th percentile."""
    ordered = sorted(samples)
    low, high = ordered[len(ordered) // 10], ordered[len(ordered) - 1 - len(ordered) // 10]
    return (high - low) / median(ordered)


def geomean(values: Sequence[float]) -> float:
    """Return the geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))


def ratios(pairs: Sequence[tuple[float, float]]) -> list[float]:
    """Return first over second of each turn."""
    return [first / second for first, second in pairs]


def half_width(pairs: Sequence[tuple[float, float]]) -> float:
    """Return the half-width of the parity band: how far from 1 the 95 % interval of the A/A ratio reaches.

    The comparison takes as many turns, so its median is as uncertain; the floor adds what differs between processes.
    """
    found = interval(ratios(pairs))
    return max(BAND_FLOOR, 1 - found.low, found.high - 1)


def verdict_of(ratio: float, band: float) -> Verdict:
    """Return how a ratio of kgen over incumbent stands to a band that was fixed before it was measured."""
    if band > BAND_LIMIT:
        return Verdict.UNSTABLE
    if abs(ratio - 1) <= band:
        return Verdict.PARITY
    return Verdict.FASTER if ratio < 1 else Verdict.SLOWER
