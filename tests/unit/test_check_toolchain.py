"""Missing tools are named with the way to get them; a PyPI tool is preferred to one on PATH."""

import json
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from kgen.check import check_package, cutedsl, hardware, toolchain
from kgen.check import compile as compile_module
from kgen.check.cache import Cache
from kgen.check.toolchain import Disassemblers, Tool, find_disassemblers, find_tool
from kgen.errors.check import (
    ArchNotCheckableError,
    CompilerMissingError,
    DisassemblerFailedError,
    DisassemblerMissingError,
)


@pytest.fixture
def nothing_from_pypi(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(toolchain, "distribution", absent)


def fake_tool(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)
    return folder / name


@pytest.mark.usefixtures("nothing_from_pypi")
def test_a_missing_disassembler_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DisassemblerMissingError) as refusal:
        find_disassemblers()
    assert str(refusal.value) == (
        "nvdisasm is neither installed from PyPI (nvidia-cuda-nvdisasm) nor on PATH\n  = pip install 'kgen[hopper]'"
    )


@pytest.mark.usefixtures("nothing_from_pypi")
def test_a_tool_on_path_is_told_from_another_by_its_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = fake_tool(tmp_path / "bin", "nvdisasm", "echo listing")
    monkeypatch.setenv("PATH", f"{path.parent}:/usr/bin:/bin")
    tool = find_tool("nvdisasm")
    assert tool is not None and tool.path == path and tool.run("x") == "listing\n"
    fake_tool(tmp_path / "bin", "nvdisasm", "echo another listing")
    other = find_tool("nvdisasm")
    assert other is not None and other.version != tool.version


def test_a_failing_tool_is_an_error_with_its_words(tmp_path: Path) -> None:
    tool = Tool("nvdisasm", fake_tool(tmp_path, "nvdisasm", "echo not a cubin >&2; exit 255"), "1")
    with pytest.raises(DisassemblerFailedError, match="nvdisasm failed with exit status 255: not a cubin"):
        tool.run("x.cubin")


def test_a_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tool = Tool("any", tmp_path, "1")
    monkeypatch.setattr(cutedsl, "find_disassemblers", lambda: Disassemblers(tool, tool))
    monkeypatch.setattr(compile_module, "installed_version", lambda name: None)
    (tmp_path / "kernel.py").write_text("VARIANTS = ()\n")
    plan = {"name": "p", "target": {"device": "h200", "arch": "sm_90a"}, "evidence": []}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(CompilerMissingError, match="needs nvidia-cutlass-dsl, which is not installed in ") as refusal:
        check_package(tmp_path, cache=Cache(tmp_path / "cache"))
    assert "pip install 'kgen[hopper]'" in str(refusal.value)


def test_a_back_end_without_a_tool_chain_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(hardware, "TOOLCHAINS", {"cutedsl": cutedsl.CuteDsl})
    (tmp_path / "kernel.py").write_text("VARIANTS = ()\n")
    plan = {"name": "p", "target": {"device": "mi300x", "arch": "cdna3"}, "evidence": []}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    refusal = "targets gfx942 with flydsl: with no GPU, packages of cutedsl can be"
    with pytest.raises(ArchNotCheckableError, match=refusal):
        check_package(tmp_path)
