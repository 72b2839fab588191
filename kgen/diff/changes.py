"""What differs between two plans of one package: kernels, variants, axes, evidence, resources, times."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kgen.diff.documents import StatedChoice, StatedPlan, StatedVariant

# Lets that say what a variant takes of the device, with the words of a table.
RESOURCES = {
    "threads": "threads",
    "smem_bytes": "smem bytes",
    "thread_regs": "registers a thread",
    "acc_regs": "accumulators a thread",
    "ctas_per_unit": "CTAs on a unit",
}
_SHOWN_LINES = 8
LATENCY_NOISE = 0.03  # relative: measured times without intervals that differ by less count as equal


class Level(StrEnum):
    """What a change is of, most far-reaching first."""

    KERNELS = "kernels"
    CHOICE = "choice"  # an axis of the kernel, or the order of its tiles
    EVIDENCE = "evidence"  # what the machine code must show
    RESOURCE = "resource"  # threads, smem, registers that follow from the choice
    COMPILED = "compiled"  # what the compiler made of it
    PREDICTED = "predicted"
    MEASURED = "measured"
    TEXT = "text"  # kernel.py differs with nothing above
    MADE_BY = "made by"  # versions


@dataclass(frozen=True, slots=True)
class Change:
    """One thing with its values in A and B."""

    level: Level
    what: str
    a: Any
    b: Any

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        return {"level": str(self.level), "what": self.what, "a": self.a, "b": self.b}


def variant_changes(a: StatedVariant, b: StatedVariant) -> tuple[Change, ...]:
    """Return how one variant differs."""
    return tuple(_variant_changes(a, b))


def is_turned(changes: tuple[Change, ...]) -> bool:
    """Whether a choice is another one, so that there is a reason to tell."""
    return any(change.level in (Level.KERNELS, Level.CHOICE) for change in changes)


def _variant_changes(a: StatedVariant, b: StatedVariant) -> Iterator[Change]:
    first, second = a.choice, b.choice
    yield from _differences(Level.CHOICE, first.choices, second.choices)
    yield from _differences(Level.CHOICE, _order_of_tiles(a), _order_of_tiles(b))
    if a.evidence and b.evidence:
        yield from _differences(Level.EVIDENCE, _expected(a), _expected(b))
    yield from _differences(Level.RESOURCE, _resources(first), _resources(second))
    yield from _differences(Level.PREDICTED, _predicted(first), _predicted(second))


def _expected(variant: StatedVariant) -> dict[str, Any]:
    """Return what the machine code must show; the threads are a resource."""
    return {f"expected {name}": value for name, value in variant.evidence.items() if name != "threads"}


def _resources(choice: StatedChoice) -> dict[str, float | None]:
    return {word: choice.derived.get(name) for name, word in RESOURCES.items()}


def _predicted(choice: StatedChoice) -> dict[str, Any]:
    waves = {"grid waves": choice.waves, "waves full": choice.wave_efficiency}
    return {"predicted us": choice.time_us, "bound by": choice.bound_by, **waves}


def _order_of_tiles(variant: StatedVariant) -> dict[str, Any]:
    raster = variant.choice.raster
    return {} if raster is None else {f"order of tiles: {name}": value for name, value in raster.items()}


def _differences(level: Level, a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[Change]:
    for name in dict.fromkeys((*a, *b)):
        if a.get(name) != b.get(name):
            yield Change(level, name, a.get(name), b.get(name))


def plan_changes(a: StatedPlan, b: StatedPlan) -> tuple[Change, ...]:
    """Return how two plans differ beside their variants; of kernel.py only where the device is the same."""
    return tuple(_plan_changes(a, b))


def _plan_changes(a: StatedPlan, b: StatedPlan) -> Iterator[Change]:
    if a.kernels and b.kernels and a.kernels != b.kernels:
        yield Change(Level.KERNELS, "kernels", len(a.kernels), len(b.kernels))
        yield Change(Level.KERNELS, "their lines", _other_lines(a, b), _other_lines(b, a))
    elif _names(a) != _names(b):
        yield Change(Level.KERNELS, "kernels", _names(a), _names(b))
    if a.compiled and b.compiled:
        yield from _differences(Level.COMPILED, a.compiled, b.compiled)
    yield from _measured(a, b)
    if a.device == b.device:
        if None not in (a.kernel_digest, b.kernel_digest) and a.kernel_digest != b.kernel_digest:
            yield Change(Level.TEXT, "kernel.py", a.kernel_digest, b.kernel_digest)
        if a.made_by and b.made_by:
            yield from _differences(Level.MADE_BY, a.made_by, b.made_by)


def _other_lines(plan: StatedPlan, other: StatedPlan) -> list[str]:
    """Return the lines of a plan's kernels that the other plan's have not."""
    known = {line for kernel in other.kernels for line in kernel.splitlines()}
    lines = [line.strip() for kernel in plan.kernels for line in kernel.splitlines() if line not in known]
    return lines[:_SHOWN_LINES]


def _names(plan: StatedPlan) -> dict[str, list[str]]:
    return {case: list(plan.kernels_of(case)) for case in plan.cases}


def _measured(a: StatedPlan, b: StatedPlan) -> Iterator[Change]:
    for case in dict.fromkeys((*a.measured, *b.measured)):
        first, second = a.measured.get(case), b.measured.get(case)
        if first is None or second is None:
            continue  # one side did not measure it: nothing is known to have changed
        if _is_other_speed(first, second):
            for name in ("latency_us", "ratio"):
                if name in first and name in second:
                    yield Change(Level.MEASURED, f"{case}: {name}", first[name], second[name])


def _is_other_speed(a: Mapping[str, float], b: Mapping[str, float]) -> bool:
    """Whether two measurements differ by more than their noise: by the intervals of their ratios if both have one."""
    if all(name in side for side in (a, b) for name in ("ratio_low", "ratio_high")):
        return a["ratio_high"] < b["ratio_low"] or b["ratio_high"] < a["ratio_low"]
    if "latency_us" not in a or "latency_us" not in b:
        return False
    return abs(a["latency_us"] - b["latency_us"]) > LATENCY_NOISE * min(a["latency_us"], b["latency_us"])
