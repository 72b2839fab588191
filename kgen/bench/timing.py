"""Times of kernels on the GPU: graph replays over rotating buffers, in turn.

A timed function is captured in a CUDA graph many times over sets of buffers that together pass the L2 cache three
times, so that every call reads from memory and no launch gap counts. Two functions are replayed in the order A B B A,
so that clocks and temperature meet both alike. Imported in the measuring process only: it needs torch and a GPU.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Protocol

import torch

Tensors = tuple[torch.Tensor, ...]
Function = Callable[..., Any]
L2_PASSES = 3  # the working set, in sizes of the L2 cache
MOST_SETS = (
    512  # of buffers: below 0.4 MB a call the L2 stays warm in part, and the report says how many sets there were
)
RUN_US = 3000.0  # a replay takes about this long: events resolve 0.5 us
MOST_CALLS = 2000  # in one graph
MOST_REPEATS = 64  # of a graph in a burst
WARM_UP_MS = 200.0  # a large product takes about that long to bring the clocks down to what they stay at
LEAST_TURNS, SERIES_S = 6, 20.0  # of one series
HOST_CALLS, HOST_BATCHES = 20, 25  # few enough calls that the launch queue (1024 deep) never makes the host wait


class Timed(Protocol):
    """Something that runs `calls` calls and says how long one took."""

    @property
    def calls(self) -> int:
        """Calls of one run."""
        ...

    def us(self) -> float:
        """Run once and return microseconds per call."""
        ...


@dataclass(frozen=True, slots=True)
class Replay:
    """A captured graph of `calls` calls; it owns the results' memory, one per set of buffers."""

    graph: torch.cuda.CUDAGraph
    calls: int
    results: tuple[Any, ...]

    def us(self) -> float:
        """Replay once and return microseconds per call."""
        return _timed_us(self.graph.replay) / self.calls


@dataclass(frozen=True, slots=True)
class Burst:
    """Replays on end as one run, for what has to last until clocks have followed the power."""

    replay: Replay
    repeats: int

    @property
    def calls(self) -> int:
        """Calls of one run."""
        return self.replay.calls * self.repeats

    def us(self) -> float:
        """Run once and return microseconds per call."""
        return _timed_us(self._run) / self.calls

    def _run(self) -> None:
        for _ in range(self.repeats):
            self.replay.graph.replay()


def burst(replay: Replay, run_us: float) -> Burst:
    """Return as many replays as fill a time."""
    replay_us = replay.us() * replay.calls
    return Burst(replay, max(1, min(math.ceil(run_us / replay_us), MOST_REPEATS)))


@dataclass(frozen=True, slots=True)
class Loop:
    """Calls from the host, for a function that no graph can capture: launch gaps count."""

    function: Function
    sets: tuple[Tensors, ...]
    calls: int

    def us(self) -> float:
        """Call once per set, round after round, and return microseconds per call."""
        return _timed_us(self._run) / self.calls

    def _run(self) -> None:
        for number in range(self.calls):
            self.function(*self.sets[number % len(self.sets)])


def set_count(bytes_per_call: int, l2_bytes: int) -> int:
    """Return how many sets of buffers are needed for cold caches."""
    return min(MOST_SETS, max(2, math.ceil(L2_PASSES * l2_bytes / max(1, bytes_per_call))))


def call_us(function: Function, sets: Sequence[Tensors]) -> float:
    """Return roughly how long a call takes, launch gaps included: only to size what is timed."""
    for tensors in sets[:2]:
        function(*tensors)
    torch.cuda.synchronize()
    return min(_timed_us(lambda: function(*sets[0])) for _ in range(3))


def capture(function: Function, sets: Sequence[Tensors], expected_us: float) -> Replay:
    """Capture calls over all sets, as often as fills the time of a run; each set has a result of its own."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(stream):
        for tensors in sets[:2]:
            function(*tensors)
    torch.cuda.synchronize()
    rounds = _rounds(expected_us, len(sets))
    graph = torch.cuda.CUDAGraph()
    results: list[Any] = [None] * len(sets)
    with torch.cuda.graph(graph):
        for _ in range(rounds):
            for place, tensors in enumerate(sets):
                results[place] = function(*tensors)
    return Replay(graph, rounds * len(sets), tuple(results))


def loop(function: Function, sets: Sequence[Tensors], expected_us: float) -> Loop:
    """Return the same calls made from the host."""
    return Loop(function, tuple(sets), _rounds(expected_us, len(sets)) * len(sets))


def in_turn(first: Timed, second: Timed, count: int) -> list[tuple[float, float]]:
    """Return `count` pairs of times (first, second), each the mean of two runs in the order A B B A.

    Fewer, but LEAST_TURNS, where so many would take longer than a series may.
    """
    warm_up(first, second)
    turn_us = 2 * sum(one.us() * one.calls for one in (first, second))
    pairs = []
    for _ in range(min(count, max(LEAST_TURNS, int(SERIES_S * 1e6 / turn_us)))):
        a1, b1, b2, a2 = first.us(), second.us(), second.us(), first.us()
        pairs.append(((a1 + a2) / 2, (b1 + b2) / 2))
    return pairs


def round_robin(timed: Sequence[Timed], count: int) -> list[list[float]]:
    """Return `count` times of each, taken forth and back over all of them."""
    warm_up(*timed)
    times: list[list[float]] = [[] for _ in timed]
    for _ in range(count):
        for place in (*range(len(timed)), *reversed(range(len(timed)))):
            times[place].append(timed[place].us())
    return times


def warm_up(*timed: Timed) -> None:
    """Run until clocks have settled."""
    spent = 0.0
    while spent < WARM_UP_MS * 1e3:
        spent += sum(one.us() * one.calls for one in timed)


def host_us(function: Function, tensors: Tensors) -> float:
    """Return what a call costs the host, in microseconds: few calls at a time, so that the GPU is never waited for."""
    samples = []
    for _ in range(HOST_BATCHES):
        torch.cuda.synchronize()
        started = time.perf_counter()
        for _ in range(HOST_CALLS):
            function(*tensors)
        samples.append((time.perf_counter() - started) * 1e6 / HOST_CALLS)
    torch.cuda.synchronize()
    return median(samples[HOST_BATCHES // 5 :])


def _rounds(expected_us: float, sets: int) -> int:
    return max(1, min(round(RUN_US / (expected_us * sets)), MOST_CALLS // sets))


def _timed_us(run: Callable[[], object]) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    start.record()
    run()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) * 1e3
