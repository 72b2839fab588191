"""Random pointwise and reduction programs on CDNA: emitted, compiled, and executed in the simulator.

`make test` takes 15 that the commit's hash picks, on one arch or the other; `make test-all` takes a hundred on each.
"""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("elftools")
pytestmark = pytest.mark.emitted
SCRIPT = Path(__file__).resolve().parents[1] / "gpu" / "cdna_programs.py"


def right(*options: str) -> None:
    command = [sys.executable, str(SCRIPT), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3000, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 wrong" in done.stdout, done.stdout


@pytest.mark.parametrize(("target", "count"), [("mi300x", "8"), ("mi355x", "7")])
def test_the_programs_of_this_commit_are_right(target: str, count: str) -> None:
    right("--target", target, "--count", count, "--of-commit")


@pytest.mark.slow
@pytest.mark.parametrize("target", ["mi300x", "mi355x"])
def test_a_hundred_programs_are_right(target: str) -> None:
    right("--target", target, "--count", "100")
