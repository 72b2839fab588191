"""The measuring process: one case of one comparison, with the DSL, torch and the GPU; `measure` is its other side.

Run as `python -m kgen.bench.measuring`. It imports torch once, and answers each JSON request, a line of its standard
input, from a process forked for it, with one JSON event a line:
    ready        it is up
    machine      the GPU as its driver describes it, and the versions
    imported     an arm is imported
    waits        for its turn on the GPU
    goes on      has it
    loaded       it is compiled and has run once; its cubins and extension libraries
    agreement    the arms' outputs against each other
    band         A/A: two builds of the first arm in turn. Nothing of the second arm was timed before
    comparison   A B B A: the first arm and the second in turn
    host         what a call costs the host
    launches     the kernels that a call launches
    failed       why it ended early
    done         the end
"""

import json
import os
import platform
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

import torch

from kgen.bench.arms import (
    Arm,
    CubinFolder,
    agreement,
    captured,
    launches_of,
    load_arm,
    representable_scale,
    scaled,
)
from kgen.bench.gpu_lock import GpuLock
from kgen.bench.statistics import BAND_LIMIT, half_width
from kgen.bench.timing import Loop, Replay, Tensors, call_us, host_us, in_turn, loop, set_count
from kgen.check.command import ending_of
from kgen.check.compile_runner import die_with_parent, load, open_channel, tell, told
from kgen.check.toolchain import installed_version

DISTRIBUTIONS = ("torch", "triton", "nvidia-cutlass-dsl", "apache-tvm-ffi", "flydsl")
SEED = 0
BAND_SERIES = 3  # of A/A turns, while the device has not settled; the last one makes the band
ARMS = {"first": "first", "twin": "first", "second": "second"}  # arm -> side of the comparison; the twin makes A/A
Event = dict[str, Any]
WAITS, GOES_ON = {"event": "waits"}, {"event": "goes on"}


def measure(request: Mapping[str, Any]) -> Iterator[Event]:
    """Yield the events of one request; others may use the GPU, but not while it times."""
    yield {"event": "machine", **machine()}
    torch.set_grad_enabled(False)
    case, lock = _Case(request), GpuLock(Path(request["lock"]))
    for name, side in ARMS.items():
        yield case.load(name, request[side])
        yield case.run(name)  # compiles for seconds, runs for a moment: nobody waits for that
    yield WAITS
    with lock.shared():
        yield GOES_ON
        yield {"event": "agreement", **case.agreement()}
        timed = case.timed()
    yield WAITS
    with lock.alone():
        yield GOES_ON
        yield from _times(case, timed, request["turns"])
    first, _, second = case.arms
    # last, for tracing slows down what comes after it
    yield {"event": "launches", **{a.name: launches_of(a.function, case.sets[0]) for a in (first, second)}}


def _times(case: "_Case", timed: list[Replay | Loop], turns: int) -> Iterator[Event]:
    """Yield the band, then the comparison, then what calls cost the host."""
    method = "loop" if isinstance(timed[0], Loop) else "graph"
    for series in range(1, BAND_SERIES + 1):
        pairs = in_turn(timed[0], timed[1], turns)
        yield {"event": "band", "at": now(), "pairs": pairs, "series": series}
        if half_width(pairs) <= BAND_LIMIT:
            break
    started = now()
    pairs = in_turn(timed[0], timed[2], turns)
    yield {"event": "comparison", "at": started, "pairs": pairs, "method": method, "sets": len(case.sets)}
    first, _, second = case.arms
    yield {"event": "host", **{a.name: host_us(a.function, case.sets[0]) for a in (first, second)}}


class _Case:
    """The arms of one case and their operands: what all of them are run and timed on."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        self._request = request
        self._cubins = CubinFolder(Path(request["dump"]), Path(request["out"]))
        self._inputs = load(request["inputs"], "kgen_bench_inputs")
        self.arms: list[Arm] = []
        self.sets: list[Tensors] = []
        self._scale = 1.0

    def load(self, name: str, request: Mapping[str, Any]) -> Event:
        """Import an arm; an extension may be built by that.

        Its variants are compiled here, not taken from what another process kept: what is timed is what was read.
        """
        os.environ["KGEN_CACHE"] = str(Path(self._request["out"]) / "compiled" / name)
        self.arms.append(load_arm(name, request, SEED, "cuda"))
        return {"event": "imported", "arm": name}

    def run(self, name: str) -> Event:
        """Compile the arm that was imported last by one run, and say which machine code it brought."""
        arm = self.arms[-1]
        arm.function(*self._draw(SEED))
        torch.cuda.synchronize()
        libraries = [str(path) for path in arm.libraries]
        return {"event": "loaded", "arm": name, "cubins": self._cubins.take(name), "libraries": libraries}

    def agreement(self) -> Event:
        """Draw operands that the second arm can represent its output on, and compare the arms on them."""
        first, _, second = (arm.function for arm in self.arms)
        self._scale = representable_scale(second, lambda: self._draw(SEED))
        count = set_count(self._request["bytes"], torch.cuda.get_device_properties(0).L2_cache_size)
        self.sets = [scaled(self._draw(SEED + place), self._scale) for place in range(count)]
        limit = self._request["limit"]
        # operands of its own for each arm: one may update them in place
        ours, theirs = (arm(*scaled(self._draw(SEED), self._scale)) for arm in (first, second))
        found = agreement(ours, theirs, limit)
        return {**found, "limit": limit, "operand_scale": self._scale}

    def timed(self) -> list[Replay | Loop]:
        """Return the three arms ready to be timed, all in the same way."""
        made = [captured(arm, self.sets) for arm in self.arms]
        if any(isinstance(one, Loop) for one in made):
            made = [loop(arm.function, self.sets, call_us(arm.function, self.sets)) for arm in self.arms]
        return made

    def _draw(self, seed: int) -> Tensors:
        made: dict[str, torch.Tensor] = self._inputs._make_inputs(
            **self._request["input_kwargs"], seed=seed, device="cuda"
        )
        return tuple(made.values())


def machine() -> Event:
    """Return the GPU and the versions of what compiles and launches."""
    found = torch.cuda.get_device_properties(0)
    isa = found.gcnArchName.partition(":")[0] if torch.version.hip else f"sm_{found.major}{found.minor}"
    gpu = {"name": found.name, "isa": isa, "compute_units": found.multi_processor_count}
    versions = {name: installed_version(name) for name in DISTRIBUTIONS} | {"CUDA": torch.version.cuda}
    return {"gpu": gpu | {"l2_bytes": found.L2_cache_size}, "python": platform.python_version(), "versions": versions}


def now() -> str:
    """Return the time, UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def serve(request: Mapping[str, Any], channel: TextIO) -> None:
    """Answer one request in this process."""
    started = time.perf_counter()

    def send(event: Event) -> None:
        seconds = round(time.perf_counter() - started, 3)
        tell(channel, {**event, "seconds": seconds})

    os.environ["CUTE_DSL_DUMP_DIR"] = request["dump"]  # read when the DSL is imported, which an arm does
    try:
        for event in measure(request):
            send(event)
    except BaseException as error:
        send({"event": "failed", "error": told(error)})


def main() -> None:
    """Answer requests until standard input ends, each in a forked process; what is printed goes to standard error."""
    channel = open_channel()
    for line in sys.stdin:
        child = os.fork()  # torch is imported, and nothing has used the device yet
        if child == 0:
            die_with_parent()
            serve(json.loads(line), channel)
            os._exit(0)  # destructors of a DSL's modules may crash after the last word was said
        _, status = os.waitpid(child, 0)
        if status != 0:
            ending = ending_of(os.waitstatus_to_exitcode(status))
            tell(channel, {"event": "failed", "error": f"the process ended: {ending}"})
        tell(channel, {"event": "done"})


if __name__ == "__main__":
    main()
