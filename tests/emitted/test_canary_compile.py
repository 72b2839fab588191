"""The canaries whose fault is a device kernel compile for the GPU, and the fault is in their machine code."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.emitted
SCRIPT = Path(__file__).resolve().parents[1] / "gpu" / "canaries.py"


def test_the_dry_run_compiles_every_fault():
    command = [sys.executable, str(SCRIPT), "--dry-run", "--processes", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    compiled = [line for line in done.stdout.splitlines() if line.endswith("compiled")]
    assert [line.split("  ")[0] for line in compiled] == ["ok", "ok"], done.stdout
