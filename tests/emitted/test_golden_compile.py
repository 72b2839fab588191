"""Every golden package compiles for its architecture, with no spill and the instructions that its plan states."""

import os
import sys
from pathlib import Path

import pytest

from kgen.check import CheckResult, check_packages
from kgen.check.package import read_package

pytestmark = pytest.mark.emitted
GENERATED = Path(__file__).resolve().parents[2] / "generated"


def golden_folders() -> list[Path]:
    """Return every package under `generated/`."""
    return sorted(path.parent for path in GENERATED.glob("*/*/plan.json"))


def show(result: CheckResult, done: int, total: int) -> None:
    """Write one line of progress."""
    name = f"{result.folder.parent.name}/{result.name}"
    print(f"[{done}/{total}] {name}: {'ok' if result.ok else 'FAILED'}", file=sys.stderr, flush=True)


def test_every_golden_package_compiles_as_planned() -> None:
    folders = golden_folders()
    assert folders, f"no package in {GENERATED}; `kgen emit --all` writes them"
    results = check_packages(folders, progress=show)
    findings = [f"{r.folder.parent.name}/{r.name}: {finding}" for r in results for finding in r.findings]
    assert not findings, os.linesep.join(findings)
    assert not [r.name for r in results if r.notes]  # no kernel.py was edited by hand
    for folder, result in zip(folders, results, strict=True):
        planned = [e.variant for e in read_package(folder).expectations]
        assert [v.variant for v in result.variants] == planned, folder
        for variant in result.variants:
            assert sum(kernel.spills for kernel in variant.kernels) == 0
