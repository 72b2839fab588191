"""Programs on CDNA, emitted, compiled, and executed in the simulator: random loops, and products among loops.

`make test` takes 15 random ones that the commit's hash picks, on one arch or the other, and a few with products and a
few on NaNs and infinities on each; `make test-all` takes a hundred random ones on each, and all with products.
"""

import subprocess
import sys
from pathlib import Path

import mixed_specs
import pytest
from test_cdna_specs import faults_of

from kgen.check.whole import check_all
from kgen.package.write import write_package

pytest.importorskip("elftools")
pytestmark = pytest.mark.emitted
SCRIPTS = Path(__file__).resolve().parents[1] / "gpu"
TARGETS = ("mi300x", "mi355x")
CHECKED = ("in_place", "split_softmax")  # what no spec of specs/ has: updates, k in parts


def right(script: str, *options: str) -> None:
    command = [sys.executable, str(SCRIPTS / script), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3000, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 wrong" in done.stdout, done.stdout


@pytest.mark.parametrize(("target", "count"), [("mi300x", "8"), ("mi355x", "7")])
def test_the_programs_of_this_commit_are_right(target: str, count: str) -> None:
    right("cdna_programs.py", "--target", target, "--count", count, "--of-commit")


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_a_hundred_programs_are_right(target: str) -> None:
    right("cdna_programs.py", "--target", target, "--count", "100")


@pytest.mark.parametrize("target", TARGETS)
def test_nans_and_infinities_are_right(target: str) -> None:
    """Softmax and RMS norm of bf16, and casts to bf16 of each type."""
    right("cdna_special.py", "--target", target, "--only", "0", "2", "5", "12", "14", "15")


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_all_on_nans_and_infinities_are_right(target: str) -> None:
    right("cdna_special.py", "--target", target)


@pytest.mark.parametrize("target", TARGETS)
def test_products_among_loops_are_right(target: str) -> None:
    right("cdna_mixed.py", "--target", target, "--only", "1", "3", "5", "10", "15")


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_all_products_among_loops_are_right(target: str) -> None:
    right("cdna_mixed.py", "--target", target)


@pytest.mark.parametrize("target", TARGETS)
def test_packages_of_products_and_loops_pass_their_check(target: str, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in CHECKED]
    for name, folder in zip(CHECKED, folders, strict=True):
        write_package(mixed_specs.files_of(name, target), folder)
    faults = [fault for result in check_all(folders, jobs=1) for fault in faults_of(result)]
    assert not faults, "\n".join(faults)
