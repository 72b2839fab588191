"""`import kgen` is quick and imports nothing heavy; what needs torch imports it when it runs."""

import os
from pathlib import Path

import pytest
from command_line import run_python

HEAVY = "{'torch', 'cutlass', 'flydsl', 'sympy', 'lark', 'numpy', 'pydantic', 'ruamel', 'jinja2', 'rich', 'typer'}"


@pytest.mark.parametrize(
    ("statement", "loaded"),
    [
        ("import kgen", "[]"),
        ("import kgen.errors.base", "[]"),
        ("import kgen.cli", "['rich', 'typer']"),
        ("import kgen.pipeline", "['ruamel']"),
        ("import kgen.records", "[]"),
    ],
)
def test_imports_only_what_it_needs(statement: str, loaded: str, tmp_path: Path) -> None:
    done = run_python(f"{statement}\nimport sys; print(sorted({HEAVY} & set(sys.modules)))", tmp_path)
    assert done.stdout.strip() == loaded, done.stderr


def test_import_is_quick(tmp_path: Path) -> None:
    code = "import time; t = time.process_time(); import kgen; print(time.process_time() - t)"
    assert min(float(run_python(code, tmp_path).stdout) for _ in range(3)) < 0.1


def test_a_spec_loads_without_torch(tmp_path: Path) -> None:
    code = "import sys, kgen; kgen.load_spec(sys.argv[1]); print('torch' in sys.modules)"
    spec = Path(__file__).resolve().parents[2] / "specs" / "gemm_bf16.yaml"
    assert run_python(code, tmp_path, str(spec)).stdout == "False\n"


def test_the_library_answers_quickly_without_torch(tmp_path: Path) -> None:
    code = "import kgen.solution, kgen.support, kgen.doctor, sys; print('torch' in sys.modules)"
    start = _seconds_of_children()
    assert run_python(code, tmp_path).stdout == "False\n"
    assert _seconds_of_children() - start < 3


def _seconds_of_children() -> float:
    """Return the CPU seconds of the processes that have ended: other work on the machine does not count."""
    times = os.times()
    return times.children_user + times.children_system
