"""Intervals, the parity band and verdicts from samples that are written down here."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgen.bench.statistics import (
    BAND_FLOOR,
    BAND_LIMIT,
    Verdict,
    geomean,
    half_width,
    interval,
    ratios,
    spread,
    verdict_of,
)

RATIOS = st.lists(st.floats(0.5, 2.0), min_size=1, max_size=60)


def pairs(*found: float) -> list[tuple[float, float]]:
    return [(ratio * 10.0, 10.0) for ratio in found]


@given(st.lists(st.floats(0.1, 100.0), min_size=1, max_size=80))
def test_an_interval_lies_around_its_median_and_inside_of_the_samples(samples: list[float]) -> None:
    found = interval(samples)
    assert min(samples) <= found.low <= found.median <= found.high <= max(samples)


def test_the_interval_covers_the_median_as_often_as_it_says() -> None:
    draw = random.Random(1)
    hits = 0
    for _ in range(2000):
        found = interval([draw.gauss(0, 1) for _ in range(30)])
        hits += found.low <= 0 <= found.high
    assert 0.94 < hits / 2000 < 0.99


def test_order_statistics_of_thirty_samples() -> None:
    found = interval(range(1, 31))
    assert (found.low, found.median, found.high) == (10, 15.5, 21)  # the table of binomial intervals


def test_few_samples_give_their_range() -> None:
    assert (interval([3.0, 1.0, 2.0]).low, interval([3.0, 1.0, 2.0]).high) == (1.0, 3.0)


def test_the_band_reaches_as_far_as_the_uncertainty_of_the_median() -> None:
    assert half_width(pairs(*[1.0] * 40)) == BAND_FLOOR
    assert half_width(pairs(*[0.95] * 8, *[1.0] * 24, *[1.05] * 8)) == BAND_FLOOR  # the median is certain
    assert half_width(pairs(*[0.96] * 20, *[1.04] * 20)) == pytest.approx(0.04)  # it is not
    assert half_width(pairs(*[0.975] * 20)) == pytest.approx(0.025)  # a constant bias of the second place counts


@given(RATIOS)
def test_no_band_is_below_the_floor(found: list[float]) -> None:
    assert half_width(pairs(*found)) >= BAND_FLOOR


@pytest.mark.parametrize(
    ("ratio", "band", "verdict"),
    [
        (1.0, BAND_FLOOR, Verdict.PARITY),
        (1.0099, 0.01, Verdict.PARITY),
        (1.0101, 0.01, Verdict.SLOWER),
        (0.9899, 0.01, Verdict.FASTER),
        (1.0101, 0.02, Verdict.PARITY),
        (0.5, BAND_LIMIT, Verdict.FASTER),
        (0.5, BAND_LIMIT + 1e-6, Verdict.UNSTABLE),
    ],
)
def test_verdicts(ratio: float, band: float, verdict: Verdict) -> None:
    assert verdict_of(ratio, band) is verdict


def test_ratios_are_of_each_turn() -> None:
    assert ratios([(1.0, 2.0), (3.0, 1.0)]) == [0.5, 3.0]


def test_spread_and_mean() -> None:
    assert spread([100.0] * 10) == 0.0
    assert spread(list(range(1, 11))) == pytest.approx((9 - 2) / 5.5)
    assert geomean([2.0, 8.0]) == pytest.approx(4.0)
    assert math.isclose(geomean([0.5, 2.0]), 1.0)
