"""Golden packages for CDNA that `kgen check` compares nothing of, in the simulator at their full extents.

`make test` takes the sum of 4 GiB; `make test-all` all of them.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kgen.check import simulate_package

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


@pytest.mark.slow
def test_of_several_large_launches_a_part_of_the_first_is_looked_at(tmp_path: Path) -> None:
    folder = tmp_path / "gemm_bf16_split_k"
    shutil.copytree(SCRIPT.parents[2] / "generated" / "mi300x" / folder.name, folder)
    result = simulate_package(folder)
    assert result.ok and not result.is_compared and {case.status for case in result.cases} == {"not compared"}
    assert any("256 and 256 workgroups" in note and "the limit is" in note for note in result.notes)
    text = (folder / "kernel.py").read_text(encoding="utf-8")
    barrier = "        fx.gpu.barrier()\n        for step in"
    assert text.count(barrier) == 1
    (folder / "kernel.py").write_text(text.replace(barrier, "        for step in"), encoding="utf-8")
    assert any("LDS race" in failure for failure in simulate_package(folder).failures)


@pytest.mark.slow
def test_a_kernel_that_reads_other_places_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "mi300x" / "full_sum_fp32"
    shutil.copytree(SCRIPT.parents[2] / "generated" / "mi300x" / "full_sum_fp32", folder)
    text = (folder / "kernel.py").read_text(encoding="utf-8")
    assert text.count("rows=(262144,)") == 2  # elements from the rows of a workgroup to those of the next one
    (folder / "kernel.py").write_text(text.replace("rows=(262144,)", "rows=(262140,)"), encoding="utf-8")
    command = [sys.executable, str(SCRIPT), "--generated", str(tmp_path), "--only", "full_sum_fp32"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3000, check=False)
    assert done.returncode == 1 and "does not read element" in done.stdout, done.stdout + done.stderr
