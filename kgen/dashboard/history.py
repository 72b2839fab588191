"""The records of one package: which are the latest, which are of the kernel that is there, what changed since.

A change is told between the latest record of a kind and case and the one before it, whatever kernel that was of.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from kgen.dashboard.verdicts import parity_band
from kgen.records import Kind, Record

Series = tuple[Record, ...]  # of one kind and case, oldest first


class Direction(StrEnum):
    """Whether a change is good news."""

    BETTER = "better"
    WORSE = "worse"
    NEUTRAL = "neutral"


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between the latest record and the one before it."""

    what: str  # "latency, case default"
    before: str
    after: str
    direction: Direction


def series_of(records: Iterable[Record]) -> tuple[Series, ...]:
    """Return the records of one package by kind and case, each oldest first; emits, checks, then cases by name."""
    found: dict[tuple[int, str], list[Record]] = {}
    for record in records:
        found.setdefault((_KINDS.index(record.kind), record.case or ""), []).append(record)
    return tuple(tuple(sorted(rows, key=lambda r: (r.at, r.key))) for _, rows in sorted(found.items()))


_KINDS = (Kind.EMIT, Kind.CHECK, Kind.BENCH)


def latest_of_kernel(series: Sequence[Series], digest: str | None) -> tuple[Record, ...]:
    """Return of each series the latest record that speaks of the kernel with this digest.

    An emit speaks of the package whatever it wrote: one that failed since leaves an old kernel behind. So does a record
    that names no kernel.
    """
    found = []
    for records in series:
        speaks = [r for r in records if r.kind is Kind.EMIT or r.kernel_digest in (digest, None) or digest is None]
        found += speaks[-1:]
    return tuple(found)


def changes_since(series: Sequence[Series]) -> tuple[Change, ...]:
    """Return what the latest record of each series says differently from the one before it."""
    found: dict[tuple[str, str, str], Change] = {}
    for records in series:
        if len(records) > 1:
            for change in _changes(records[-2], records[-1]):
                found.setdefault((change.what, change.before, change.after), change)
    return tuple(found.values())


def _changes(before: Record, after: Record) -> Iterator[Change]:
    about = f", case {after.case}" if after.case else f" ({after.kind})"
    if before.status is not after.status:
        direction = Direction.BETTER if str(after.status) == "ok" else Direction.WORSE
        yield Change(f"status{about}", str(before.status), str(after.status), direction)
    if before.kernel_digest != after.kernel_digest:
        yield Change("kernel.py", _digest(before), _digest(after), Direction.NEUTRAL)
    if before.device_digest != after.device_digest or before.probe != after.probe:
        yield Change("device file", before.probe or "no probe", after.probe or "no probe", Direction.NEUTRAL)
    if before.gpu != after.gpu:
        yield Change("GPU", before.gpu or "none", after.gpu or "none", Direction.NEUTRAL)
    yield from _versions(before, after)
    yield from _figures(before, after, about)


def _versions(before: Record, after: Record) -> Iterator[Change]:
    if before.kgen != after.kgen:
        yield Change("kgen", before.kgen, after.kgen, Direction.NEUTRAL)
    for name in sorted({*before.toolchain, *after.toolchain}):
        old, new = before.toolchain.get(name, "absent"), after.toolchain.get(name, "absent")
        if old != new:
            yield Change(name, old, new, Direction.NEUTRAL)


def _figures(before: Record, after: Record, about: str) -> Iterator[Change]:
    """Yield the figures that moved; a time that moves by less than the band has not."""
    band = max(parity_band(before), parity_band(after))
    for name, word in _TIMES:
        old, new = before.figures.get(name), after.figures.get(name)
        if old is not None and new is not None and abs(new / old - 1) > band:
            direction = _direction(new < old) if name == "latency_us" else Direction.NEUTRAL
            yield Change(f"{word}{about}", f"{old:.4g} µs", f"{new:.4g} µs ({new / old - 1:+.1%})", direction)
    old, new = before.figures.get("ratio"), after.figures.get("ratio")
    if old is not None and new is not None and abs(new / old - 1) > band:
        yield Change(f"speed{about}", f"{1 / old:.3f}×", f"{1 / new:.3f}×", _direction(new < old))
    for name, word in _COUNTS:
        old, new = before.figures.get(name), after.figures.get(name)
        if old is not None and new is not None and old != new:
            direction = _direction(new < old) if name == "spills" else Direction.NEUTRAL
            yield Change(f"{word}{about}", f"{old:g}", f"{new:g}", direction)


_TIMES = (("latency_us", "time"), ("ref_latency_us", "incumbent's time"))
_COUNTS = (
    ("registers", "registers"),
    ("spills", "spills"),
    ("smem_bytes", "shared memory, bytes"),
    ("mma_sites", "MMA instructions in the code"),
)


def _direction(is_better: bool) -> Direction:
    return Direction.BETTER if is_better else Direction.WORSE


def _digest(record: Record) -> str:
    return record.kernel_digest[:8] if record.kernel_digest else "none"
