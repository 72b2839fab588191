"""What the GPU scripts bring along compiles without a GPU: extents at the edge, and the hand-written incumbent."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.emitted
GPU = Path(__file__).resolve().parents[1] / "gpu"


def run(*command: str, **variables: str) -> str:
    environment = {**os.environ, **variables}
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=300, check=False, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_extents_of_one_and_zero_compile() -> None:
    assert run(str(GPU / "edges.py"), "--dry-run").splitlines()[-1] == "14 cases, 0 wrong"


def test_the_hand_written_incumbent_compiles_to_wgmma(tmp_path: Path) -> None:
    from kgen.check.binary import read_binary

    code = "import hopper_gemm; hopper_gemm.compiled(256, 256, 256)"
    dump = {"CUTE_DSL_ARCH": "sm_90a", "CUTE_DSL_KEEP": "cubin", "CUTE_DSL_DUMP_DIR": str(tmp_path)}
    run("-c", code, CUDA_VISIBLE_DEVICES="", PYTHONPATH=str(GPU / "incumbents"), **dump)
    (cubin,) = tmp_path.glob("*.cubin")
    (kernel,) = read_binary(cubin, "sm_90a").kernels
    assert {site.kind for site in kernel.mma} == {"HGMMA"} and kernel.tma_loads and not kernel.spills
