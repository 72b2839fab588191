"""The rows of the memory-bound benchmark, with no GPU: all are emitted, and all compile."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.emitted
SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "memory_bound.py"


def right(*options: str) -> str:
    command = [sys.executable, str(SCRIPT), "--dry-run", "--processes", "2", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1500, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_row_is_emitted() -> None:
    assert right("--group", "1", "3", "wide").splitlines()[-1] == "111 rows, 0 wrong"


@pytest.mark.slow
def test_the_rows_of_the_bars_compile() -> None:
    right("--group", "1", "3", "--compile")
