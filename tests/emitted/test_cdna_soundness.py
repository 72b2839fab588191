"""Legal candidates for CDNA compile within the machine, what lies outside of a rule about it does not.

`make test` takes a point inside and one outside of two sets on each arch, which the commit's hash picks; `make
test-all` runs `tests/cdna/soundness.py` over all of them.
"""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("elftools")
pytestmark = pytest.mark.emitted
SCRIPT = Path(__file__).resolve().parents[1] / "cdna" / "soundness.py"


@pytest.mark.parametrize("target", ["mi300x", "mi355x"])
def test_the_sets_of_this_commit_are_sound(target: str) -> None:
    command = [sys.executable, str(SCRIPT), "--target", target, "--of-commit", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip().endswith(" 0 wrong"), done.stdout
