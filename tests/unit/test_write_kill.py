"""A writer killed at any moment leaves the old package or the new one, whole."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("kill_writer.py")


@pytest.mark.parametrize(("how", "kills"), [("swap", 200), ("rename", 60)])
def test_killed_at_random_moments(tmp_path, how, kills):
    arguments = [sys.executable, str(SCRIPT), str(tmp_path / "package"), str(kills), "7", how]
    run = subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    result = json.loads(run.stdout)
    assert sum(result["counts"]) == kills
    assert min(result["counts"]) > kills // 10  # both versions were found: the kills really fell between writes
    assert result["beside"] == ["package"]  # the next write removed what killed ones had left
