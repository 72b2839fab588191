"""The incumbent of a command line: found as text, never executed, kept byte for byte."""

from pathlib import Path

import pytest

from kgen.cli import run
from kgen.errors.base import KgenError
from kgen.errors.cli import IncumbentNameError
from kgen.errors.spec import ReferenceEntryError, ReferenceSyntaxError
from kgen.incumbents import incumbent_of
from kgen.spec.model import ReferenceKind

SOURCE = "raise RuntimeError('imported')\n\n\ndef gemm(a, b):\n    return a @ b\n\n\nclass Gemm:\n    pass\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the import path with modules that end the process or raise when they are imported."""
    for name in ("own/gemms/fast.py", "loose/inner/gemm.py", "own/__init__.py", "own/gemms/__init__.py", "single.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(SOURCE)
    (tmp_path / "built.so").write_bytes(b"\x7fELF")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "file"),
    [
        ("single.py::gemm", "single.py"),
        ("own/gemms/fast.py::gemm", "own/gemms/fast.py"),
        ("./own/gemms/../gemms/fast.py::gemm", "own/gemms/fast.py"),
        ("single:gemm", "single.py"),
        ("own.gemms.fast:gemm", "own/gemms/fast.py"),
        ("own:gemm", "own/__init__.py"),
        ("own.gemms:gemm", "own/gemms/__init__.py"),
        ("loose.inner.gemm:gemm", "loose/inner/gemm.py"),  # folders without __init__.py
    ],
)
def test_a_function_is_found_and_not_executed(text: str, file: str, folder: Path) -> None:
    found = incumbent_of(text)
    assert (found.kind, found.entry, found.is_module) == (ReferenceKind.FILE, "gemm", False)
    assert found.source == SOURCE and found.file == Path(file).name
    assert found.path is not None and found.path.resolve() == folder / file


def test_an_absolute_path_is_taken(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("a folder: with blanks") / "x.py"
    other.write_text(SOURCE)
    found = incumbent_of(f"{other}::gemm")
    assert found.path == other and found.file == "x.py"  # no folder of this machine goes into the package


@pytest.mark.parametrize("text", ["single.py::Gemm", "single:Gemm"])
def test_a_class_is_constructed(text: str, folder: Path) -> None:
    assert incumbent_of(text).is_module


def test_the_text_is_kept_byte_for_byte(folder: Path) -> None:
    data = "# Größe: µs\r\ndef gemm(a, b):\r\n    return a @ b  # …\n\n\n".encode()
    (folder / "crlf.py").write_bytes(data)
    assert incumbent_of("crlf.py::gemm").source.encode() == data


@pytest.mark.parametrize(
    "text",
    [
        "",
        "gemm",
        "::gemm",
        ":gemm",
        "single.py::",
        "single:",
        "single.py::a b",
        "single.py::a.b",
        "single.py",
        "a::b c",
    ],
)
def test_what_names_nothing(text: str, folder: Path) -> None:
    with pytest.raises(IncumbentNameError, match=r"it is neither file\.py::name nor package\.module:name\n  = e\.g\. "):
        incumbent_of(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("none.py::gemm", "No such file or directory"),
        ("own::gemm", "Is a directory"),
        ("single.py/x.py::gemm", "Not a directory"),
        ("nowhere:gemm", "there is no module nowhere"),
        ("own.lost.fast:gemm", r"there is no module own\.lost"),
        ("single.inner:gemm", r"there is no module single\.inner"),
        ("own..fast:gemm", r"there is no module own\."),
        ("loose:gemm", "loose is no Python file"),
        ("math:gemm", "math is no Python file|there is no module math"),
        ("sys:gemm", "there is no module sys"),
    ],
)
def test_what_is_not_there(text: str, reason: str, folder: Path) -> None:
    with pytest.raises(IncumbentNameError, match=rf"--incumbent .*: (?:{reason})"):
        incumbent_of(text)


def test_text_that_is_not_utf_8(folder: Path) -> None:
    (folder / "latin.py").write_bytes("# -*- coding: latin-1 -*-\n# Größe\ndef gemm(): ...\n".encode("latin-1"))
    with pytest.raises(IncumbentNameError, match=r"latin\.py::gemm: it is not UTF-8 text"):
        incumbent_of("latin.py::gemm")


@pytest.mark.parametrize("text", ["single.py::gemn", "single:gemn"])
def test_a_missing_entry_says_what_is_there(text: str, folder: Path) -> None:
    with pytest.raises(ReferenceEntryError, match=r"^single\.py: ") as caught:
        incumbent_of(text)
    assert "gemm and Gemm" in str(caught.value) and "'gemn'" in str(caught.value)


def test_text_that_is_no_python(folder: Path) -> None:
    (folder / "broken.py").write_text("def gemm(a, b):\n    return a @@ b\n")
    with pytest.raises(ReferenceSyntaxError, match=r"^broken\.py:2:"):
        incumbent_of("broken.py::gemm")
    (folder / "nul.py").write_text("def gemm(a, b):\n    return '\0'\n")
    with pytest.raises(KgenError, match=r"^nul\.py:1:1: .*null bytes"):
        incumbent_of("nul.py::gemm")


def test_the_command_line_refuses_before_it_writes(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "port.yaml").write_text("name: [")
    assert run(("port", "port.yaml", "--incumbent", "single.py:gemm")) == 2
    assert "there is no module single.py" in capfd.readouterr().err
    assert not (folder / "generated").exists()
