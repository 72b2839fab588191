"""How a package stands on its device: one word from its latest records, worst first.

Only records of the kernel.py that is there count: an older kernel's speed says nothing about this one.
"""

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum

from kgen.bench.statistics import BAND_FLOOR, geomean, verdict_of
from kgen.records import Kind, Record, Status


class Verdict(StrEnum):
    """The words of the page, from what needs a person to what does not; each has its meaning beside it."""

    ERROR = "error"
    FAILED = "failed"
    REFUSED = "refused"
    SLOWER = "slower"
    UNSTABLE = "unstable"
    UNMEASURED = "unmeasured"
    CHECKED = "checked"
    SIMULATED = "simulated"
    PARITY = "parity"
    FASTER = "faster"

    @property
    def label(self) -> str:
        """As a person reads it."""
        return "simulated, not timed" if self is Verdict.SIMULATED else str(self)

    @property
    def meaning(self) -> str:
        """One sentence for the legend."""
        return _MEANINGS[self]


_MEANINGS = {
    Verdict.ERROR: "A measurement that cannot be true (above the roofline), or a package that cannot be read.",
    Verdict.FAILED: "A result is wrong, or the kernel does not compile to what the plan says.",
    Verdict.REFUSED: "kgen does not cover this spec on this device; the reason is in its section.",
    Verdict.SLOWER: "Slower than the incumbent, beyond the parity band.",
    Verdict.UNSTABLE: "Measured, but the noise of two identical builds is too wide to decide anything.",
    Verdict.UNMEASURED: "Planned and written; its times are predictions.",
    Verdict.CHECKED: "Compiled and its machine code read, or its results checked; not timed.",
    Verdict.SIMULATED: "Its compiled code gives the right results in the simulator; its times are predictions.",
    Verdict.PARITY: "As fast as the incumbent, within the noise of two identical builds.",
    Verdict.FASTER: "Faster than the incumbent, beyond the parity band.",
}


def verdict_of_records(latest: Sequence[Record]) -> Verdict:
    """Return the verdict of a package's latest records of each kind and case; of none, it is unmeasured."""
    statuses = {record.status for record in latest}
    for status, verdict in _BAD:
        if status in statuses:
            return verdict
    if (compared := compared_verdict(r for r in latest if r.kind is Kind.BENCH)) is not None:
        return compared
    checks = [r for r in latest if r.kind is not Kind.EMIT]
    if any(is_simulated(record) for record in checks):
        return Verdict.SIMULATED
    return Verdict.CHECKED if checks else Verdict.UNMEASURED


_BAD = ((Status.ERROR, Verdict.ERROR), (Status.FAILED, Verdict.FAILED), (Status.REFUSED, Verdict.REFUSED))


def compared_verdict(measured: Iterable[Record]) -> Verdict | None:
    """Return the verdict over all compared cases: their mean against the widest band; None where none is compared."""
    compared = [record for record in measured if "ratio" in record.figures]
    if not compared:
        return None
    band = max(map(parity_band, compared))
    return Verdict(str(verdict_of(geomean([record.figures["ratio"] for record in compared]), band)))


def parity_band(record: Record) -> float:
    """Return the half-width of the parity band that a record was measured with: its `how` says it, in percent."""
    said = _BAND.search(record.how)
    return max(BAND_FLOOR, float(said["percent"]) / 100) if said else BAND_FLOOR


_BAND = re.compile(r"parity band (?P<percent>[\d.]+)\s?%")


def is_simulated(record: Record) -> bool:
    """Whether a check ran some case in the simulator, as its `how` says: such a record has no time."""
    ran = record.figures.get("simulated_cases", 1) > 0
    return record.kind is Kind.CHECK and "simulated, not timed" in record.how and ran
