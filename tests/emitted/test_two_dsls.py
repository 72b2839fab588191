"""CuTe DSL and FlyDSL abort a process in which they meet: checks keep them apart, and kgen.build refuses the second."""

import subprocess
import sys
from pathlib import Path

import cdna_fixtures
import pytest
from test_check_compile import ADD, package

from kgen.check import check_packages
from kgen.check.cache import Cache

pytestmark = pytest.mark.emitted
ROOT = Path(__file__).resolve().parents[2]

LOADS = """
import importlib
import sys
from pathlib import Path

from kgen.built import load_kernel
from kgen.errors.cli import OtherDslLoadedError
from kgen.target import load_device

sys.path.insert(0, {root!r})
importlib.import_module({loaded!r})
try:
    load_kernel(Path({folder!r}), load_device({device!r}))
except OtherDslLoadedError as error:
    print(error)
"""


def test_packages_of_both_are_checked_one_after_the_other(tmp_path: Path) -> None:
    hopper = package(tmp_path / "hopper", ADD)
    folders = [hopper, *(cdna_fixtures.write("scaled_add", d, tmp_path / d) for d in ("mi300x", "mi355x")), hopper]
    results = check_packages(folders, jobs=1, cache=Cache(tmp_path / "cache"))
    assert [result.arch for result in results] == ["sm_90a", "gfx942", "gfx950", "sm_90a"]
    assert all(variant.failure is None and variant.kernels for result in results for variant in result.variants)
    assert not {"cutlass", "flydsl"} & set(sys.modules)


@pytest.mark.parametrize(
    ("loaded", "device", "wanted"), [("cutlass", "mi300x", "flydsl"), ("flydsl.compiler", "h200", "cutlass")]
)
def test_the_second_in_a_process_is_refused(tmp_path: Path, loaded: str, device: str, wanted: str) -> None:
    if device == "h200":
        folder = package(tmp_path / "second", ADD)
    else:
        folder = cdna_fixtures.write("scaled_add", device, tmp_path / "second")
    code = LOADS.format(root=str(ROOT), loaded=loaded, folder=str(folder), device=device)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    name = loaded.partition(".")[0]
    assert done.stdout.startswith(f"the kernel needs {wanted}, and {name} is loaded in this process already")
