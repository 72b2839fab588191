"""One row of the page: a package on a device, or what the records say of a spec that has no package there.

Everything a row shows is decided here, from its plan and its records; the script of the page only sorts and draws.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from kgen.bench.plan_facts import Work
from kgen.bench.statistics import Interval, geomean
from kgen.dashboard.history import Change, Series, changes_since, latest_of_kernel, series_of
from kgen.dashboard.plans import PackagePlan
from kgen.dashboard.rooflines import roofline_us
from kgen.dashboard.verdicts import Verdict, verdict_of_records
from kgen.records import Kind, Record, Status
from kgen.target import Device


@dataclass(frozen=True, slots=True)
class CaseRow:
    """One case: its least work, what the plan predicts, what was measured of this kernel."""

    id: str
    work: Work | None  # None where there is no plan
    predicted_us: float | None
    roofline_us: float | None
    record: Record | None  # the latest bench of this kernel

    @property
    def measured_us(self) -> float | None:
        """The measured time of a right run, in us."""
        return None if self.record is None else self.record.figures.get("latency_us")

    @property
    def speed(self) -> Interval | None:
        """How many times as fast as the incumbent: its time over ours, with the interval."""
        figures = {} if self.record is None else self.record.figures
        if "ratio" not in figures:
            return None
        ratio = figures["ratio"]
        low, high = figures.get("ratio_low", ratio), figures.get("ratio_high", ratio)
        return Interval(1 / ratio, 1 / high, 1 / low)


@dataclass(frozen=True, slots=True)
class Row:
    """A package on a device."""

    name: str
    device: str
    family: str
    package: PackagePlan | None
    folder: str  # as the page names it; empty where there is none
    error: str | None  # why the package cannot be read
    verdict: Verdict
    cases: tuple[CaseRow, ...]
    latest: tuple[Record, ...]  # of this kernel, one of each kind and case
    changes: tuple[Change, ...]
    series: tuple[Series, ...]  # all records

    @property
    def measured(self) -> tuple[CaseRow, ...]:
        """The cases with a measured time."""
        return tuple(case for case in self.cases if case.measured_us is not None)

    @property
    def time_us(self) -> float | None:
        """The mean time of the cases: measured where all are, else predicted."""
        times = [case.measured_us if self.is_measured else case.predicted_us for case in self.cases]
        known = [time for time in times if time]
        return geomean(known) if known and len(known) == len(times) else None

    @property
    def is_measured(self) -> bool:
        """Whether every case has a measured time, so that the row's figures are measurements."""
        return bool(self.cases) and len(self.measured) == len(self.cases)

    @property
    def speed(self) -> Interval | None:
        """The mean speed over the compared cases, and the span of all their intervals."""
        found = [speed for case in self.cases if (speed := case.speed) is not None]
        if not found:
            return None
        return Interval(geomean([s.median for s in found]), min(s.low for s in found), max(s.high for s in found))

    @property
    def share_of_roofline(self) -> float | None:
        """The mean share of the roofline's speed that the row's time reaches."""
        least = [case.roofline_us for case in self.cases if case.roofline_us]
        time = self.time_us
        return geomean(least) / time if time and least and len(least) == len(self.cases) else None


def row_of_package(package: PackagePlan, device: Device | None, records: Sequence[Record]) -> Row:
    """Return the row of a package folder with all records of its spec and device."""
    series = series_of(records)
    latest = latest_of_kernel(series, package.kernel_digest)
    benched = {record.case: record for record in latest if record.kind is Kind.BENCH}
    facts = package.facts
    cases = tuple(
        CaseRow(
            case,
            work,
            facts.predicted_us(case) or None,
            roofline_us(device, facts.product_dtype, work),
            benched.get(case),
        )
        for case, work in facts.work.items()
    )
    verdict = verdict_of_records(latest)
    return Row(
        name=facts.name,
        device=package.device,
        family=facts.family,
        package=package,
        folder=package.folder,
        error=None,
        verdict=verdict,
        cases=cases,
        latest=latest,
        changes=changes_since(series),
        series=series,
    )


def row_of_records(name: str, device: str, records: Sequence[Record]) -> Row:
    """Return the row of a spec and device that has records and no package folder, a refusal for example."""
    series = series_of(records)
    latest = tuple(each[-1] for each in series)
    cases = tuple(CaseRow(r.case or "", None, None, r.figures.get("roofline_us"), r) for r in latest if r.case)
    verdict = verdict_of_records(latest)
    return Row(name, device, "", None, "", None, verdict, cases, latest, changes_since(series), series)


def row_of_error(folder: str, reason: str) -> Row:
    """Return the row of a folder whose plan.json cannot be read: one bad package hides no other."""
    place = PurePosixPath(folder)
    return Row(place.name, place.parent.name or "?", "", None, folder, reason, Verdict.ERROR, (), (), (), ())


def provenance(row: Row) -> str:
    """Return how the row's figures were got, in words: measured when and on what, simulated, or predicted."""
    benched = [r for r in row.latest if r.kind is Kind.BENCH and r.status is Status.OK]
    checked = [r for r in row.latest if r.kind is Kind.CHECK and r.status is Status.OK]
    said = []
    if benched:
        newest = max(benched, key=lambda r: r.at)
        some = "" if row.is_measured else f", {len(benched)} of {len(row.cases)} cases"
        said.append(f"measured {newest.at[:10]} on {newest.gpu or row.device}{some}")
    if checked:
        newest = max(checked, key=lambda r: r.at)
        said.append(f"{newest.how} {newest.at[:10]}")
    if row.package is not None and not row.is_measured:
        said.append("times predicted by the cost model")
    return "; ".join(said)
