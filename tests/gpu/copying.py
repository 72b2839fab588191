"""Copies of as many bytes as a kernel moves: what a kernel bound by memory is held against.

Two, and the faster counts: `copy_`, that a graph holds as a transfer the driver may give to the copy engine (on an H200
from about a gigabyte on, at two thirds of the speed), and a pointwise kernel of PyTorch's that reads and writes words.
"""

from statistics import median

import torch

from kgen.bench.timing import Replay, capture

COPY = "copy"
_BY_KERNEL = "copy by a kernel"
_WORD = 8  # bytes


def copies(traffic: int, count: int, expected_us: float) -> dict[str, Replay]:
    """Return both copies of half of `traffic` bytes, captured over `count` sets of buffers."""
    words = max(1, traffic // 2 // _WORD)
    halves = [tuple(torch.empty(words, dtype=torch.int64, device="cuda") for _ in range(2)) for _ in range(count)]
    return {
        COPY: capture(lambda to, source: to.copy_(source), halves, expected_us),
        _BY_KERNEL: capture(lambda to, source: torch.bitwise_not(source, out=to), halves, expected_us),
    }


def with_faster_copy(times: dict[str, list[float]]) -> dict[str, list[float]]:
    """Return the samples with those of the faster copy alone, as COPY."""
    faster = min((times[COPY], times[_BY_KERNEL]), key=median)
    return {**{name: samples for name, samples in times.items() if name != _BY_KERNEL}, COPY: faster}


def paired(samples: list[float]) -> list[float]:
    """Return the means of the two runs of each turn of a round robin, there and back."""
    return [(there + back) / 2 for there, back in zip(samples[::2], samples[1::2], strict=True)]
