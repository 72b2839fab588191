"""The command line as a user runs it: a process of its own, with its streams apart."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

SPEC = """name: small
reference: |
  def product(a, b):
      return a @ b
inputs:
  a: {shape: [M, K], dtype: bf16}
  b: {shape: [K, N], dtype: bf16}
extents: {M: 256, N: 256, K: 128}
"""


def run_python(code: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python code with this checkout's kgen, in a folder."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def kgen(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `kgen ARGUMENTS` in a folder."""
    return run_python("from kgen.cli import main; main()", folder, *arguments)


def kgen_json(folder: Path, *arguments: str) -> dict[str, Any]:
    """Run `kgen ARGUMENTS --json`; stdout must be one JSON object that agrees with the exit code."""
    done = kgen(folder, *arguments, "--json")
    assert done.stdout.count("\n") == 1, (done.stdout, done.stderr)
    answer: dict[str, Any] = json.loads(done.stdout)
    assert answer["exit_code"] == done.returncode and answer["ok"] == (done.returncode == 0)
    return answer
