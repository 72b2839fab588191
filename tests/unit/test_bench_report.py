"""The report model: what it refuses, and what it derives from its parts."""

import json
import math

import pytest
from bench_reports import FIXED_AT, MEASURED_AT, around, case, comparison, failed, full, report, right, speed
from pydantic import ValidationError

from kgen.bench.report import Agreement, Report
from kgen.bench.statistics import Interval, Verdict

AGREED = {"rel_err": 0.5, "limit": 0.02, "operand_scale": 1.0}


def test_a_report_survives_json():
    found = full()
    assert Report.model_validate(json.loads(json.dumps(found.to_json(), allow_nan=False))) == found


@pytest.mark.parametrize("status", ["FAIL", "TIMEOUT_FAIL"])
@pytest.mark.parametrize("timed", [{"speed": speed()}, {"comparison": comparison()}], ids=["speed", "comparison"])
def test_a_failed_case_has_no_speed(status, timed):
    with pytest.raises(ValidationError, match="case x: a case that fails has no speed"):
        failed("x", status, **timed)


def test_arms_that_have_to_agree_and_do_not_have_no_speed():
    with pytest.raises(ValidationError, match="case x: the arms disagree"):
        case("x", agreement=Agreement(**AGREED, decides=True, failures=("rel_err 0.5 is above 0.02",)))
    case("x", agreement=Agreement(**AGREED, decides=False, failures=("rel_err 0.5 is above 0.02",)))


def test_a_measurement_error_is_no_speed():
    with pytest.raises(ValidationError, match="case x: a measurement error is not a speed"):
        case("x", measurement_error="180 us is above the roofline")


def test_the_band_is_fixed_before_the_incumbent_is_timed():
    band = comparison().band.model_copy(update={"fixed_at": MEASURED_AT})
    late = comparison(band=band, measured_at=FIXED_AT)
    with pytest.raises(ValidationError, match="case x: the parity band was fixed after"):
        report(case("x", comparison=late))


@pytest.mark.parametrize("field", ["surprise", "gauges"])
def test_unknown_fields_are_refused(field):
    with pytest.raises(ValidationError, match=field):
        Report.model_validate({**full().to_json(), field: 1})


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_no_figure_is_infinite_or_nan(value):
    with pytest.raises(ValidationError, match="finite"):
        right(rel_err=value)


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_a_latency_is_positive(value):
    with pytest.raises(ValidationError, match="greater than 0"):
        speed().model_validate({**speed().model_dump(), "latency_us": value})


@pytest.mark.parametrize(
    ("cases", "status"),
    [
        ((), "FAIL"),
        ((case(),), "PASS"),
        ((case(), failed()), "FAIL"),
        ((case(), failed("slow", "TIMEOUT_FAIL")), "TIMEOUT_FAIL"),
        ((failed("slow", "TIMEOUT_FAIL"), failed()), "FAIL"),
    ],
)
def test_the_status_is_the_worst(cases, status):
    found = report().model_copy(update={"cases": cases})
    assert found.status == found.gate == status


def test_arms_that_disagree_fail_the_report():
    agreement = Agreement(**AGREED, decides=True, failures=("rel_err 0.5 is above 0.02",))
    assert report(case(agreement=agreement, speed=None, comparison=None)).status == "FAIL"


def test_findings_and_impossible_times_fail_the_gate_alone():
    wrong = case(speed=None, comparison=None, measurement_error="too fast")
    for found in (report(code_findings=("no HGMMA",)), report(wrong)):
        assert (found.status, found.gate) == ("PASS", "FAIL")


def test_the_mean_is_judged_by_the_widest_band():
    found = report(case("a", comparison=comparison(0.97, 0.01)), case("b", comparison=comparison(1.0, 0.02)))
    assert found.band == 0.02 and math.isclose(found.ratio_geomean, math.sqrt(0.97))
    assert found.verdict is Verdict.PARITY


def test_nothing_compared_has_no_verdict():
    found = report(case(comparison=None))
    assert (found.band, found.ratio_geomean, found.verdict, found.compared) == (None, None, None, ())


def test_a_wide_band_decides_nothing():
    assert report(case(comparison=comparison(0.5, 0.031))).verdict is Verdict.UNSTABLE


def test_a_gap_is_a_share_of_the_incumbents_time():
    assert math.isclose(comparison(1.05).gap, 0.05) and around(2.0) == Interval(2.0, 1.992, 2.008)
