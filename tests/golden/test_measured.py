"""What was measured and is kept in `generated/`: of the kernel that stands there, and following from its samples."""

import json
import re
from pathlib import Path

import pytest

from kgen.bench.charts import roofline_svg, speed_svg
from kgen.bench.measure import comparison_of
from kgen.bench.memory import read
from kgen.bench.record import read_report
from kgen.bench.report_text import report_markdown
from kgen.bench.statistics import BAND_LIMIT
from kgen.check.on_device import RESULT_PREFIX
from kgen.package.folder import measured_kernel, text_digest

GENERATED = Path(__file__).resolve().parents[2] / "generated"
MEASURED = sorted(path.parent for path in GENERATED.glob("*/*/measured"))
CONTRACT = (
    *("all_pass", "failures", "cases", "latency_us_geomean", "latency_us_arith_mean", "latency_us_by_shape"),
    *("speedup_vs_ref_geomean", "max_abs_err", "max_rel_err", "rel_err", "tflops", "bandwidth_gbps"),
)


def test_there_are_measured_packages() -> None:
    assert len(MEASURED) >= 3


@pytest.fixture(params=MEASURED, ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def package(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


def test_it_is_of_the_kernel_that_stands_there(package: Path) -> None:
    report, digest = read_report(package), text_digest((package / "kernel.py").read_text(encoding="utf-8"))
    assert measured_kernel(package) == digest == report.kernel_sha256
    assert report.gate == "PASS" and not report.unmeasured_cases
    assert report.machine.gpu.driver and report.machine.versions["torch"] and report.date


def test_its_verdicts_follow_from_the_samples(package: Path) -> None:
    report = read_report(package)
    assert report.compared
    for case, comparison in report.compared:
        assert comparison_of(package / "measured" / "logs" / f"{case.id}.jsonl") == comparison
        assert comparison.band.half_width <= BAND_LIMIT


def test_its_texts_follow_from_the_report(package: Path) -> None:
    report, place = read_report(package), package / "measured"
    assert (place / "baseline_report.md").read_text(encoding="utf-8") == report_markdown(report)
    for name, drawn in (("roofline.svg", roofline_svg(report)), ("speed.svg", speed_svg(report))):
        text = (place / name).read_text(encoding="utf-8")
        assert drawn and text.startswith("<?xml") and all(case.id in text for case in report.cases)


def test_its_memory_file_is_valid_and_says_what_the_test_said(package: Path) -> None:
    memory = read(package / "measured", "v0").document  # validated against the JSON Schema by reading it
    log = (package / "measured" / "logs" / "test_kernel.txt").read_text(encoding="utf-8")
    line = log.rstrip().rpartition("\n")[2]
    assert line.startswith(RESULT_PREFIX)
    said = json.loads(line.removeprefix(RESULT_PREFIX), parse_constant=pytest.fail)
    assert not [key for key in CONTRACT if key not in said]
    assert said["all_pass"] is True
    assert memory["performance"]["latency_us_by_shape"] == said["latency_us_by_shape"]
    assert memory["quality_gate"]["result"] == "PASS"


def test_no_path_of_a_machine_is_in_it(package: Path) -> None:
    absolute = re.compile(r"(?<![\w/.:>-])/[a-z][\w-]*/[\w.-]+")
    assert absolute.search("in /home/someone/kernel.py") and not absolute.search(
        "kgen / cuBLAS, 3/4, a/b/c, https://x.org/a/b"
    )
    for file in (package / "measured").rglob("*"):
        if file.is_file():
            assert not absolute.findall(file.read_text(encoding="utf-8")), file
