"""Times of kernels on the GPU: graph replays over rotating buffers, in turn, with order-statistic intervals.

A timed function is captured in a CUDA graph many times over sets of buffers that together pass the L2 cache three
times, so that every call reads from memory and no launch gap counts. Two functions are replayed in the order A B B A,
so that clocks and temperature meet both alike.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import torch

Tensors = tuple[torch.Tensor, ...]
L2_PASSES = 3  # the working set, in sizes of the L2 cache
GRAPH_US = 3000.0  # a replay takes about this long: events resolve 0.5 us
WARM_UP_MS = 60.0


@dataclass(frozen=True, slots=True)
class Interval:
    """A median with the 95 % interval that the order statistics of the samples give it."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.3f} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True, slots=True)
class Replay:
    """A captured graph of `calls` calls; it owns the results' memory."""

    graph: torch.cuda.CUDAGraph
    calls: int
    results: Tensors

    def us(self) -> float:
        """Replay once and return microseconds per call."""
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        self.graph.replay()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e3 / self.calls


def set_count(bytes_per_call: int, l2_bytes: int) -> int:
    """Return how many sets of buffers are needed for cold caches."""
    return max(2, math.ceil(L2_PASSES * l2_bytes / bytes_per_call))


def capture(function: Callable[..., torch.Tensor], sets: Sequence[Tensors], predicted_us: float) -> Replay:
    """Capture calls over all sets, as often as fills the time of a replay; each set has a result of its own."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for tensors in sets[:2]:
            function(*tensors)
    torch.cuda.synchronize()
    rounds = max(1, round(GRAPH_US / (predicted_us * len(sets))))
    graph = torch.cuda.CUDAGraph()
    results: list[torch.Tensor] = []
    with torch.cuda.graph(graph):
        for number in range(rounds):
            for place, tensors in enumerate(sets):
                out = function(*tensors)
                if number == 0:
                    results.append(out)
                else:
                    results[place] = out
    return Replay(graph, rounds * len(sets), tuple(results))


def warm_up(*replays: Replay) -> None:
    """Replay until clocks have settled."""
    spent = 0.0
    while spent < WARM_UP_MS * 1e3:
        spent += sum(replay.us() * replay.calls for replay in replays)


def in_turn(first: Replay, second: Replay, count: int) -> list[tuple[float, float]]:
    """Return `count` pairs of times (first, second), each the mean of two replays in the order A B B A."""
    warm_up(first, second)
    pairs = []
    for _ in range(count):
        a1, b1, b2, a2 = first.us(), second.us(), second.us(), first.us()
        pairs.append(((a1 + a2) / 2, (b1 + b2) / 2))
    return pairs


def round_robin(replays: Sequence[Replay], count: int) -> list[list[float]]:
    """Return `count` times of each, taken forth and back over all of them."""
    warm_up(*replays)
    times: list[list[float]] = [[] for _ in replays]
    for _ in range(count):
        for place in (*range(len(replays)), *reversed(range(len(replays)))):
            times[place].append(replays[place].us())
    return times


def interval(samples: Sequence[float]) -> Interval:
    """Return the median and its 95 % interval: the order statistics that a fair coin leaves outside 1 time in 40."""
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
