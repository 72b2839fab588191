"""`kgen bench`, `tune`, `port` and `report` with a made-up machine: one JSON object, exit codes, refusals."""

import importlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from bench_machine import SPEC, MadeUpMachine, emitted

from kgen import cli, cli_measure
from kgen.bench.measure import TURNS
from kgen.spec.load import load_spec

ONE = SPEC.replace("  empty: {M: 256}\n", "").replace("  large: {M: 4096}\n", "")
PORT = ("port", "made_up.yaml", "--incumbent", "old.py::old")
MODULE = "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x @ x\n"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return emitted(tmp_path_factory.mktemp("built"))


@pytest.fixture
def folder(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a spec, an incumbent, a module and a package."""
    (tmp_path / "made_up.yaml").write_text(ONE)
    (tmp_path / "module.py").write_text(MODULE)
    (tmp_path / "old.py").write_text("def old(a, b):\n    return a @ b\n")
    shutil.copytree(built, tmp_path / "package")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["/somewhere/bin/kgen", "said"])
    return tmp_path


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> MadeUpMachine:
    found = MadeUpMachine().install(monkeypatch)
    builds: list[str] = []

    def check_package(package: Path) -> Any:
        kernel = (package / "kernel.py").read_text()
        builds.extend([] if kernel in builds else [kernel])
        found.code = f"build {builds.index(kernel)}"
        return found.check_package(package)

    monkeypatch.setattr(importlib.import_module("kgen.tune"), "check_package", check_package)
    monkeypatch.setattr(importlib.import_module("kgen.bench.harness"), "check_package", check_package)
    return found


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("kgen.check.on_device"), "find_gpus", lambda: ())


def answer(capfd: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """Return the one JSON object of a command; it agrees with the exit code."""
    capfd.readouterr()
    code = cli.run((*arguments, "--json"))
    out = capfd.readouterr().out
    assert out.count("\n") == 1
    found: dict[str, Any] = json.loads(out)
    assert found["exit_code"] == code and found["ok"] is (code == 0)
    return found


def content(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_bench(folder: Path, machine: MadeUpMachine, capfd: pytest.CaptureFixture[str]) -> None:
    (result,) = answer(capfd, "bench", "package", "--workspace", "work")["results"]
    assert result["folder"] == "package" and result["ok"] and not result["kept"]
    assert result["report"]["command"] == "kgen said"  # without the folder of the program
    assert json.loads((folder / "package/measured/report.json").read_text()) == result["report"]
    assert {"baseline_report.md", "memory/v0.json"} <= set(content(folder / "work"))
    (again,) = answer(capfd, "bench", "package")["results"]
    assert again["kept"] and again["report"] == result["report"]


def test_bench_shows_a_table(folder: Path, machine: MadeUpMachine, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run(("bench", "package")) == 0
    shown = capfd.readouterr()
    assert "small" in shown.out and "large" in shown.out
    assert "build: compile every variant" in shown.err and "bench small" in shown.err
    assert cli.run(("bench", "package")) == 0
    assert "not measured again: the same machine code was measured before (--again)" in capfd.readouterr().out


def test_bench_of_several_packages_returns_the_worst(
    folder: Path, machine: MadeUpMachine, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(folder / "package", folder / "other")
    assert len(answer(capfd, "bench", "package", "other", "--mode", "build")["results"]) == 2
    machine.tested["small"] = {"status": "FAIL", "failures": ["small: wrong"], "latency_us": None}
    found = answer(capfd, "bench", "package", "other")
    assert found["exit_code"] == 1 and [r["ok"] for r in found["results"]] == [False, False]


def test_modes_and_cases(folder: Path, machine: MadeUpMachine, capfd: pytest.CaptureFixture[str]) -> None:
    for mode, keys in (("build", (True, True)), ("check", (False, True))):
        (result,) = answer(capfd, "bench", "package", "--mode", mode)["results"]
        assert (result["tested"] is None, result["report"] is None) == keys
    (result,) = answer(capfd, "bench", "package", "--case", "large", "--workspace", "work")["results"]
    assert [case["id"] for case in result["report"]["cases"]] == ["large"]
    assert not (folder / "package" / "measured").exists() and not (folder / "work").exists()


def test_tune(folder: Path, machine: MadeUpMachine, capfd: pytest.CaptureFixture[str]) -> None:
    machine.ratios = {"small": 1.2}
    found = answer(capfd, "tune", "made_up.yaml", "--try", "stages=2", "--try", " tile_n = 128 , schedule = pingpong ")
    assert found["folder"] == "generated/h200/made_up" and found["winner"] is None and found["fixed"] == []
    changes = [row["change"] for row in found["report"]["ledger"]]
    assert changes[0].startswith("stages ") and changes[0].endswith(" -> 2") and "-> 128" in changes[1]
    assert (folder / "generated/h200/made_up/measured/report.json").is_file()


def test_tune_writes_a_winner_into_the_spec(
    folder: Path, machine: MadeUpMachine, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ratios = iter((1.3, 1.0, 1.0, 1.0, 1.3, 1.0, 1.0))
    measure = machine.measure

    def measured(request: Any, log: Path) -> Any:
        machine.ratios["small"] = next(ratios)
        return measure(request, log)

    monkeypatch.setattr(machine, "measure", measured)
    found = answer(capfd, "tune", "made_up.yaml", "-o", "out", "--try", "tile_n=128", "--update-spec")
    assert found["winner"]["name"] == "try 1" and found["ok"]
    assert [(f["case"], f["axis"], f["value"]) for f in found["fixed"]] == [("small", "tile_n", 128)]
    assert (folder / "made_up.yaml").read_text().startswith(ONE)
    assert [(f.case, f.axis, f.value) for f in load_spec("made_up.yaml").fixed] == [("small", "tile_n", 128)]
    assert answer(capfd, "emit", "made_up.yaml", "-o", "out", "--check")["ok"]  # what was delivered


def test_port(folder: Path, machine: MadeUpMachine, capfd: pytest.CaptureFixture[str]) -> None:
    found = answer(capfd, *PORT, "-o", "out", "--integration", "exit 5")
    assert found["ok"] and found["report"]["incumbent"]["origin"] == "old.py"
    assert found["report"]["integration"]["exit_status"] == 5
    assert (folder / "out/incumbent.py").read_bytes() == (folder / "old.py").read_bytes()


def test_report(folder: Path, machine: MadeUpMachine, capfd: pytest.CaptureFixture[str]) -> None:
    answer(capfd, "bench", "package")
    before = content(folder / "package")
    (folder / "package/measured/baseline_report.md").unlink()
    machine.steps.clear()
    (result,) = answer(capfd, "report", "package")["results"]
    assert result["name"] == "made_up" and machine.steps == []
    assert content(folder / "package") == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("bench", "package", "--mode", "fast"), "--mode 'fast' is none of build, check, bench"),
        (("bench", "package", "--version", "1"), "'1' is not a version"),
        (("bench", "package", "--case", "tiny"), "package has no case 'tiny'"),
        (("bench", "package", "none"), "none is not a kgen package: kernel.py is missing"),
        (("bench", "package", "--turns", "5"), "Invalid value for '--turns'"),
        (("bench",), "Missing argument 'DIR...'"),
        (("tune", "made_up.yaml", "--case", "tiny"), "made_up has no case 'tiny'"),
        (("tune", "none.yaml"), "cannot read the spec: No such file or directory"),
        (("tune", "made_up.yaml", "--target", "h21"), "unknown device 'h21'"),
        (("tune", "made_up.yaml", "--try", "tile_n"), "--try tile_n: 'tile_n' is not axis=value"),
        (("tune", "made_up.yaml", "--try", "tile_n="), "--try tile_n=: 'tile_n' is not axis=value"),
        (("tune", "made_up.yaml", "--try", "tile_n=64,"), "--try tile_n=64,: '' is not axis=value"),
        (("tune", "made_up.yaml", "--try", "tile_n=64,tile_n=96"), "'tile_n' is given twice"),
        (("tune", "made_up.yaml", "--try", "colour=3"), "colour"),
        (("tune", "made_up.yaml", "--try", "tile_n=63"), "63"),
        (("tune", "made_up.yaml", "--try", "tile_n=--64"), "tile_n = --64 is outside of"),
        (("tune", "made_up.yaml", "--try", "tile_n=²"), "tile_n = ² is outside of"),
        (("tune", "made_up.yaml", "--sweep", "4", "--try", "tile_n=64"), "--sweep measures the best candidates"),
        (("tune", "made_up.yaml", "--sweep", "-1"), "Invalid value for '--sweep'"),
        (("tune", "module.py", "--target", "h200", "--update-spec"), "module.py is a module"),
        (("port", "made_up.yaml"), "Missing option '--incumbent'"),
        (("port", "made_up.yaml", "--incumbent", "old.py"), "neither file.py::name nor package.module:name"),
        (("port", "made_up.yaml", "--incumbent", "old.py::new"), "'new'"),
        ((*PORT, "--case", "tiny"), "made_up has no case 'tiny'"),
        ((*PORT, "--try", "x"), "'x' is not axis=value"),
        (("port", "module.py", *PORT[2:], "--target", "h200", "--update-spec"), "module.py is a module"),
        (("report", "package"), "the package was not measured"),
        (("report", "none"), "the package was not measured"),
    ],
)
def test_what_is_refused_writes_nothing(
    arguments: tuple[str, ...], message: str, folder: Path, machine: MadeUpMachine, capfd: pytest.CaptureFixture[str]
) -> None:
    before = content(folder)
    found = answer(capfd, *arguments)
    assert found["exit_code"] == 2 and message in found["message"], found
    assert content(folder) == before and machine.steps == []


@pytest.mark.parametrize(
    "arguments", [("bench", "package"), ("tune", "made_up.yaml", "-o", "out"), (*PORT, "-o", "out")]
)
def test_without_a_gpu(
    arguments: tuple[str, ...], folder: Path, no_gpu: None, capfd: pytest.CaptureFixture[str]
) -> None:
    found = answer(capfd, *arguments)
    place = "out" if "out" in arguments else "package"
    assert found["exit_code"] == 4 and found["error"] == "NoGpuError"
    assert found["message"] == f"running {place} needs a GPU with sm_90a; this machine has no GPU"
    assert found["remedy"].startswith(f"with no GPU, `kgen check {place} --compile-only` compiles")
    assert not (folder / place / "measured").exists()


def test_a_budget_that_is_spent_is_a_failed_check(
    folder: Path, machine: MadeUpMachine, capfd: pytest.CaptureFixture[str]
) -> None:
    machine.ratios = {"small": 1.2}
    tries = [part for n in (64, 96, 128, 160, 192) for part in ("--try", f"tile_n={n}")]
    found = answer(capfd, "tune", "made_up.yaml", "-o", "out", *tries)
    assert found["exit_code"] == 1 and found["error"] == "BudgetSpentError"
    assert not (folder / "out" / "measured").exists()


def test_the_help_states_how_many_turns_there_are_by_default() -> None:
    (option,) = cli_measure.Turns.__metadata__
    assert option.help == f"A B B A turns per case; default: {TURNS}"
