"""`kgen emit`: where packages go, what --all and --check say, and that one bad spec stops no other."""

import json
from pathlib import Path

import pytest
from command_line import SPEC

from kgen import cli
from kgen.pipeline import STAGES, stage_names

MODULE = """import torch


class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, 64, dtype=torch.bfloat16)

    def forward(self, x):
        return self.linear(x)


def get_inputs():
    return [torch.randn(128, 64, dtype=torch.bfloat16)]


def get_init_inputs():
    return [64]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project folder with one spec, as the current folder."""
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "small.yaml").write_text(f"{SPEC}targets: [h200, h20]\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def answer(capfd: pytest.CaptureFixture[str], *arguments: str) -> dict:
    capfd.readouterr()
    code = cli.run((*arguments, "--json"))
    found = json.loads(capfd.readouterr().out)
    assert found["exit_code"] == code
    return found


def test_writes_below_generated_for_every_target(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run(("emit", "specs/small.yaml")) == 0
    shown = capfd.readouterr()
    assert "plan small on h200" in shown.out and "created generated/h20/small" in shown.out
    for device in ("h200", "h20"):
        plan = json.loads((folder / "generated" / device / "small" / "plan.json").read_text())
        assert plan["target"]["device"] == device
    found = answer(capfd, "emit", "specs/small.yaml", "--target", "h20")
    (result,) = found["results"]
    assert result["outcome"] == "unchanged" and "kernel.py" in result["files"] and result["variants"]


def test_an_output_folder_holds_one_package(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found = answer(capfd, "emit", "specs/small.yaml", "-o", "here")
    assert found["exit_code"] == 2 and "has the targets h200, h20" in found["message"]
    assert answer(capfd, "emit", "specs/small.yaml", "-o", "here", "--target", "h20")["ok"]
    assert (folder / "here" / "kernel.py").is_file() and not (folder / "generated").exists()


def test_a_module_stands_in_for_a_spec(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "tower.py").write_text(MODULE)
    assert answer(capfd, "emit", "tower.py")["error"] == "NoTargetError"
    (result,) = answer(capfd, "emit", "tower.py", "--target", "h200")["results"]
    assert result["folder"] == "generated/h200/tower"
    assert "self.linear" in (folder / "generated/h200/tower/reference.py").read_text()


def test_all_goes_on_after_a_bad_spec_and_returns_the_worst_code(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = (folder / "specs" / "small.yaml").read_text()
    (folder / "specs" / "a_sort.yaml").write_text(text.replace("a @ b", "(a @ b).sort(-1)[0]").replace("small", "sort"))
    (folder / "specs" / "b_key.yaml").write_text(text.replace("extents", "extentz"))
    (folder / "specs" / "c_twin.yaml").write_text(text)
    found = answer(capfd, "emit", "--all")
    codes = {(Path(r["spec"]).stem, r.get("device")): r.get("exit_code", 0) for r in found["results"]}
    assert codes[("a_sort", "h200")] == codes[("a_sort", "h20")] == 3
    assert codes[("b_key", None)] == 2
    assert codes[("c_twin", "h200")] == 0 and codes[("small", "h200")] == 2  # both make generated/h200/small
    assert found["exit_code"] == 3 and (folder / "generated/h200/small/kernel.py").is_file()
    assert cli.run(("emit", "--all")) == 3
    shown = capfd.readouterr()
    assert "error: specs/a_sort.yaml for h200: " in shown.err and "aten.sort" in shown.err
    assert "failed   specs/b_key.yaml" in shown.out and "5 failed" in shown.out and "Traceback" not in shown.err


def test_check_lists_what_is_stale(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert answer(capfd, "emit", "--all", "--check")["exit_code"] == 1
    assert not (folder / "generated").exists()
    assert answer(capfd, "emit", "--all")["ok"] and answer(capfd, "emit", "--all", "--check")["ok"]
    package = folder / "generated" / "h200" / "small"
    (package / "README.md").unlink()
    (package / "mine.txt").write_text("x")
    (package / "kernel.py").write_text("")
    (package.parent / "gone").mkdir()
    (package.parent / "gone" / "plan.json").write_text('{"generator": "kgen"}')
    found = answer(capfd, "emit", "--all", "--check")
    stale = next(r for r in found["results"] if not r["ok"])
    assert (stale["missing"], stale["extra"], stale["changed"]) == (["README.md"], ["mine.txt"], ["kernel.py"])
    assert found["orphans"] == ["generated/h200/gone"] and found["exit_code"] == 1
    assert answer(capfd, "emit", "--all", "--check", "--target", "h20")["ok"]
    assert cli.run(("emit", "--all", "--check")) == 1
    shown = capfd.readouterr().out
    assert "changed kernel.py" in shown and "generated/h200/gone: no spec makes it" in shown
    assert answer(capfd, "emit", "specs/small.yaml", "--target", "h200", "--check")["exit_code"] == 1


def test_a_fault_in_one_spec_is_an_outcome_under_all(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: object, **more: object) -> None:
        raise KeyError("lost")

    monkeypatch.setattr("kgen.golden.emit", broken)
    found = answer(capfd, "emit", "--all")
    assert [r["error"] for r in found["results"]] == ["FaultError", "FaultError"] and found["exit_code"] == 70
    assert cli.run(("emit", "specs/small.yaml", "--target", "h20")) == 70
    shown = capfd.readouterr()
    assert "Traceback" in shown.err and "error: a fault in kgen: KeyError: 'lost'" in shown.err


@pytest.mark.parametrize("stage", stage_names())
def test_stops_after_each_stage(stage: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found = answer(capfd, "emit", "specs/small.yaml", "--target", "h20", "--stop-after", stage)
    (result,) = found["results"]
    assert result["stage"] == stage and result["made"].strip() and not (folder / "generated").exists()
    first = {"trace": "graph small", "lower": "program small(%a, %b) -> out", "plan": "plan small on h20 (gemm)"}
    assert result["made"].startswith(first.get(stage, ""))
    assert stage in {s.name for s in STAGES}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "emit takes a SPEC or --all, one of the two"),
        (("--all", "specs/small.yaml"), "emit takes a SPEC or --all, one of the two"),
        (("--all", "--stop-after", "plan"), "--stop-after prints what a stage makes of one SPEC"),
        (("specs/small.yaml", "--stop-after", "stage7"), "no stage is called 'stage7'"),
        (("specs/none.yaml",), "cannot read the spec: No such file or directory"),
        (("specs/small.txt",), "'.txt' is not a spec format"),
        (("specs/small.yaml", "--target", "h21"), "unknown device 'h21'"),
    ],
)
def test_refusals(arguments: tuple[str, ...], message: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found = answer(capfd, "emit", *arguments)
    assert found["exit_code"] == 2 and message in found["message"]


def test_all_without_specs_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert answer(capfd, "emit", "--all")["error"] == "NoSpecsError"


def test_the_root_folder_and_a_folder_for_a_spec_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(SPEC)
    assert cli.run(["emit", "small.yaml", "--target", "h200", "-o", "/"]) == 2
    assert "it is the root of the file system" in capfd.readouterr().err
    assert cli.run(["emit", "."]) == 2
    assert capfd.readouterr().err.startswith("error: .: ")


def test_inputs_that_do_not_fit_the_model_are_refused_at_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = MODULE.replace("[torch.randn(128, 64, dtype=torch.bfloat16)]", "[]")
    (tmp_path / "module.py").write_text(text)
    assert cli.run(["emit", "module.py", "--target", "h200"]) == 2
    assert capfd.readouterr().err.startswith("error: module.py: the reference raised TypeError: missing")
