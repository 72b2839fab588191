"""Every op in every type on CDNA: compiled with no device library, executed in the simulator, and torch's values."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("elftools")

from kgen.check.flydsl.stand_ins import rocm_path
from kgen.check.flydsl.toolchain import cross_environment
from kgen.target import load_device

pytestmark = pytest.mark.emitted
SCRIPT = Path(__file__).with_name("cdna_ops.py")
LEAST = {
    "fp32": 80,
    "fp64": 25,
    "int8": 20,
    "uint8": 20,
    "int16": 20,
    "int32": 20,
    "int64": 20,
    "bool": 9,
    "casts": 144,
}


@pytest.mark.slow
@pytest.mark.parametrize("what", LEAST)
@pytest.mark.parametrize("target", ["mi300x", "mi355x"])
def test_ops_mean_what_torch_means(target: str, what: str) -> None:
    environment = {**os.environ, **cross_environment(load_device(target).arch.isa, rocm_path())}
    folders = [str(SCRIPT.parents[1] / name) for name in ("unit", "gpu")]
    environment["PYTHONPATH"] = os.pathsep.join([*folders, environment["PYTHONPATH"]])
    command = [sys.executable, str(SCRIPT), target, what]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "WRONG" not in done.stdout and "error:" not in done.stderr, done.stdout + done.stderr[-2000:]
    assert int(done.stdout.split(" tried")[0].split()[-1]) >= LEAST[what], done.stdout
