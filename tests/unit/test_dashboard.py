"""What the dashboard says of packages and records: verdicts, changes, figures; the page's bytes and size."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import kgen, kgen_json
from dashboard_samples import (
    AFTER,
    BAND,
    BEFORE,
    GENERATED,
    HOSTILE,
    bench,
    golden,
    many,
    of_states,
    packages,
    record,
    states,
    with_rows,
)

from kgen.bench.statistics import BAND_FLOOR
from kgen.cli_records import DEFAULT
from kgen.dashboard.collect import collect
from kgen.dashboard.data import HISTORY, block, page_json
from kgen.dashboard.history import Change, Direction, changes_since, series_of
from kgen.dashboard.page import PageView, page_html
from kgen.dashboard.rows import provenance, row_of_error, row_of_package, row_of_records
from kgen.dashboard.verdicts import Verdict, parity_band
from kgen.errors.dashboard import NothingToShowError, RootMissingError
from kgen.records import Kind, Record, Status, Store
from kgen.render.fields import unread_fields

PACKAGE = packages()[0]
DEVICE = dict(golden().devices)[PACKAGE.device]
OTHER = "f" * 64


def verdict(*records: Record) -> Verdict:
    return row_of_package(PACKAGE, DEVICE, records).verdict


def changes(*records: Record) -> tuple[Change, ...]:
    return changes_since(series_of(records))


def data_of(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found[1])


# --- verdicts ---------------------------------------------------------------------------------------------------------


def test_each_state_of_the_records_has_its_verdict() -> None:
    found = [verdict(*records) for records in states(PACKAGE)]
    wanted = "unmeasured checked simulated faster parity slower unstable failed error"
    assert [str(each) for each in found] == wanted.split()


def test_a_refusal_has_a_row_without_a_package() -> None:
    refused = record(PACKAGE, Kind.EMIT, Status.REFUSED, kernel_digest=None, error="no family covers it")
    row = row_of_records("conv", "h200", [refused])
    assert (row.verdict, row.package) == (Verdict.REFUSED, None)


def test_a_speed_of_another_kernel_counts_for_nothing() -> None:
    assert verdict(bench(PACKAGE, 0.5, kernel_digest=OTHER)) is Verdict.UNMEASURED


def test_an_emission_that_failed_since_is_told_though_the_old_kernel_is_there() -> None:
    failed = record(PACKAGE, Kind.EMIT, Status.FAILED, kernel_digest=None, error="out of memory", at=AFTER)
    assert verdict(bench(PACKAGE, 1.0, at=BEFORE), failed) is Verdict.FAILED
    mended = record(PACKAGE, Kind.EMIT, at="2026-11-29T09:00:00+00:00")
    assert verdict(bench(PACKAGE, 1.0, at=BEFORE), failed, mended) is Verdict.PARITY


def test_only_the_latest_record_counts() -> None:
    assert verdict(bench(PACKAGE, 0.5, at=BEFORE), bench(PACKAGE, 1.3)) is Verdict.SLOWER
    assert verdict(record(PACKAGE, status=Status.FAILED, at=BEFORE), record(PACKAGE)) is Verdict.CHECKED


@pytest.mark.parametrize(("how", "band"), [(BAND, 0.02), (BAND.replace("2.0%", "2.6%"), 0.026), ("alone", BAND_FLOOR)])
def test_the_band_is_read_from_how_it_was_measured(how: str, band: float) -> None:
    assert parity_band(bench(PACKAGE, 1.0, how=how)) == pytest.approx(band)


def test_the_golden_measurements_say_their_band_and_have_the_verdicts_of_their_reports() -> None:
    for row in golden().rows:
        file = GENERATED / row.device / row.name / "measured" / "report.json"
        if file.is_file():
            found = [case["comparison"] for case in json.loads(file.read_text())["cases"]]
            assert str(row.verdict) in {comparison["verdict"] for comparison in found}
            assert len(row.latest) == len(found) and all("parity band" in record.how for record in row.latest)
            if len(found) == 1:
                assert row.speed and row.speed.median == pytest.approx(1 / found[0]["ratio"]["median"])


# --- changes ----------------------------------------------------------------------------------------------------------


def test_a_time_inside_the_band_has_not_changed() -> None:
    assert changes(bench(PACKAGE, 1.0, at=BEFORE), bench(PACKAGE, 1.01)) == ()


def test_changes_say_what_was_what_is_and_whether_that_is_good() -> None:
    before = bench(PACKAGE, 1.0, at=BEFORE, toolchain={"torch": "2.11.0", "flydsl": "0.5.0"}, kernel_digest=OTHER)
    found = changes(before, bench(PACKAGE, 0.8))
    assert Change("speed, case default", "1.000×", "1.250×", Direction.BETTER) in found
    assert Change("flydsl", "0.5.0", "absent", Direction.NEUTRAL) in found
    assert Change("kernel.py", "ffffffff", (PACKAGE.kernel_digest or "")[:8], Direction.NEUTRAL) in found
    (failure,) = changes(record(PACKAGE, at=BEFORE), record(PACKAGE, status=Status.FAILED))
    assert failure == Change("status (check)", "ok", "failed", Direction.WORSE)


def test_the_first_record_is_no_change() -> None:
    assert changes(bench(PACKAGE, 0.8)) == ()


# --- figures ----------------------------------------------------------------------------------------------------------


def test_an_unmeasured_row_has_predicted_figures_and_says_so() -> None:
    row = row_of_package(PACKAGE, DEVICE, [])
    assert not row.is_measured and row.speed is None
    assert row.time_us == pytest.approx(PACKAGE.facts.predicted_us("default"))
    assert provenance(row) == "times predicted by the cost model"
    assert 0 < (row.share_of_roofline or 0) < 1


def test_a_simulated_row_says_that_its_times_are_predicted() -> None:
    row = row_of_package(PACKAGE, DEVICE, [record(PACKAGE, how="compiled; simulated, not timed")])
    assert provenance(row) == "compiled; simulated, not timed 2026-11-29; times predicted by the cost model"


def test_a_check_that_could_simulate_no_case_is_a_check() -> None:
    check = record(PACKAGE, how="compiled; simulated, not timed", figures={"simulated_cases": 0})
    assert verdict(check) is Verdict.CHECKED


def test_a_measured_row_says_when_and_on_what() -> None:
    row = row_of_package(PACKAGE, DEVICE, [bench(PACKAGE, 0.8)])
    assert row.is_measured and provenance(row) == "measured 2026-11-29 on NVIDIA H200"
    assert row.speed and (row.speed.low, row.speed.high) == (pytest.approx(1 / 0.804), pytest.approx(1 / 0.796))


def test_a_row_of_several_cases_is_measured_when_all_are() -> None:
    package = next(r.package for r in golden().rows if r.package and r.name == "softmax_bf16" and r.device == "h200")
    assert package
    cases = list(package.facts.work)
    some = [bench(package, 1.0, case=cases[0])]
    assert not row_of_package(package, DEVICE, some).is_measured
    row = row_of_package(
        package, DEVICE, [bench(package, ratio, case=case) for case, ratio in zip(cases, (0.5, 1, 2), strict=True)]
    )
    assert row.is_measured and row.speed
    assert row.speed.median == pytest.approx(1) and row.speed.low < 0.5 < 2 < row.speed.high


def test_a_device_that_is_not_known_has_no_roof() -> None:
    row = row_of_package(PACKAGE, None, [])
    assert row.share_of_roofline is None
    shown = page_json(replace(golden(), devices=(("h300", None),), rows=(row,)))
    assert shown["devices"] == [{"name": "h300", "title": "h300", "arch": "", "bandwidth": None, "peaks": []}]


# --- the plan and its reasons -----------------------------------------------------------------------------------------


def test_the_plan_has_its_rules_with_their_reasons_and_its_runners_up() -> None:
    shown = page_json(golden())
    row = next(r for r in shown["rows"] if r["id"] == "generated/h200/gemm_bf16")
    plan = json.loads((GENERATED / "h200" / "gemm_bf16" / "plan.json").read_text())
    variant, stated = row["plan"]["variants"][0], plan["variants"][0]
    removed = [(*shown["rules"][number], amount) for number, amount in variant["removed"]]
    assert removed == [(r["rule"], r["because"], r["place"], r["removed"]) for r in stated["rejections"]]
    assert variant["points"] == variant["legal"] + sum(amount for *_, amount in removed)
    runner, stated_runner = variant["runners"][0], stated["runners_up"][0]
    assert variant["choices"] | runner["differs"] == stated_runner["choices"]
    assert set(runner["differs"]) and not set(runner["differs"].items()) & set(variant["choices"].items())


def test_an_edited_kernel_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "generated" / "h200" / "gemm_bf16"
    shutil.copytree(GENERATED / "h200" / "gemm_bf16", folder)
    (folder / "kernel.py").write_text("# mine\n")
    (row,) = collect([tmp_path], None).rows
    assert row.package and row.package.is_edited
    assert row.verdict is Verdict.UNMEASURED  # its measurement is of another kernel


# --- folders and databases --------------------------------------------------------------------------------------------


def test_a_package_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    root = tmp_path / "generated"
    shutil.copytree(GENERATED / "h200" / "gemm_bf16", root / "h200" / "gemm_bf16")
    (root / "h200" / "broken").mkdir()
    (root / "h200" / "broken" / "plan.json").write_text("{]")
    rows = collect([root], None).rows
    assert [(r.name, str(r.verdict)) for r in rows] == [("broken", "error"), ("gemm_bf16", "parity")]
    assert rows[0].error and "not valid JSON" in rows[0].error


def test_a_root_may_be_a_package(tmp_path: Path) -> None:
    (row,) = collect([GENERATED / "h200" / "gemm_bf16"], None).rows
    assert (row.folder, str(row.verdict)) == ("gemm_bf16", "parity")
    (tmp_path / "plan.json").write_text("{]")
    (row,) = collect([tmp_path], None).rows
    assert (row.name, row.device, row.verdict) == (tmp_path.name, "?", Verdict.ERROR)


def test_a_plan_or_a_report_of_another_version_is_told(tmp_path: Path) -> None:
    for name in ("old_plan", "old_report"):
        shutil.copytree(GENERATED / "h200" / "gemm_bf16", tmp_path / "h200" / name)
    plan = tmp_path / "h200" / "old_plan" / "plan.json"
    plan.write_text(plan.read_text().replace('"place"', '"line"'))
    (tmp_path / "h200" / "old_report" / "measured" / "report.json").write_text('{"format": 9}')
    rows = collect([tmp_path], None).rows
    assert [str(row.verdict) for row in rows] == ["error", "error"]
    assert "not a plan that the dashboard can show: KeyError 'place'" in str(rows[0].error)
    assert "report.json" in str(rows[1].error)


def test_records_come_from_the_database_too_and_count_once(tmp_path: Path) -> None:
    measured = next(row for row in golden().rows if row.measured and row.package)
    assert measured.package
    with Store.open(tmp_path / "records.sqlite") as store:
        store.add([*measured.series[0], record(measured.package), record(measured.package, Kind.EMIT, spec="other")])
    found = collect([GENERATED], tmp_path / "records.sqlite")
    assert found.records == golden().records + 2
    assert next(row for row in found.rows if row.name == "other").package is None
    row = next(row for row in found.rows if (row.name, row.device) == (measured.name, measured.device))
    assert [len(series) for series in row.series] == [1, 1]


def test_nothing_to_show_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NothingToShowError, match="no package below"):
        collect([tmp_path], None)
    with pytest.raises(RootMissingError, match="is not a folder"):
        collect([tmp_path / "none"], None)


# --- the page ---------------------------------------------------------------------------------------------------------


def test_the_same_input_gives_the_same_bytes_wherever_it_lies(tmp_path: Path) -> None:
    first = page_html(collect([GENERATED], None))
    shutil.copytree(GENERATED, tmp_path / "generated")
    assert page_html(collect([tmp_path / "generated"], None)) == first
    assert str(GENERATED.parent) not in first


def test_the_golden_page_is_below_a_megabyte_and_loads_nothing() -> None:
    page = page_html(golden())
    assert len(page.encode()) < 1_000_000
    assert re.findall(r"<(?:link|img|iframe|object|embed|script[^>]+src)\b", page) == []
    assert [url for url in re.findall(r"https?://[^\s\"'<)]+", page) if url != "http://www.w3.org/2000/svg"] == []
    assert "default-src 'none'" in page


def test_no_text_ends_its_script_element() -> None:
    row = row_of_error(f"generated/h200/{HOSTILE.replace('/', '|')}", HOSTILE)
    page = page_html(with_rows([row]))
    assert page.count("<script") == 2 and page.count("</script>") == 2
    assert data_of(page)["rows"][0]["error"] == HOSTILE
    assert not {"<", ">", "&", "\u2028"} & set(block({"text": HOSTILE}))


def test_rows_of_equal_folders_have_different_ids(tmp_path: Path) -> None:
    for name in ("a", "b"):
        shutil.copytree(GENERATED / "h200" / "gemm_bf16", tmp_path / name / "generated" / "gemm_bf16")
    shown = page_json(collect([tmp_path / "a" / "generated", tmp_path / "b" / "generated"], None))
    assert len({row["id"] for row in shown["rows"]}) == 2


def test_a_long_history_is_cut_and_says_so() -> None:
    records = [record(PACKAGE, at=f"2026-11-29T06:{minute:02d}:00+00:00") for minute in range(HISTORY + 5)]
    (row,) = page_json(with_rows([row_of_package(PACKAGE, DEVICE, records)]))["rows"]
    assert (len(row["records"]), row["older"]) == (HISTORY, 5)
    assert row["records"][0]["at"] > row["records"][-1]["at"]


def test_every_verdict_is_explained() -> None:
    shown = page_json(of_states())
    assert [id_ for id_, _, meaning in shown["verdicts"] if meaning] == [str(v) for v in Verdict]
    assert {row["verdict"] for row in shown["rows"]} == {str(v) for v in Verdict}


def test_the_template_reads_every_field_of_its_view() -> None:
    assert unread_fields("dashboard/page.html.j2", PageView) == ()


def test_2000_rows_are_made() -> None:
    assert len(page_json(many(2000))["rows"]) == 2000


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_writes_the_page_and_says_what_is_in_it(tmp_path: Path) -> None:
    shutil.copytree(GENERATED / "h200" / "gemm_bf16", tmp_path / "generated" / "h200" / "gemm_bf16")
    with Store.open(tmp_path / DEFAULT) as store:
        store.add([record(PACKAGE, Kind.EMIT, Status.REFUSED, spec="conv", kernel_digest=None)])
    answer = kgen_json(tmp_path, "dashboard", "-o", "page.html")
    assert (answer["rows"], answer["records"]) == (2, 2)
    assert answer["verdicts"] == {"refused": 1, "parity": 1}
    assert answer["bytes"] == (tmp_path / "page.html").stat().st_size
    assert sorted(path.name for path in tmp_path.glob("*page*")) == ["page.html"]
    shown = kgen(tmp_path, "dashboard", "-o", "page.html").stdout
    assert shown == "page.html: 2 packages on 1 device, 1 refused, 1 parity\n"


def test_the_command_draws_the_roof_of_a_device_file_that_is_given(tmp_path: Path) -> None:
    arch = tmp_path / "targets" / "sm90a"
    shutil.copytree(GENERATED.parent / "targets" / "sm90a", arch)
    shutil.copy(GENERATED.parent / "targets" / "sources.yaml", tmp_path / "targets")
    (arch / "devices" / "h200.yaml").rename(arch / "devices" / "h300.yaml")
    package = tmp_path / "generated" / "h300" / "gemm_bf16"
    shutil.copytree(GENERATED / "h200" / "gemm_bf16", package, ignore=shutil.ignore_patterns("measured"))
    plan = (package / "plan.json").read_text().replace('"device": "h200"', '"device": "h300"')
    (package / "plan.json").write_text(plan)
    kgen_json(tmp_path, "dashboard", "-o", "page.html")
    assert data_of((tmp_path / "page.html").read_text())["devices"][0]["bandwidth"] is None
    kgen_json(tmp_path, "dashboard", "-o", "page.html", "--device", str(arch / "devices" / "h300.yaml"))
    assert data_of((tmp_path / "page.html").read_text())["devices"][0]["bandwidth"]["per_second"] == 4.8e12


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["dashboard"], "RootMissingError"),
        (["dashboard", "."], "NothingToShowError"),
        (["dashboard", ".", "--records", "none.sqlite"], "RecordsMissingError"),
    ],
)
def test_the_command_refuses_what_it_cannot_show(tmp_path: Path, arguments: list[str], error: str) -> None:
    assert kgen_json(tmp_path, *arguments)["error"] == error
    assert list(tmp_path.iterdir()) == []
