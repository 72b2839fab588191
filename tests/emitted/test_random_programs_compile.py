"""The random pointwise and reduction programs, with no GPU: emitted and compiled.

`make test` takes the 30 that the commit's hash picks, so that all are met in time; `make test-all` takes every one.
"""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.emitted
SCRIPT = Path(__file__).resolve().parents[1] / "gpu" / "random_programs.py"


def right(*options: str) -> None:
    command = [sys.executable, str(SCRIPT), "--dry-run", "--compile", "--processes", "2", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1500, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_programs_of_this_commit_are_emitted_and_compile() -> None:
    right("--of-commit")


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(1, 11))
def test_all_programs_are_emitted_and_compile(shard: int) -> None:
    right("--shard", f"{shard}/10")
