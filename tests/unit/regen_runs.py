"""Runs of `kgen regen` in processes of their own, and what they leave: packages, records but where and when."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kgen.records import Store

ROOT = Path(__file__).resolve().parents[2]
NOT_COMPARED = ("at", "host")

SPEC = """\
name: {name}
reference: |
  import torch

  def {name}(x):
      return {body}
inputs:
  x: {{shape: [M, N], dtype: bf16}}
extents: {{M: 64, N: {n}}}
"""


def write_specs(folder: Path, bodies: Sequence[str]) -> list[Path]:
    """Write a small spec for each expression in `x`."""
    files = []
    for index, body in enumerate(bodies):
        name = f"small_{index}"
        files.append(folder / f"{name}.yaml")
        files[-1].write_text(SPEC.format(name=name, body=body, n=64 * (index + 1)), encoding="utf-8")
    return files


def command(specs: Sequence[Path], out: Path, *arguments: str) -> list[str]:
    """Return the command that regenerates into `out`."""
    placed = ("--out", str(out / "packages"), "--records", str(out / "records.sqlite"), "--json")
    return [sys.executable, "-m", "kgen.cli", "regen", *map(str, specs), *placed, *arguments]


def environment(**changed: str) -> dict[str, str]:
    """Return an environment that finds this kgen."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return os.environ | {"PYTHONPATH": path} | changed


def run(specs: Sequence[Path], out: Path, *arguments: str, **changed: str) -> dict[str, Any]:
    """Regenerate to the end and return the answer."""
    out.mkdir(exist_ok=True)
    done = subprocess.run(
        command(specs, out, *arguments), env=environment(**changed), capture_output=True, text=True, check=False
    )
    assert done.stdout, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def packages(out: Path) -> dict[str, bytes]:
    """Return every file below the packages."""
    root = out / "packages"
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def records(out: Path) -> list[dict[str, Any]]:
    """Return the records but where and when, in an order of their own."""
    with Store.read(out / "records.sqlite") as store:
        found = [record.to_json() for record in store.find()]
    rows = [{name: value for name, value in row.items() if name not in NOT_COMPARED} for row in found]
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))
