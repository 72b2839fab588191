"""Many processes write one database at once, some are killed: nothing lost, nothing twice, nobody locked out."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("write_records.py")


def write(folder: Path, *arguments: str) -> dict[str, float]:
    """Run the writers; the script itself compares what is there with what they were told is written."""
    command = [sys.executable, str(SCRIPT), str(folder / "records.sqlite"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_eight_at_once(tmp_path):
    found = write(tmp_path, "--processes", "8", "--seconds", "3")
    assert found["writers"] == 8 and found["promised"] >= 8 * 3
    assert found["longest_ms"] < 20_000 and found["longest_open_ms"] < 20_000


def test_killed_at_random_moments(tmp_path):
    found = write(tmp_path, "--processes", "4", "--seconds", "5", "--kills", "20")
    assert found["killed"] >= 5 and found["promised"] >= 4 * 3


@pytest.mark.slow
def test_eight_at_once_for_a_minute(tmp_path):
    found = write(tmp_path, "--processes", "8", "--seconds", "60")
    assert found["writers"] == 8 and found["promised"] >= 1000
    assert found["longest_ms"] < 20_000 and found["longest_open_ms"] < 20_000
