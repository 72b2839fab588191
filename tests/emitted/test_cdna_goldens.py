"""Golden packages for CDNA that `kgen check` runs nothing of, in the simulator at their full extents.

`make test` takes the sum of 4 GiB; `make test-all` all of them.
"""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("elftools")
pytestmark = pytest.mark.emitted
SCRIPT = Path(__file__).resolve().parents[1] / "cdna" / "goldens.py"
TARGETS = ("mi300x", "mi355x")


def right(*options: str) -> str:
    command = [sys.executable, str(SCRIPT), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3000, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 wrong" in done.stdout, done.stdout
    return done.stdout


@pytest.mark.parametrize("target", TARGETS)
def test_a_sum_of_four_gigabytes_is_right(target: str) -> None:
    assert "full_sum_fp32: 0 faults" in right("--target", target, "--only", "full_sum_fp32")


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_all_large_packages_are_right(target: str) -> None:
    assert "batch_norm_fp32_train: 0 faults" in right("--target", target)
