"""The measuring process of a probe: torch and the GPU, nothing of the compiler; `measure` is its other side.

Run as `python -m kgen.probe.measuring`. It answers one JSON request, a line of its standard input, with one JSON event
a line:
    ready      it is up
    device     the GPU as torch sees it
    step       what comes next, for whoever waits
    samples    of one workload: microseconds per call, taken in turn with all others of its kind
    cached     of the two copies inside of the L2: pairs of such times
    products   the clock and the power while the products ran
    sustained  one product on end: times of the second half, with its clock and power
    skipped    what this torch or this GPU cannot run, and why
    failed     why it ended early
    done       the end
"""

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

import torch

from kgen.bench.timing import Burst, Replay, burst, call_us, capture, round_robin
from kgen.check.compile_runner import open_channel, tell, told
from kgen.probe.alone import alone, flush_of, forth_and_back
from kgen.probe.sensors import Watch, sensor_of
from kgen.probe.workloads import Work, memory_works, product_works

Event = dict[str, Any]
Timed = tuple[Work, Replay]


def measure(request: Mapping[str, Any]) -> Iterator[Event]:
    """Yield the events of a request."""
    yield {"event": "device", **device()}
    torch.set_grad_enabled(False)
    yield _step("memory")
    yield from _memory(request)
    torch.cuda.empty_cache()
    yield from _products(request)


def device() -> Event:
    """Return the GPU as torch sees it."""
    found = torch.cuda.get_device_properties(0)
    isa = found.gcnArchName.partition(":")[0] if torch.version.hip else f"sm_{found.major}{found.minor}"
    units = found.multi_processor_count
    return {"name": found.name, "isa": isa, "compute_units": units, "torch": torch.__version__}


def _memory(request: Mapping[str, Any]) -> Iterator[Event]:
    """Time copies, reads and the empty kernel in turn; their buffers are freed with this function's end."""
    made: list[Timed] = []
    for work in memory_works(request):
        yield from _prepared(work, made)
    if not made:
        return
    times = round_robin([replay for _, replay in made], request["rounds"])
    cached = [t for (work, _), t in zip(made, times, strict=True) if work.quantity == "l2_copy_bandwidth"]
    for (work, _), of_work in zip(made, times, strict=True):
        if work.quantity != "l2_copy_bandwidth":
            yield _samples(work, of_work)
    if len(cached) == 2:
        pairs = list(zip(*cached, strict=True))
        yield {"event": "cached", "bytes": [2 * size for size in request["cached"]], "us": pairs}


def _products(request: Mapping[str, Any]) -> Iterator[Event]:
    made: list[Timed] = []
    for products in request["products"]:
        yield _step(f"products of {products['dtype']}")
        try:
            works = list(product_works(products, request))
        except Exception as error:  # this torch has no such type, or memory is short
            yield {"event": "skipped", "quantity": products["dtype"], "reason": _brief(error)}
            continue
        for work in works:
            yield from _prepared(work, made)
    if not made:
        return
    yield _step("all products in turn")
    flush, sensor = flush_of(request), sensor_of(request["api"], request["sensor"])
    with Watch(sensor) as watch:
        times, spans = forth_and_back([alone(work, flush, request) for work, _ in made], request["product_rounds"])
        yield {"event": "products", **watch.within(*spans)}
    for (work, _), of_work in zip(made, times, strict=True):
        yield _samples(work, of_work)
    yield _step("one product on end")
    work, replay = made[_fastest(made, times)]
    with Watch(sensor) as watch:
        one = burst(replay, request["burst_us"])
        yield {"event": "sustained", "quantity": work.quantity, **_named(work), **_on_end(one, request, watch)}


def _prepared(work: Work, made: list[Timed]) -> Iterator[Event]:
    """Capture a workload into `made`, or say why it cannot run."""
    try:
        made.append((work, capture(work.function, work.sets, call_us(work.function, work.sets))))
    except Exception as error:
        yield {"event": "skipped", "quantity": work.quantity, "reason": f"{work.label}: {_brief(error)}"}


def _fastest(made: Sequence[Timed], times: Sequence[list[float]]) -> int:
    """Return the place of the fastest product of the type that was asked for first, of those that run."""
    dtype = made[0][0].quantity
    rates = [
        (work.amount / median(of_work), place)
        for place, ((work, _), of_work) in enumerate(zip(made, times, strict=True))
        if work.quantity == dtype
    ]
    return max(rates)[1]


def _on_end(one: Burst, request: Mapping[str, Any], watch: Watch) -> Event:
    """Run one burst after the other and keep the second half."""
    seconds = request["sustained_seconds"]
    started = time.monotonic()
    times: list[float] = []
    while (now := time.monotonic()) < started + seconds or not times:
        us = one.us()
        if now >= started + seconds / 2:
            times.append(us)
    return {"us": times, **watch.within((started + seconds / 2, time.monotonic()))}


def _samples(work: Work, times: list[float]) -> Event:
    return {"event": "samples", "quantity": work.quantity, **_named(work), "us": times}


def _named(work: Work) -> Event:
    return {"label": work.label, "amount": work.amount}


def _step(what: str) -> Event:
    return {"event": "step", "what": what}


def _brief(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else 'no reason given'}"


def main() -> None:
    """Answer one request; what is printed meanwhile goes to standard error."""
    channel = open_channel()
    try:
        for event in measure(json.loads(sys.stdin.readline())):
            tell(channel, event)
    except BaseException as error:
        tell(channel, {"event": "failed", "error": told(error)})
    tell(channel, {"event": "done"})


if __name__ == "__main__":
    main()
