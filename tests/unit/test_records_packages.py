"""The records of a package folder say what its plan.json and its report say, and nothing else."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import bench_reports as made
import pytest

from kgen.bench.report import Report
from kgen.errors.bench import ReportInvalidError
from kgen.errors.check import NotAPackageError, PlanFileError
from kgen.records import Kind, Record, Status, records_of_package
from kgen.target import device_file

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "generated" / "h200" / "gemm_bf16"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "gemm_bf16"
    shutil.copytree(GOLDEN, folder, ignore=shutil.ignore_patterns("measured"))
    return folder


def measured(folder: Path, report: Report) -> tuple[Record, ...]:
    (folder / "measured").mkdir(exist_ok=True)
    (folder / "measured" / "report.json").write_text(json.dumps(report.to_json()))
    return records_of_package(folder)


def one(folder: Path, **fields: Any) -> Record:
    """Return the record of a report with one case."""
    emitted, found = measured(folder, made.report(made.case(**fields)))
    assert emitted.kind is Kind.EMIT
    return found


def test_a_package_that_was_not_measured(package: Path) -> None:
    (found,) = records_of_package(package)
    plan = json.loads((package / "plan.json").read_text())
    device = device_file("h200")
    assert device is not None
    assert (found.kind, found.status, found.case, found.error) == (Kind.EMIT, Status.OK, None, None)
    assert (found.spec, found.spec_digest) == ("gemm_bf16", plan["input_digest"])
    assert (found.device, found.device_digest) == ("h200", hashlib.sha256(device.read_bytes()).hexdigest())
    assert found.kernel_digest == plan["kernel_digest"]
    assert json.loads(found.plan or "") == plan["variants"]
    assert dict(found.figures) == {"cases": 1, "variants": len(plan["variants"])}
    assert (found.host, found.gpu, dict(found.toolchain)) == (None, None, {})


def test_the_same_package_is_the_same_record(package: Path) -> None:
    (first,) = records_of_package(package)
    (package / "plan.json").touch()
    (second,) = records_of_package(str(package))
    assert first.key == second.key


def test_a_compared_case_has_the_times_of_the_comparison(package: Path) -> None:
    found = one(package)
    assert (found.kind, found.status, found.case) == (Kind.BENCH, Status.OK, "default")
    figures = found.figures
    assert figures["latency_us"] == 180.0 and figures["ref_latency_us"] == pytest.approx(180 / 0.98)
    assert (figures["ratio"], figures["ratio_low"]) == (0.98, pytest.approx(0.98 * 0.996))
    assert figures["tflops"] == pytest.approx(made.FLOPS / 180e6)
    assert figures["bandwidth_gbps"] == pytest.approx((made.BYTES_READ + made.BYTES_WRITTEN) / 180e3)
    assert figures["roofline_us"] == pytest.approx(made.FLOPS / 1e9)  # 1000 TFLOP/s; the bandwidth is not trusted
    assert found.how == "interleaved A B B A, 40 rounds of graph, parity band 1.2%, against ours.py::gemm"
    assert found.kernel_digest == "a" * 64  # the kernel that was measured
    assert dict(found.toolchain) == {"torch": "2.99", "driver": "999.1", "python": "3.11.9"}
    assert (found.gpu, found.at) == ("Made-up GPU", "2031-01-02T03:05:00.000+00:00")


def test_code_and_prediction_stand_beside(package: Path) -> None:
    report = made.full()
    square = next(case for case in report.cases if case.id == "square")
    plan = json.loads((package / "plan.json").read_text())
    renamed = square.model_copy(update={"id": "default"})
    found = measured(package, report.model_copy(update={"cases": (renamed,)}))[1]
    choice = plan["variants"][0]["choice"]
    assert found.figures["predicted_us"] == choice["time_us"]
    assert found.figures["smem_bytes"] == choice["derived"]["smem_bytes"]
    assert [found.figures[name] for name in ("registers", "spills", "mma_sites")] == [168, 0, 8]


def test_a_case_that_was_timed_alone_says_so(package: Path) -> None:
    found = one(package, comparison=None, note="--mode test")
    assert found.how == "test_kernel.py, alone" and found.figures["latency_us"] == 180.0
    assert "ratio" not in found.figures


def test_a_failed_case_is_an_error_without_a_speed(package: Path) -> None:
    found = measured(package, made.report(made.failed()))[1]
    assert found.status is Status.ERROR and "latency_us" not in found.figures
    assert found.error == "FAIL: broken, seed 0: rel_err 0.75 is above 0.01"


def test_a_measurement_error_is_an_error_without_a_speed(package: Path) -> None:
    why = "kgen: 2000 TFLOP/s is above the dense peak"
    found = one(package, speed=None, comparison=None, measurement_error=why)
    assert (found.status, found.error) == (Status.ERROR, why) and "latency_us" not in found.figures


def test_a_time_above_the_roofline_is_an_error_whatever_the_report_says(package: Path) -> None:
    found = one(package, comparison=made.comparison(kgen_us=90.0))  # 137 us at the made-up peak
    assert found.status is Status.ERROR and not {"latency_us", "ratio", "tflops"} & found.figures.keys()
    assert found.error is not None and found.error.startswith("latency_us 90 is less than the 137.439 us that")
    assert "ratio 0.98" in found.error


def test_a_peak_that_nobody_trusts_decides_nothing(package: Path) -> None:
    peaks = tuple(peak.model_copy(update={"confidence": "low"}) for peak in made.PEAKS)
    report = made.report(made.case(comparison=made.comparison(kgen_us=90.0)), peaks=peaks)
    found = measured(package, report)[1]
    assert found.status is Status.OK and "roofline_us" not in found.figures


def test_a_right_case_without_a_time_has_failed(package: Path) -> None:
    found = one(package, speed=None, comparison=None, note="the measuring process ended")
    assert (found.status, found.error) == (Status.FAILED, "not measured: the measuring process ended")


def test_what_is_no_package_is_refused(tmp_path: Path, package: Path) -> None:
    with pytest.raises(NotAPackageError):
        records_of_package(tmp_path)
    (package / "measured").mkdir()
    (package / "measured" / "report.json").write_text("{}")
    with pytest.raises(ReportInvalidError):
        records_of_package(package)
    plan = json.loads((package / "plan.json").read_text())
    (package / "plan.json").write_text(json.dumps(plan | {"variants": None}))
    with pytest.raises(PlanFileError, match="'variants' must be a list"):
        records_of_package(package)


def test_every_golden_package_has_records() -> None:
    folders = sorted(ROOT.glob("generated/*/*/plan.json"))
    found = [record for plan in folders for record in records_of_package(plan.parent)]
    reports = [json.loads(f.read_text()) for f in ROOT.glob("generated/*/*/measured/report.json")]
    assert len(found) == len(folders) + sum(len(report["cases"]) for report in reports) > len(folders)
