"""What became of a regeneration: how much was done of each step, what was finished before, every failure."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from kgen.errors.base import DeviceMissingError
from kgen.regen.tasks import Step

INTERRUPTED = 130  # as shells report SIGINT


@dataclass(frozen=True, slots=True)
class Failure:
    """One package, or one spec, that did not go well, and why."""

    title: str
    step: Step
    reason: str
    exit_code: int

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        return {"package": self.title, "step": str(self.step), "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Summary:
    """The outcome. `done` and `kept` count packages by step: of this run, and of earlier ones.

    `seconds` are those of all processes by stage, `wall_seconds` those of the clock; `absent` are devices that were to
    be measured, and are not here.
    """

    packages: int
    done: Mapping[Step, int]
    kept: Mapping[Step, int]
    failures: tuple[Failure, ...]
    absent: tuple[str, ...]
    seconds: Mapping[str, float]
    wall_seconds: float
    records: int
    is_interrupted: bool = False

    @property
    def exit_code(self) -> int:
        """What the command line returns for it."""
        if self.is_interrupted:
            return INTERRUPTED
        nothing_measured = bool(self.absent) and not self.done[Step.BENCH] + self.kept[Step.BENCH]
        return max(
            (f.exit_code for f in self.failures), default=DeviceMissingError.exit_code if nothing_measured else 0
        )

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        return {
            "packages": self.packages,
            "done": {str(step): count for step, count in self.done.items()},
            "finished_before": {str(step): count for step, count in self.kept.items()},
            "failures": [failure.to_json() for failure in self.failures],
            "not_here": list(self.absent),
            "seconds": {name: round(value, 3) for name, value in self.seconds.items()},
            "wall_seconds": round(self.wall_seconds, 3),
            "new_records": self.records,
            "interrupted": self.is_interrupted,
        }


class Tally:
    """Counts while a run goes on."""

    def __init__(self) -> None:
        self.done: Counter[Step] = Counter()
        self.kept: Counter[Step] = Counter()
        self.seconds: Counter[str] = Counter()
        self.failures: list[Failure] = []
        self.records = 0

    def spend(self, seconds: Mapping[str, float]) -> None:
        """Add seconds by stage."""
        for name, value in seconds.items():
            self.seconds[name] += value  # type: ignore[assignment]
