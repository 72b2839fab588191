"""`measured/`: written whole or not at all, made anew from report.json alone, and tied to one kernel.py."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import bench_reports as made_up
import pytest
from bench_machine import SPEC, emitted

import kgen
from kgen.bench.memory import mask
from kgen.bench.record import copy_to, read_report, render_measured, write_measured
from kgen.bench.report import Report
from kgen.errors.bench import MemorySyntaxError, ReportInvalidError, ReportMissingError
from kgen.package.folder import compare_package, require_replaceable, text_digest
from kgen.package.write import Measurements

RENDERED = ("baseline_report.md", "roofline.svg", "speed.svg")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return emitted(tmp_path_factory.mktemp("built"))


@pytest.fixture
def package(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "package"))


def content(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def logs_of(folder: Path, **texts: str) -> Path:
    folder.mkdir(parents=True)
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text)
    return folder


def version(name: str, latency_us: float = 180.0) -> Report:
    return made_up.report(made_up.case(speed=made_up.speed(latency_us)), version=name)


def without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in sys.modules if n == "matplotlib" or n.startswith("matplotlib.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)


def test_what_is_written(tmp_path: Path) -> None:
    report = made_up.full()
    place = write_measured(report, tmp_path, logs_of(tmp_path / "scratch" / "logs", build="built\n"))
    assert place == tmp_path / "measured"
    names = {"report.json", "kernel.sha256", "memory/v0.json", "logs/build.txt", *RENDERED}
    assert set(content(place)) == names
    assert (place / "kernel.sha256").read_text() == f"{report.kernel_sha256}\n"
    assert read_report(tmp_path) == report
    text = (place / "report.json").read_text(encoding="utf-8")
    assert json.loads(text) == report.to_json() and text.endswith("}\n")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["measured", "scratch"]  # no lock, no leftover


def test_a_second_write_replaces_logs_and_report(tmp_path: Path) -> None:
    write_measured(made_up.report(), tmp_path, logs_of(tmp_path / "one", build="1", old="1"))
    write_measured(made_up.full(), tmp_path, logs_of(tmp_path / "two", build="2"))
    assert read_report(tmp_path) == made_up.full()
    assert content(tmp_path / "measured" / "logs") == {"build.txt": b"2"}


def test_logs_that_the_report_names_outlive_a_run_that_did_not_write_them(tmp_path: Path) -> None:
    """`kgen tune` writes a kept report again: its run has no log but that of the build."""
    report = made_up.report(logs=("logs/build.txt", "logs/default.txt", "logs/../report.json", "logs/lost.txt"))
    write_measured(report, tmp_path, logs_of(tmp_path / "one", build="1", default="samples", other="x"))
    write_measured(report, tmp_path, logs_of(tmp_path / "two", build="2"))
    assert content(tmp_path / "measured" / "logs") == {"build.txt": b"2", "default.txt": b"samples"}


def test_an_invalid_report_writes_nothing(tmp_path: Path) -> None:
    write_measured(made_up.full(), tmp_path, logs_of(tmp_path / "logs", build="1"))
    before = content(tmp_path / "measured")
    names = sorted(p.name for p in tmp_path.iterdir())
    broken = made_up.case(speed=made_up.speed()).model_copy(update={"correctness": made_up.right(status="FAIL")})
    with pytest.raises(ValueError, match="a case that fails has no speed"):
        write_measured(made_up.report().model_copy(update={"cases": (broken,)}), tmp_path)
    assert content(tmp_path / "measured") == before
    assert sorted(p.name for p in tmp_path.iterdir()) == names
    early = made_up.case(comparison=made_up.comparison().model_copy(update={"measured_at": "2030"}))
    with pytest.raises(ValueError, match="the parity band was fixed after the first comparison"):
        write_measured(made_up.report().model_copy(update={"cases": (early,)}), tmp_path)
    assert content(tmp_path / "measured") == before


def test_what_fails_on_the_way_leaves_the_old_folder(tmp_path: Path) -> None:
    write_measured(made_up.report(), tmp_path)
    (tmp_path / "measured" / "memory" / "v0.json").write_text("{")
    before = content(tmp_path)
    with pytest.raises(MemorySyntaxError, match=r"v0\.json is not valid JSON"):
        write_measured(version("v1"), tmp_path)
    assert content(tmp_path / "measured") == {n[9:]: b for n, b in before.items() if n.startswith("measured/")}
    (tmp_path / "measured" / "memory" / "v0.json").unlink()
    write_measured(version("v1"), tmp_path)  # what the failed one left is no obstacle
    assert {p.name for p in tmp_path.iterdir()} == {"measured"}


def test_other_versions_stay_and_the_nearest_older_one_is_compared_with(tmp_path: Path) -> None:
    for name, latency_us in (("v0", 200.0), ("v1", 190.0), ("v10", 150.0), ("v2", 185.0)):
        write_measured(version(name, latency_us), tmp_path)
    memory = tmp_path / "measured" / "memory"
    assert {p.name for p in memory.iterdir()} == {"v0.json", "v1.json", "v2.json", "v10.json"}
    found = {p.stem: json.loads(p.read_text()) for p in memory.iterdir()}
    deltas = {n: d["performance"]["comparison_with_previous"]["latency_delta"] for n, d in found.items()}
    assert deltas == {"v0": None, "v1": pytest.approx(-10), "v10": pytest.approx(-40), "v2": pytest.approx(-5)}
    mask(tmp_path / "measured", "v1")
    write_measured(version("v2", 185.0), tmp_path)
    again = json.loads((memory / "v2.json").read_text())
    assert again["performance"]["comparison_with_previous"]["latency_delta"] == pytest.approx(-15)


def test_report_json_alone_makes_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_measured(made_up.full(), tmp_path, logs_of(tmp_path / "logs", build="1"))
    before = content(tmp_path / "measured")
    for name in RENDERED:
        (tmp_path / "measured" / name).write_text("another text")
    assert render_measured(tmp_path) == made_up.full()
    assert content(tmp_path / "measured") == before
    alone = tmp_path / "alone" / "measured"
    alone.mkdir(parents=True)
    shutil.copyfile(tmp_path / "measured" / "report.json", alone / "report.json")
    render_measured(tmp_path / "alone")
    assert content(alone) == {name: before[name] for name in ("report.json", *RENDERED)}


def test_charts_are_left_out_without_matplotlib(tmp_path: Path) -> None:
    write_measured(made_up.full(), tmp_path)
    whole = content(tmp_path / "measured")
    with pytest.MonkeyPatch.context() as patch:
        without_matplotlib(patch)
        write_measured(made_up.full(), tmp_path)
        assert set(whole) - set(content(tmp_path / "measured")) == {"roofline.svg", "speed.svg"}
    render_measured(tmp_path)  # where matplotlib is
    assert content(tmp_path / "measured") == whole
    with pytest.MonkeyPatch.context() as patch:
        without_matplotlib(patch)
        render_measured(tmp_path)  # stale charts do not stay beside a new report
        assert not (tmp_path / "measured" / "speed.svg").exists()


def changed(**fields: Any) -> str:
    return json.dumps({**made_up.report().to_json(), **fields})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"{", "the document: Invalid JSON"),
        (b"[]", "the document: Input should be an object"),
        (b"\xff\xfe{}", "the document: it is not UTF-8 text"),
        (changed(colour="red").encode(), "colour: Extra inputs are not permitted"),
        (changed(gauge=None).encode(), "gauge: Input should be a valid string"),
        (changed(format=2).encode(), "format: Input should be 1"),
        (changed(tolerance=float("nan")).encode(), "tolerance: Input should be a finite number"),
        (changed(cases=[{"id": "x"}]).encode(), r"cases\.0\.flops: Field required"),
        (changed().replace('"faster"', '"slower"').encode(), r"cases\.0\.comparison: .*verdict slower"),
    ],
)
def test_a_report_that_cannot_be_read_is_refused_by_file_and_field(text: bytes, reason: str, tmp_path: Path) -> None:
    (tmp_path / "measured").mkdir()
    (tmp_path / "measured" / "report.json").write_bytes(text)
    with pytest.raises(ReportInvalidError, match=rf"measured/report\.json: {reason}"):
        render_measured(tmp_path)
    assert [p.name for p in (tmp_path / "measured").iterdir()] == ["report.json"]


def test_a_package_that_was_not_measured_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReportMissingError, match="the package was not measured\n  = `kgen bench"):
        read_report(tmp_path)


def test_a_copy_for_a_workspace(tmp_path: Path) -> None:
    write_measured(version("v0"), tmp_path)
    mask(tmp_path / "measured", "v0")
    write_measured(version("v1"), tmp_path)
    workspace = tmp_path / "work" / "space"
    for _ in range(2):  # a second copy replaces the first
        copy_to(workspace, tmp_path)
        names = ("memory/v0.json", "memory/v1.json", *RENDERED)
        assert content(workspace) == {name: (tmp_path / "measured" / name).read_bytes() for name in names}


def measured_package(package: Path) -> dict[str, bytes]:
    digest = text_digest((package / "kernel.py").read_text(encoding="utf-8"))
    write_measured(made_up.report(kernel_sha256=digest), package)
    return content(package / "measured")


def test_emit_keeps_what_was_measured_of_the_same_kernel(package: Path, tmp_path: Path) -> None:
    before = measured_package(package)
    (tmp_path / "made_up.yaml").write_text(SPEC.replace("name:", "tolerance: {rel_err: 0.02}\nname:"))
    written = kgen.emit(tmp_path / "made_up.yaml", folder=package).written
    assert written is not None and written.measurements is Measurements.KEPT and "dropped" not in str(written)
    assert content(package / "measured") == before


def test_emit_drops_what_was_measured_of_another_kernel_and_says_so(package: Path, tmp_path: Path) -> None:
    measured_package(package)
    (tmp_path / "made_up.yaml").write_text(SPEC.replace("return a @ b", "return (a @ b).relu()"))
    written = kgen.emit(tmp_path / "made_up.yaml", folder=package).written
    assert written is not None and written.measurements is Measurements.DROPPED
    assert "measured/ dropped: it was of another kernel.py" in str(written)
    assert not (package / "measured").exists()


def test_what_a_killed_writer_left_is_no_foreign_file(package: Path) -> None:
    before = measured_package(package)
    files = {n: b.decode() for n, b in content(package).items() if not n.startswith("measured/")}
    for name in (".measured.kgen-new", ".measured.kgen-old"):
        (package / name).mkdir()
        (package / name / "report.json").write_text("half")
    require_replaceable(package)
    assert not compare_package(files, package)
    write_measured(read_report(package), package)
    assert content(package / "measured") == before
    assert not list(package.glob(".measured.*"))
