"""The order and the number of turns, with arms that only count; the timing itself needs a GPU."""

import pytest

from kgen.bench import timing


class Arm:
    """Writes down when it runs; takes as long as it is told."""

    def __init__(self, name: str, us: float, log: list[str]) -> None:
        self.name, self.calls, self._us, self._log = name, 10, us, log

    def us(self) -> float:
        self._log.append(self.name)
        return self._us


def test_the_order_is_a_b_b_a() -> None:
    log: list[str] = []
    pairs = timing.in_turn(Arm("A", 2e4, log), Arm("B", 4e4, log), 7)
    assert pairs == [(2e4, 4e4)] * 7
    assert "".join(log[-28:]) == "ABBA" * 7


def test_warming_up_takes_its_time_before_the_first_turn() -> None:
    log: list[str] = []
    timing.in_turn(Arm("A", 100.0, log), Arm("B", 100.0, log), 6)
    warm = len(log) - 4 * 6 - 2  # two runs tell how long a turn takes
    assert warm * 100.0 * 10 >= timing.WARM_UP_MS * 1e3


@pytest.mark.parametrize(("us", "turns"), [(1e3, 40), (2e4, 25), (1e6, timing.LEAST_TURNS)])
def test_slow_kernels_get_fewer_turns(us: float, turns: int) -> None:
    assert len(timing.in_turn(Arm("A", us, []), Arm("B", us, []), 40)) == turns  # of four runs of ten calls


def test_sets_pass_the_cache_three_times_and_are_never_too_many() -> None:
    assert timing.set_count(6_000_000, 60_000_000) == 30
    assert timing.set_count(10**9, 60_000_000) == 2
    assert timing.set_count(1, 60_000_000) == timing.MOST_SETS
    assert timing.set_count(0, 60_000_000) == timing.MOST_SETS


@pytest.mark.parametrize(("replay_us", "repeats"), [(1e3, 40), (3e3, 14), (1e6, 1), (1.0, timing.MOST_REPEATS)])
def test_a_burst_fills_its_time(replay_us: float, repeats: int) -> None:
    one = timing.burst(Arm("A", replay_us / 10, []), 4e4)  # type: ignore[arg-type]
    assert (one.repeats, one.calls) == (repeats, 10 * repeats)
