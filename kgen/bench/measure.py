"""One case of a comparison, measured in a process of its own: the request, the events as they come, the typed result.

Every event is written to the log before the next one is read: the log shows that the parity band stood before the first
timing of the second arm.
"""

import json
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kgen.bench.report import Agreement, Arm, Band, Comparison, Gpu, Launch, Machine
from kgen.bench.statistics import half_width, interval, ratios, spread, verdict_of
from kgen.check.compile_process import kgens_environment
from kgen.check.event_process import EventProcess, ProcessEnded
from kgen.check.gpu import driver_version
from kgen.errors.bench import MeasurementFailedError

TURNS = 40  # A B B A
LIMIT_SECONDS = 90.0  # from one event to the next: a DSL compiles in seconds, and timing one case takes a few
LONG_LIMIT_SECONDS = 600.0  # an extension may be built when it is imported; others may be timing
ORDER = "A B B A"
Events = Mapping[str, Mapping[str, Any]]
_FOLDERS = re.compile(r"(?<![\w.])(?:/[^/\s:\"']+)+/")  # of absolute paths; file names stay


@dataclass(frozen=True, slots=True)
class ArmSource:
    """Where the callable of an arm is: `entry` of a file, or of a module that is imported by its name.

    Of a class, an object is constructed with the arguments.
    """

    file: str | None
    module: str | None
    entry: str
    init_args: tuple[Any, ...] = ()
    init_kwargs: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """One comparison: the first arm is timed against a second build of itself, then against the second arm.

    `limit` is of the arms' difference; `decides` says that it makes the case fail.
    """

    case: str
    first: ArmSource
    second: ArmSource
    inputs: str
    input_kwargs: Mapping[str, Any]
    bytes: int
    limit: float
    decides: bool
    lock: str  # the file that those who time on this GPU take turns by
    turns: int = TURNS


@dataclass(frozen=True, slots=True)
class Measured:
    """What one process found; cubins are files of a folder that the caller removes."""

    machine: Machine
    agreement: Agreement
    comparison: Comparison | None  # None where the arms disagree and that decides
    cubins: Mapping[str, tuple[Path, ...]]  # by arm: first, twin, second
    libraries: tuple[Path, ...]  # extension libraries that the second arm brought along


class Measurer:
    """Measures one case after the other; torch is imported once, and each case has a process of its own.

    Usable as a context manager. It starts importing at once, so that other work may go on meanwhile.
    """

    def __init__(self, scratch: Path, limit_seconds: float = LIMIT_SECONDS) -> None:
        """`scratch` is a private folder that the caller removes."""
        self._scratch = scratch
        self._limit_seconds = limit_seconds
        self._process: EventProcess | None = _started(scratch)
        self._is_up = False

    def __enter__(self) -> "Measurer":
        return self

    def __exit__(self, *raised: object) -> None:
        self._close()

    def measure(self, request: Request, log: Path) -> Measured:
        """Measure one case; raises `MeasurementFailedError` when its process fails, ends or hangs.

        `log` is a file that gets every event.
        """
        folder = Path(tempfile.mkdtemp(dir=self._scratch))
        (folder / "dump").mkdir()
        process = self._up()
        events: dict[str, dict[str, Any]] = {}
        try:
            process.send({**asdict(request), "dump": str(folder / "dump"), "out": str(folder / "out")})
            with log.open("w", encoding="utf-8") as stream:
                for event in _events(process, self._limit_seconds):
                    stream.write(json.dumps(_without_paths(event)) + "\n")
                    stream.flush()
                    events[_key(event)] = event
        except ProcessEnded as error:
            reason = f"the measuring process ended ({error.ending})\n{process.stderr_tail()}".strip()
            self._close()
            raise MeasurementFailedError(case=request.case, reason=reason) from error
        if "failed" in events:
            raise MeasurementFailedError(case=request.case, reason=events["failed"]["error"])
        return _measured(request, events, folder / "out")

    def _up(self) -> EventProcess:
        """Return the process, started anew after one that ended, when it is up."""
        if self._process is None:
            self._process, self._is_up = _started(self._scratch), False
        if not self._is_up:
            self._process.wait_until_up()
            self._is_up = True
        return self._process

    def _close(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None


def _started(scratch: Path) -> EventProcess:
    stderr = Path(tempfile.mkdtemp(dir=scratch)) / "stderr"
    # -P: no module of the current folder may shadow another
    environment = kgens_environment() | {"CUTE_DSL_KEEP": "cubin"}
    return EventProcess([sys.executable, "-P", "-m", "kgen.bench.measuring"], environment, stderr.open("w+b"))


def _events(process: EventProcess, limit_seconds: float) -> Iterator[dict[str, Any]]:
    """Yield the events of a request; a longer limit holds for those that an import or a turn is waited for before."""
    limit = limit_seconds
    while True:
        event = process.next_event(limit)
        if event["event"] == "done":
            return
        limit = LONG_LIMIT_SECONDS if event["event"] in ("machine", "loaded", "waits") else limit_seconds
        yield event


def _key(event: Mapping[str, Any]) -> str:
    return f"{event['event']} {event['arm']}" if "arm" in event else str(event["event"])


def _without_paths(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event as it is kept: where files lay on this machine is nobody's business."""
    kept = dict(event)
    if "libraries" in kept:
        kept["libraries"] = [Path(path).name for path in kept["libraries"]]
    if "error" in kept:
        kept["error"] = _FOLDERS.sub("", kept["error"])
    return kept


def _measured(request: Request, events: Events, out: Path) -> Measured:
    found = {n: events["agreement"][n] for n in ("rel_err", "limit", "operand_scale", "failures")}
    agreement = Agreement(decides=request.decides, **found)
    return Measured(
        machine=_machine(events["machine"]),
        agreement=agreement,
        comparison=None if agreement.fails else _comparison(events),
        cubins={
            arm: tuple(out / arm / name for name in events[f"loaded {arm}"]["cubins"])
            for arm in ("first", "twin", "second")
        },
        libraries=tuple(Path(path) for path in events["loaded second"]["libraries"]),
    )


def comparison_of(log: Path) -> Comparison:
    """Return the comparison that the samples in a log make, by the band and the verdicts as they are defined now."""
    lines = (json.loads(line) for line in log.read_text(encoding="utf-8").splitlines())
    return _comparison({_key(event): event for event in lines})


def _machine(event: Mapping[str, Any]) -> Machine:
    gpu = Gpu(**event["gpu"], driver=driver_version())
    return Machine(gpu=gpu, python=event["python"], versions=event["versions"])


def _comparison(events: Events) -> Comparison:
    band, turns = events["band"], events["comparison"]
    pairs = turns["pairs"]
    width = half_width(band["pairs"])
    ratio = interval(ratios(pairs))
    return Comparison(
        order=ORDER,
        method=turns["method"],
        sets=turns["sets"],
        turns=len(pairs),
        band=Band(
            half_width=width,
            ratio=interval(ratios(band["pairs"])),
            turns=len(band["pairs"]),
            series=band["series"],
            fixed_at=band["at"],
        ),
        kgen=_arm("first", [a for a, _ in pairs], events),
        incumbent=_arm("second", [b for _, b in pairs], events),
        ratio=ratio,
        verdict=verdict_of(ratio.median, width),
        measured_at=turns["at"],
    )


def _arm(name: str, times: list[float], events: Events) -> Arm:
    launches = events["launches"][name]
    return Arm(
        device_us=interval(times),
        spread=spread(times),
        host_us=events["host"][name],
        launches=None if launches is None else tuple(Launch(**launch) for launch in launches),
    )
