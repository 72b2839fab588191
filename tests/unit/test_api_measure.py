"""`kgen.bench`, `kgen.tune` and `kgen.port`: functions, whatever was imported, with the refusals of the commands."""

import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from bench_machine import SPEC, MadeUpMachine, emitted
from command_line import ROOT

import kgen
from kgen.errors.bench import MemoryVersionError, UnknownBenchCaseError
from kgen.errors.check import NoGpuError
from kgen.errors.cli import ArgumentsConflictError, IncumbentNameError, NoTargetError, UnknownCaseError

ONE = SPEC.replace("  empty: {M: 256}\n", "").replace("  large: {M: 4096}\n", "")
MODULES = ("kgen.bench.harness", "kgen.bench", "kgen.tune", "kgen.sweep", "kgen.port", "kgen.bench.record")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return emitted(tmp_path_factory.mktemp("built"))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> MadeUpMachine:
    found = MadeUpMachine().install(monkeypatch)
    monkeypatch.setattr(importlib.import_module("kgen.tune"), "check_package", found.check_package)
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "made_up.yaml").write_text(ONE)
    (tmp_path / "old.py").write_text("def old(a, b):\n    return a @ b\n")
    return tmp_path / "made_up.yaml"


@pytest.mark.parametrize("imports", ["kgen", *MODULES, ", ".join(MODULES), ", ".join(reversed(MODULES))])
def test_they_are_functions_whatever_is_imported(imports: str) -> None:
    names = "('bench', 'tune', 'port', 'check')"
    code = f"import kgen, {imports}, inspect; print([inspect.isfunction(getattr(kgen, n)) for n in {names}])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[True, True, True, True]\n"


def test_the_names_are_public() -> None:
    assert {"bench", "tune", "port"} <= set(kgen.__all__)
    assert all(inspect.isfunction(getattr(kgen, name)) for name in ("bench", "tune", "port"))


def test_bench(package: Path, machine: MadeUpMachine) -> None:
    steps: list[str] = []
    result = kgen.bench(str(package), cases=["small"], progress=steps.append)
    assert result.report is not None and [case.id for case in result.report.cases] == ["small"]
    assert result.report.command == f"kgen.bench({str(package)!r})"
    assert [step.partition(":")[0] for step in steps] == ["build", "check", "bench small"]
    assert kgen.bench(package, mode="check").report is None and not (package / "measured").exists()


def test_tune_and_port(file: Path, machine: MadeUpMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned = kgen.tune(str(file), folder=file.parent / "tuned")
    assert tuned.ok and tuned.package.folder == file.parent / "tuned"
    ported = kgen.port(kgen.load_spec(file), f"{file.parent / 'old.py'}::old", "h200", integration="true")
    assert ported.report.integration is not None and ported.report.integration.exit_status == 0
    assert ported.package.folder == Path("generated/h200/made_up")


@pytest.fixture(autouse=True)
def current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_what_is_refused_runs_and_writes_nothing(package: Path, file: Path, machine: MadeUpMachine) -> None:
    before = sorted(file.parent.rglob("*"))
    with pytest.raises(ArgumentsConflictError, match=r"mode 'fast' is none of build, check, bench"):
        kgen.bench(package, mode="fast")
    with pytest.raises(MemoryVersionError, match="'one' is not a version"):
        kgen.bench(package, version="one")
    with pytest.raises(UnknownBenchCaseError, match="has no case 'tiny'"):
        kgen.bench(package, cases=["small", "tiny"])
    with pytest.raises(ArgumentsConflictError, match="sweep measures the best candidates, tries names variants"):
        kgen.tune(file, tries=[{"tile_n": 64}], sweep=3)
    with pytest.raises(ArgumentsConflictError, match="sweep is -1, a number of candidates"):
        kgen.tune(file, sweep=-1)
    for case in ("tiny", ""):
        with pytest.raises(UnknownCaseError, match="its cases are small"):
            kgen.tune(file, case=case)
        with pytest.raises(UnknownCaseError, match="its cases are small"):
            kgen.port(file, "old.py::old", case=case)
    with pytest.raises(IncumbentNameError, match="neither"):
        kgen.port(file, "old.py")
    file.with_name("none.yaml").write_text(ONE.replace("targets: [h200]", ""))
    with pytest.raises(NoTargetError, match="names no target"):
        kgen.tune(file.with_name("none.yaml"))
    file.with_name("none.yaml").unlink()
    assert machine.steps == [] and sorted(file.parent.rglob("*")) == before


def test_without_a_gpu(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("kgen.check.on_device"), "find_gpus", lambda: ())
    with pytest.raises(NoGpuError, match="needs a GPU with sm_90a; this machine has no GPU") as caught:
        kgen.bench(package)
    assert caught.value.exit_code == 4 and isinstance(caught.value, kgen.KgenError)
