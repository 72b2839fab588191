"""What a record may say: a value that no row may hold is refused, and a speed that is none is told in words."""

import json
import pickle
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from record_rows import AT, FIELDS, benched, emitted, records

from kgen.errors.records import RecordInvalidError
from kgen.records import Kind, Record, Status, bench_record, now
from kgen.records.model import SPEEDS

BENCH = {k: v for k, v in FIELDS.items() if k not in ("kind", "status", "error", "figures")} | {"case": "default"}


@given(records())
def test_a_record_comes_back_from_json_and_from_another_process(record: Record) -> None:
    back = Record.from_json(json.loads(json.dumps(record.to_json())))
    assert back == record and back.key == record.key and hash(back) == hash(record)
    assert pickle.loads(pickle.dumps(record)) == record


@given(records(), records())
def test_the_key_is_the_content_and_neither_place_nor_time(one: Record, other: Record) -> None:
    assert replace(one, at=other.at, host=other.host).key == one.key
    same = replace(one, at=AT, host=None) == replace(other, at=AT, host=None)
    assert (one.key == other.key) is same


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("spec", "other"),
        ("spec_digest", "d" * 64),
        ("device", "h20"),
        ("device_digest", None),
        ("probe", "2031-01-01"),
        ("kernel_digest", "d" * 64),
        ("kgen", "0.2.0"),
        ("toolchain", {"torch": "3.0", "driver": "999.1"}),
        ("gpu", "Made-up GPU"),
        ("how", "otherwise"),
        ("figures", {"variants": 3}),
        ("plan", None),
    ],
)
def test_everything_else_is_content(field: str, value: Any) -> None:
    assert emitted(**{field: value}).key != emitted().key


@pytest.mark.parametrize("name", sorted(SPEEDS))
@pytest.mark.parametrize(
    "fields",
    [
        {"status": Status.ERROR, "error": "above the roofline"},
        {"status": Status.FAILED, "error": "the case fails"},
        {"status": Status.REFUSED, "error": "not covered"},
        {"kind": Kind.CHECK, "case": None},
        {"kind": Kind.EMIT, "case": None},
    ],
    ids=lambda f: "-".join(map(str, f.values())),
)
def test_only_a_right_measurement_has_a_speed(name: str, fields: dict[str, Any]) -> None:
    with pytest.raises(RecordInvalidError, match=rf"figures\.{name}: a speed in"):
        benched(figures={name: 1.0}, **fields)


@pytest.mark.parametrize("name", ["latency_us", "ref_latency_us"])
def test_no_speed_is_above_the_roofline(name: str) -> None:
    figures = {"latency_us": 100.0, "ref_latency_us": 100.0, "roofline_us": 100.0}
    assert benched(figures=figures).status is Status.OK
    with pytest.raises(RecordInvalidError, match=f"{name} 99 is less than the 100 us"):
        benched(figures=figures | {name: 99.0})


def test_a_measurement_above_the_roofline_is_an_error_and_its_speeds_are_words() -> None:
    figures = {"latency_us": 50.0, "tflops": 2e3, "ratio": 0.3, "roofline_us": 100.0, "registers": 168}
    found = bench_record(failure=None, figures=figures, **BENCH)
    assert (found.kind, found.status) == (Kind.BENCH, Status.ERROR)
    assert dict(found.figures) == {"registers": 168.0, "roofline_us": 100.0}
    assert found.error == (
        "latency_us 50 is less than the 100 us that the device's peaks allow "
        "(no speed: latency_us 50, ratio 0.3, tflops 2000)"
    )


def test_a_failed_case_is_an_error_however_fast_it_was() -> None:
    found = bench_record(failure="FAIL: rel_err 0.7", figures={"latency_us": 150.0}, **BENCH)
    assert found.status is Status.ERROR and not found.figures
    assert found.error == "FAIL: rel_err 0.7 (no speed: latency_us 150)"


def test_a_right_measurement_is_a_speed() -> None:
    found = bench_record(failure=None, figures={"latency_us": 150, "roofline_us": 100.0}, **BENCH)
    assert found.status is Status.OK and found.figures["latency_us"] == 150.0


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"kind": "tune"}, "kind"),
        ({"status": "good"}, "status"),
        ({"case": "default"}, "case"),
        ({"error": "words"}, "error"),
        ({"status": Status.FAILED}, "error"),
        ({"status": Status.ERROR, "error": "words"}, "status"),
        ({"kernel_digest": None}, "kernel_digest"),
        ({"spec": None}, "spec"),
        ({"spec": 7}, "spec"),
        ({"spec": "\ud800"}, "spec"),
        ({"spec": "a\0b"}, "spec"),
        ({"toolchain": {"torch": None}}, "toolchain"),
        ({"toolchain": "torch"}, "toolchain"),
        ({"figures": {7: 1.0}}, "figures"),
        ({"figures": {"x": float("nan")}}, "figures.x"),
        ({"figures": {"x": float("inf")}}, "figures.x"),
        ({"figures": {"x": True}}, "figures.x"),
        ({"figures": {"x": "1"}}, "figures.x"),
        ({"at": "yesterday"}, "at"),
        ({"at": "2031-01-02T03:04:05"}, "at"),
        ({"kind": Kind.BENCH, "case": "default"}, "figures.latency_us"),
        ({"kind": Kind.BENCH, "case": "default", "figures": {"latency_us": 0.0}}, "figures.latency_us"),
    ],
    ids=lambda f: json.dumps(f, default=str) if isinstance(f, dict) else f,
)
def test_what_no_row_may_hold(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(RecordInvalidError) as refused:
        emitted(**fields)
    assert refused.value.fields["field"] == field and refused.value.fields["fix"]


def test_a_refusal_says_what_where_and_what_would_do() -> None:
    with pytest.raises(RecordInvalidError) as refused:
        emitted(at="yesterday")
    assert str(refused.value) == (
        "a record of gemm_bf16: at: 'yesterday' is no ISO 8601 time\n  = e.g. 2026-11-30T06:00:00+00:00"
    )


@pytest.mark.parametrize(("change", "reason"), [({"speed": 1}, "not a field of records"), ({"how": ...}, "missing")])
def test_json_of_another_shape_is_refused(change: dict[str, Any], reason: str) -> None:
    value = {k: v for k, v in (emitted().to_json() | change).items() if v is not ...}
    with pytest.raises(RecordInvalidError, match=f"a record of gemm_bf16: {next(iter(change))}: {reason}"):
        Record.from_json(value)


def test_times_are_kept_in_utc_and_sort_as_texts() -> None:
    assert emitted(at="2031-01-02T05:04:05.678901+02:00").at == AT
    assert emitted(at="2031-01-02T03:04:05Z").at == "2031-01-02T03:04:05.000+00:00"
    moment = now()
    assert emitted(at=moment).at == moment


def test_a_record_cannot_be_changed_through_its_mappings() -> None:
    figures = {"variants": 2.0}
    found = emitted(figures=figures)
    figures["latency_us"] = 1.0
    assert dict(found.figures) == {"variants": 2.0}
    with pytest.raises(TypeError):
        found.figures["latency_us"] = 1.0  # type: ignore[index]


def test_the_words_of_a_broken_program_are_kept() -> None:
    assert emitted(status=Status.FAILED, error="bad bytes \udcff\0").error == "bad bytes \\udcff\\0"
