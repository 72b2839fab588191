"""Products as a program meets them that runs one now and then: after a rest, each call out of a cold L2.

A product on end draws more power than the limit allows, and the clock follows within tens of milliseconds: then the
rate says what the limit is, and `sustained_mma` is that rate. Here the GPU rests before each run, warms up shortly, and
an emptied L2 parts the calls, as in triton's `do_bench`.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kgen.bench.timing import call_us
from kgen.probe.workloads import Work

FLUSH_L2 = 4  # bytes that are written between two calls, in sizes of the L2


@dataclass(frozen=True, slots=True)
class Alone:
    """One workload: `calls` timed calls after `warm_up` calls after a rest; calls are parted by writes of `flush`."""

    work: Work
    flush: torch.Tensor
    warm_up: int
    calls: int
    rest_seconds: float

    def us(self) -> list[float]:
        """Run once and return the microseconds of each call. The host waits only before and after."""
        time.sleep(self.rest_seconds)
        self._run(self.warm_up)
        events = self._run(self.calls)
        torch.cuda.synchronize()
        return [float(start.elapsed_time(end)) * 1e3 for start, end in events]

    def _run(self, calls: int) -> list[tuple[torch.cuda.Event, torch.cuda.Event]]:
        events = []
        for number in range(calls):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            self.flush.zero_()
            start.record()
            self.work.function(*self.work.sets[number % len(self.work.sets)])
            end.record()
            events.append((start, end))
        return events


def alone(work: Work, flush: torch.Tensor, request: Mapping[str, Any]) -> Alone:
    """Return a workload with as many calls as fill the times of a request."""
    us = call_us(work.function, work.sets) + call_us(flush.zero_, ((),))
    warm_up, calls = (max(2, round(request[name] / us)) for name in ("product_warm_up_us", "product_run_us"))
    return Alone(work, flush, warm_up, calls, request["product_rest_seconds"])


def flush_of(request: Mapping[str, Any]) -> torch.Tensor:
    """Return a buffer whose writing empties the L2."""
    l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
    return torch.empty(FLUSH_L2 * l2_bytes, dtype=torch.int8, device=request["device"])


def forth_and_back(timed: Sequence[Alone], rounds: int) -> tuple[list[list[float]], list[tuple[float, float]]]:
    """Return the times of every call of each, and from when to when (`time.monotonic`) something ran."""
    times: list[list[float]] = [[] for _ in timed]
    spans = []
    for _ in range(rounds):
        for place in (*range(len(timed)), *reversed(range(len(timed)))):
            one = timed[place]
            started = time.monotonic() + one.rest_seconds
            times[place] += one.us()
            spans.append((started, time.monotonic()))
    return times, spans
