"""Few plans for a range: the table covers it, is the same in every run, and gives up no more than it says."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from kgen.families.gemm.rules_facts import GemmFacts
from kgen.ir.tensor import ExtentRange
from kgen.planning.candidates import legal_set
from kgen.planning.dynamic import ALIGNED, FEW, Choice, Limits, choose, grid_of
from kgen.planning.rank import rank_gemm
from kgen.rules.solve import LegalSet
from kgen.target import load_device

H200 = load_device("h200")
M = ExtentRange("M", 1, 2048)


def solver(n: int, k: int) -> Callable[[int], tuple[LegalSet, np.ndarray]]:
    @cache
    def solved(value: int) -> tuple[LegalSet, np.ndarray]:
        facts = GemmFacts(m=value, n=n, k=k)
        legal = legal_set(facts, H200)
        return legal, rank_gemm(legal.columns, facts, H200).total

    return solved


@pytest.fixture(scope="module")
def solved() -> Callable[[int], tuple[LegalSet, np.ndarray]]:
    return solver(4096, 4096)


@pytest.fixture(scope="module")
def choice(solved: Callable[[int], tuple[LegalSet, np.ndarray]]) -> Choice:
    return choose(M, solved, ALIGNED)


@pytest.mark.parametrize(
    "extent",
    [
        M,
        ExtentRange("M", 0, 64),
        ExtentRange("M", 8, 8192, 8),
        ExtentRange("M", 100, 101),
        ExtentRange("M", 3, 10**6, 7),
    ],
    ids=str,
)
def test_the_grid_lies_in_the_range_and_ends_where_it_ends(extent: ExtentRange) -> None:
    grid, step = grid_of(extent), extent.multiple_of
    assert list(grid) == sorted(set(grid))
    assert grid[-1] == extent.hi // step * step
    assert grid[0] == max(-(-extent.lo // step) * step, step)
    assert all(value % step == 0 for value in grid) and len(grid) < 260


def test_the_table_covers_the_range_without_gaps(choice: Choice) -> None:
    assert (choice.reaches[0].first, choice.reaches[-1].last) == (M.lo, M.hi)
    for one, other in zip(choice.reaches, choice.reaches[1:], strict=False):
        assert other.first == one.last + 1 and one.plan != other.plan
    assert sum(r.points for r in choice.reaches) == len(grid_of(M))


def test_a_row_says_what_its_plan_gives_up(
    choice: Choice, solved: Callable[[int], tuple[LegalSet, np.ndarray]]
) -> None:
    for reach in choice.reaches:
        ratios = []
        for value in (v for v in grid_of(M) if reach.first <= v <= reach.last):
            legal, times = solved(value)
            row = next(i for i in range(legal.count) if legal.point(i) == choice.plans[reach.plan])
            ratios.append(times[row] / times.min())
        assert max(ratios) == pytest.approx(reach.worst, abs=2e-3)
        assert ratios[-1] == pytest.approx(reach.time_us / reach.best_us, abs=2e-3)


def test_powers_of_two_are_within_a_tenth_and_most_plans_are_used(choice: Choice) -> None:
    assert len(choice.plans) <= ALIGNED.few + ALIGNED.many
    for reach in choice.reaches:
        if reach.last & (reach.last - 1) == 0:
            assert reach.time_us <= 1.1 * reach.best_us


def test_few_rows_take_what_the_model_prefers(choice: Choice) -> None:
    for reach in choice.reaches:
        if reach.last <= 32:
            assert reach.worst <= 1.011, reach


def test_a_limit_holds_on_each_side(solved: Callable[[int], tuple[LegalSet, np.ndarray]]) -> None:
    found = choose(M, solved, Limits(1, 1))
    assert len(found.plans) <= 2
    few = choose(ExtentRange("M", 1, FEW), solved, Limits(2, 0))
    assert len(few.plans) == 2 and few.reaches[-1].last == FEW
    many = choose(ExtentRange("M", FEW + 1, 512), solved, Limits(0, 2))
    assert len(many.plans) == 2 and many.reaches[0].first == FEW + 1


def test_one_plan_is_enough_where_one_is_best() -> None:
    narrow = choose(ExtentRange("M", 8000, 8192), solver(8192, 8192), ALIGNED)
    assert len(narrow.plans) == 1 and len(narrow.reaches) == 1


def test_the_choice_is_the_same_in_every_run(
    choice: Choice, solved: Callable[[int], tuple[LegalSet, np.ndarray]]
) -> None:
    assert choose(M, solved, ALIGNED) == choice


def test_a_plan_is_legal_at_every_value_of_its_rows(
    choice: Choice, solved: Callable[[int], tuple[LegalSet, np.ndarray]]
) -> None:
    for reach in choice.reaches:
        for value in {reach.first, reach.last}:
            legal, _ = solved(value)
            assert any(legal.point(i) == choice.plans[reach.plan] for i in range(legal.count))
