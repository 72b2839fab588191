"""The comparison of `benchmarks/probe_peers.py`, with an answer of `kgen probe` that is made up."""

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import probe_peers

BESIDE = {"8192x8192x8192": 700.0, "8192x4096x14336": 720.0}


def answer(shipped: str | None = "h200", **rates: float) -> dict[str, Any]:
    """Return an answer with the figures of an H200, some of them changed: `bf16=...` changes all of bf16."""
    samples = [
        {"quantity": quantity, "label": f"copy_ of {label}" if "MiB" in label else label, "value": figure}
        for (quantity, label), figure in probe_peers.H200.items()
    ]
    changed = [{**sample, "value": rates.get(sample["quantity"], sample["value"])} for sample in samples]
    in_file = {f"measured.{sample['quantity']}": {"value": sample["value"]} for sample in changed}
    return {
        "shipped": shipped,
        "measurement": {"samples": changed},
        "device": {"quantities": {**in_file, "quantities.l2": {"value": 60}}},
        "text": "the file",
        "differences": [{"name": "quantities.clock", "shipped": 1.83, "probed": 1.98, "unit": "GHz", "percent": 8.2}],
        "seconds": 30.0,
    }


def test_an_h200_that_measures_as_it_did_meets_every_bar() -> None:
    found = probe_peers.rows(answer(), BESIDE)
    assert all(row.ok for row in found) and sum(row.decides for row in found) == 1 + len(probe_peers.H200)
    assert "MISSED" not in probe_peers.table(found)


@pytest.mark.parametrize(
    ("rates", "missed"),
    [
        ({"copy_bandwidth": 4.0}, {("copy_bandwidth", "2048 MiB")}),
        ({"int8": 1000.0}, {("int8", "8192x8192x8192")}),
        ({"bf16": 760.0}, {("bf16", "best"), ("bf16", "4096x4096x4096"), ("bf16", "8192x8192x8192")}),
    ],
)
def test_what_differs_by_more_than_the_bar_is_missed(rates: dict[str, float], missed: set[tuple[str, str]]) -> None:
    found = probe_peers.rows(answer(**rates), BESIDE)
    assert {(row.quantity, row.what) for row in found if not row.ok} == missed
    assert probe_peers.table(found).count("MISSED") == len(missed)


def test_the_report_ends_with_the_table_and_says_whether_all_bars_are_met(capsys: pytest.CaptureFixture[str]) -> None:
    answers = [answer(), answer(copy_bandwidth=4.3)]
    found = [row for one in answers for row in probe_peers.rows(one, BESIDE)]
    assert probe_peers.report(answers, found) == 0
    text = capsys.readouterr().out
    assert "h200 differs: quantities.clock" in text and "seconds of the probes: [30.0, 30.0]" in text
    assert " 1.012  the first probe" in text and "MISSED" not in text
    assert probe_peers.report([answers[0], {**answers[1], "seconds": 61.0}], found) == 1
    missed = probe_peers.rows(answer(fp8=1000.0), BESIDE)
    assert probe_peers.report(answers, missed) == 1 and "MISSED" in capsys.readouterr().out


def test_what_the_probe_did_not_measure_is_missed() -> None:
    nothing = {"shipped": "h200", "measurement": {"samples": []}}
    found = probe_peers.rows(nothing, BESIDE)
    assert not any(row.ok for row in found if row.decides) and "none" in probe_peers.table(found)


def test_another_gpu_has_no_figures_to_meet() -> None:
    assert {row.against for row in probe_peers.rows(answer(None), BESIDE)} == {"torch beside it"}
