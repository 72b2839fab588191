"""`import kgen` is quick and imports nothing heavy; what needs torch imports it when it runs."""

import time
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
    code = "import time; t = time.perf_counter(); import kgen; print(time.perf_counter() - t)"
    assert min(float(run_python(code, tmp_path).stdout) for _ in range(3)) < 0.1


def test_a_spec_loads_without_torch(tmp_path: Path) -> None:
    code = "import sys, kgen; kgen.load_spec(sys.argv[1]); print('torch' in sys.modules)"
    spec = Path(__file__).resolve().parents[2] / "specs" / "gemm_bf16.yaml"
    assert run_python(code, tmp_path, str(spec)).stdout == "False\n"


def test_the_library_answers_quickly_without_torch(tmp_path: Path) -> None:
    code = "import kgen.solution, kgen.support, kgen.doctor, sys; print('torch' in sys.modules)"
    start = time.perf_counter()
    assert run_python(code, tmp_path).stdout == "False\n"
    assert time.perf_counter() - start < 3
