"""The measurements of one GPU, made in a process of their own: the request, the events, the typed result."""

import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from kgen.check.compile_process import kgens_environment
from kgen.check.event_process import EventProcess, ProcessEnded
from kgen.errors.check import RunnerFailedError
from kgen.errors.probe import OtherGpuError, ProbeFailedError, TorchSeesNoGpuError
from kgen.probe.driver import Facts
from kgen.probe.sizes import Request
from kgen.target import Spread

COMMAND: Sequence[str] = (sys.executable, "-P", "-m", "kgen.probe.measuring")  # -P: no module of the current folder
LIMIT_SECONDS = 60.0  # from one event to the next
_LAUNCH = "launch"


@dataclass(frozen=True, slots=True)
class Sample:
    """What one workload reached, in the unit of its quantity: the median, and the spread of single runs."""

    quantity: str
    label: str
    value: float
    spread: Spread


@dataclass(frozen=True, slots=True)
class Load:
    """Clock and power while something ran; `capped` is the share of readings in which the power limit held it down."""

    mhz: float | None
    watts: float | None
    capped: float | None


@dataclass(frozen=True, slots=True)
class Measurement:
    """What the measuring process found; `skipped` are quantities with the reason why they were not measured."""

    torch: str
    samples: tuple[Sample, ...]
    products: Load
    sustained: Sample | None
    sustained_load: Load
    skipped: tuple[tuple[str, str], ...]

    def best(self, quantity: str) -> Sample | None:
        """Return the highest rate of a quantity, or for a time the only one."""
        found = [sample for sample in self.samples if sample.quantity == quantity]
        return max(found, key=lambda sample: sample.value) if found else None

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return asdict(self)


def measure(facts: Facts, request: Request, step: Callable[[str], object]) -> Measurement:
    """Measure the first GPU that torch sees, which must be the one of the facts; `step` is told what comes next."""
    with tempfile.TemporaryDirectory(prefix="kgen-probe-", ignore_cleanup_errors=True) as scratch:
        step("torch is imported")
        environment = kgens_environment() | {"HIPBLASLT_ALLOW_TF32": "1"}  # hipBLASLt has tf32 for whoever asks for it
        process = EventProcess(COMMAND, environment, (Path(scratch) / "stderr").open("w+b"))
        try:
            process.wait_until_up()
            process.send(asdict(request))
            return measurement_of(_events(process, facts, step))
        except (ProcessEnded, RunnerFailedError) as error:
            reason = f"the measuring process ended ({error})"
            if isinstance(error, ProcessEnded):
                reason = f"{reason}\n{process.stderr_tail()}".strip()
            raise ProbeFailedError(gpu=facts.name, reason=reason) from error
        finally:
            process.close()


def measurement_of(events: Sequence[Mapping[str, Any]]) -> Measurement:
    """Return what the events of a whole measurement say."""
    by_name = {event["event"]: event for event in events}
    samples = [_sample(event) for event in events if event["event"] == "samples"]
    if (cached := by_name.get("cached")) is not None and (sample := _cached_sample(cached)) is not None:
        samples.append(sample)
    sustained = by_name.get("sustained")
    return Measurement(
        torch=by_name["device"]["torch"],
        samples=tuple(samples),
        products=_load(by_name.get("products")),
        sustained=None if sustained is None else _sample(sustained),
        sustained_load=_load(sustained),
        skipped=tuple((event["quantity"], event["reason"]) for event in events if event["event"] == "skipped"),
    )


def _events(process: EventProcess, facts: Facts, step: Callable[[str], object]) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    while (event := process.next_event(LIMIT_SECONDS))["event"] != "done":
        match event["event"]:
            case "failed":
                raise _failure(facts, event, started=bool(events))
            case "device":
                _check_same(facts, event)
            case "step":
                step(event["what"])
        events.append(event)
    return events


def _failure(facts: Facts, event: Mapping[str, Any], *, started: bool) -> TorchSeesNoGpuError | ProbeFailedError:
    """Return the error of a process that failed: before it has seen the GPU, that is torch's not seeing it."""
    if started:
        return ProbeFailedError(gpu=facts.name, reason=event["error"])
    return TorchSeesNoGpuError(gpu=facts.name, reason=event["error"].splitlines()[0])


def _check_same(facts: Facts, seen: Mapping[str, Any]) -> None:
    if (facts.isa, facts.compute_units) != (seen["isa"], seen["compute_units"]):
        raise OtherGpuError(
            gpu=facts.name,
            isa=facts.isa,
            units=facts.compute_units,
            other=seen["name"],
            other_isa=seen["isa"],
            other_units=seen["compute_units"],
        )


def _sample(event: Mapping[str, Any]) -> Sample:
    """Return a rate, in 10^12 a second, or the time of a launch."""
    times, amount = event["us"], event["amount"]
    values = times if event["quantity"] == _LAUNCH else [amount / us / 1e6 for us in times]
    return Sample(event["quantity"], event["label"], median(values), spread_of(values))


def _cached_sample(event: Mapping[str, Any]) -> Sample | None:
    """Return the rate of a copy inside of the L2 from pairs of a small and a large one: the launch cancels out.

    `None` where the large one took no longer: then nothing was measured but launches.
    """
    small, large = event["bytes"]
    if any(longer <= shorter for shorter, longer in event["us"]):
        return None
    values = [(large - small) / (longer - shorter) / 1e6 for shorter, longer in event["us"]]
    label = f"{large / 2**20:.3g} MiB less {small / 2**20:.3g} MiB"
    return Sample("l2_copy_bandwidth", label, median(values), spread_of(values))


def spread_of(values: Sequence[float]) -> Spread:
    """Return the 10th and the 90th percentile."""
    if len(values) < 2:
        return Spread(values[0], values[0], len(values))
    tenths = quantiles(values, n=10, method="inclusive")
    return Spread(tenths[0], tenths[-1], len(values))


def _load(event: Mapping[str, Any] | None) -> Load:
    return Load(None, None, None) if event is None else Load(event["mhz"], event["watts"], event["capped"])
