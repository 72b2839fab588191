"""The sentences and spellings that every rendering of a `Report` shares: what was found, in words and figures.

A figure that was not measured is `ABSENT`, never 0. Pure functions of the report.
"""

from kgen.bench.report import Report
from kgen.bench.statistics import BAND_LIMIT, Interval, Verdict

ABSENT = "-"


def number(value: float | None, digits: int) -> str:
    """Return a figure with fixed digits after the point, or ABSENT."""
    return ABSENT if value is None else f"{value:.{digits}f}"


def micros(value: float | None) -> str:
    """Return microseconds with three digits or more: kernels take from 1 us to seconds."""
    return ABSENT if value is None else f"{value:.{3 if value < 10 else 2}f}"


def micros_interval(found: Interval | None) -> str:
    """Return a median of microseconds with its interval."""
    if found is None:
        return ABSENT
    return f"{micros(found.median)} [{micros(found.low)}, {micros(found.high)}]"


def ratio_interval(found: Interval | None) -> str:
    """Return a ratio with its interval."""
    return ABSENT if found is None else str(found)


def error(value: float | None) -> str:
    """Return an error of outputs."""
    return ABSENT if value is None else f"{value:.2e}"


def percent(share: float | None, digits: int = 2) -> str:
    """Return a share as a percentage."""
    return ABSENT if share is None else f"{100 * share:.{digits}f} %"


def band_text(half_width: float | None) -> str:
    """Return the half-width of a band as a percentage either way."""
    return ABSENT if half_width is None else f"±{percent(half_width)}"


def incumbent_name(report: Report) -> str:
    """Return what kgen's kernel was compared with, in words."""
    if report.incumbent.is_reference:
        return "the PyTorch reference, run eagerly (no incumbent was given)"
    return f"the incumbent {report.incumbent.origin}"


def failing(report: Report) -> tuple[str, ...]:
    """Return `case: STATUS` of every case that is not right."""
    return tuple(f"{case.id}: {status}" for case in report.cases if (status := case.status) != "PASS")


def correctness_sentence(report: Report) -> str:
    """Return whether the kernel is right, and the gate."""
    if not report.cases:
        return f"Nothing was run: gate {report.gate}."
    if report.status != "PASS":
        return f"Not correct ({', '.join(failing(report))}): gate {report.gate}."
    count = len(report.cases)
    return f"Correct in {count} of {count} cases: gate {report.gate}{_blemishes(report)}."


def _blemishes(report: Report) -> str:
    """Return why a correct kernel does not pass the gate."""
    if report.gate == "PASS":
        return ""
    reasons = ["the machine code is not the planned one"] if report.code_findings else []
    wrong = [case.id for case in report.cases if case.measurement_error]
    reasons += [f"the device cannot reach the time of {', '.join(wrong)}"] if wrong else []
    return f", for {' and '.join(reasons)}"


def speed_sentence(report: Report) -> str:
    """Return how kgen stands to the incumbent over all cases, or why there is no speed."""
    if report.status != "PASS":
        return "No speed: a kernel that is wrong in one case has none."
    if (ratio := report.ratio_geomean) is None:
        return f"No speed: nothing was compared with {incumbent_name(report)}."
    found = (
        f"kgen's time over that of {incumbent_name(report)} is {ratio:.3f}, the geometric mean over {_count(report)}"
    )
    return f"{found}: {_standing(report, ratio)}."


def _standing(report: Report, ratio: float) -> str:
    """Return the verdict with the band that it rests on, and the gap that is left."""
    band = band_text(report.band)
    match report.verdict:
        case Verdict.UNSTABLE:
            return f"unstable, for a parity band of {band} is wider than {band_text(BAND_LIMIT)}; nothing is decided"
        case Verdict.PARITY:
            return f"parity, inside the band of {band}"
        case Verdict.FASTER:
            return f"faster, {percent(1 - ratio)} less time, outside the parity band of {band}"
        case _:
            return f"slower, outside the parity band of {band}; the remaining gap is {percent(ratio - 1)}"


def _count(report: Report) -> str:
    """Return how many cases a mean is over."""
    return f"{len(report.compared)} of {len(report.cases) + len(report.unmeasured_cases)} cases"


def exceptions(report: Report) -> tuple[str, ...]:
    """Return the compared cases that stand otherwise than all of them together."""
    if report.status != "PASS":
        return ()
    return tuple(
        f"{case.id} alone is {found.verdict}: {found.ratio}, parity band {band_text(found.band.half_width)}"
        for case, found in report.compared
        if found.verdict != report.verdict
    )
