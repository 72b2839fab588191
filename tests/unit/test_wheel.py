"""The wheel, unpacked elsewhere, finds its templates and targets and emits the bytes that the checkout emits."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from test_reproducible import ROOT, emit_in_process, specs_in, tree


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel and unpack it."""
    pytest.importorskip("hatchling")
    base = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(base)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    (wheel,) = base.glob("kgen-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(base / "site")
    return base / "site"


def test_the_wheel_holds_templates_targets_and_no_tests(unpacked: Path) -> None:
    resources = unpacked / "kgen" / "_resources"
    for kind in ("templates", "targets"):
        names = {
            p.relative_to(ROOT / kind) for p in (ROOT / kind).rglob("*") if p.is_file() and "__pycache__" not in p.parts
        }
        assert {p.relative_to(resources / kind) for p in (resources / kind).rglob("*") if p.is_file()} == names
    assert {p.name for p in unpacked.iterdir() if p.suffix != ".dist-info"} == {"kgen"}
    assert (unpacked / "kgen" / "rules" / "grammar.lark").is_file()


def test_it_emits_the_bytes_of_the_checkout(unpacked: Path, tmp_path: Path) -> None:
    specs = specs_in(tmp_path / "specs")
    emit_in_process(unpacked, tmp_path / "from_wheel", tmp_path / "work", specs)
    emit_in_process(ROOT, tmp_path / "from_checkout", tmp_path / "work", specs)
    from_wheel = tree(tmp_path / "from_wheel")
    assert from_wheel and from_wheel == tree(tmp_path / "from_checkout")


def test_the_unpacked_wheel_is_what_runs(unpacked: Path, tmp_path: Path) -> None:
    code = "import kgen, kgen.resources as r; print(kgen.__file__); print(r.templates_dir())"
    environment = {"PYTHONPATH": str(unpacked), "PATH": "/usr/bin:/bin"}
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == [
        str(unpacked / "kgen" / "__init__.py"),
        str(unpacked / "kgen" / "_resources" / "templates"),
    ]
