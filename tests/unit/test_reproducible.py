"""The same spec gives the same bytes, in whatever process, folder, locale and hash seed it is emitted."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# gemm for the plain text, a module for its class, a bias for the epilogue, and a spec of several cases.
SCRIPT = """
import sys
from pathlib import Path
from kgen.package.write import write_package
from kgen.pipeline import run
from kgen.spec.load import load_spec
from kgen.target import load_device
out = Path(sys.argv[1])
for path in sys.argv[2:]:
    for device in ("h200", "h20"):
        spec = load_spec(path)
        write_package(run(spec, load_device(device)).made["render"], out / device / spec.name)
"""
CASES = """
name: cases
reference: |
  import torch


  def gemm(a, b, bias):
      # ünïcode in the user's text
      return torch.relu(a @ b + bias)
inputs:
  a: {shape: [M, K], dtype: bf16}
  b: {shape: [K, N], dtype: bf16}
  bias: {shape: [N], dtype: fp32}
extents: {M: 4096, N: 4096, K: 4096}
cases:
  even: {}
  odd: {M: 33, N: 17, K: 19}
"""


def emit_in_process(root: Path, out: Path, cwd: Path, specs: list[Path], **environment: str) -> None:
    """Emit specs in a process of its own, with the package found in `root`."""
    cwd.mkdir(parents=True, exist_ok=True)
    cwd.joinpath("emit.py").write_text(SCRIPT, encoding="utf-8")
    values = {**os.environ, "PYTHONPATH": str(root), **environment}
    values.pop("PYTHONUTF8", None)
    command = [sys.executable, "emit.py", str(out), *map(str, specs)]
    found = subprocess.run(command, cwd=cwd, env=values, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr


def tree(folder: Path) -> dict[str, bytes]:
    """Return the bytes of every file under a folder."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def specs_in(folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cases.yaml").write_text(CASES, encoding="utf-8")
    names = ("linear_bf16_bias_gelu.yaml", "module_bf16_silu_scale.yaml")
    return [*(ROOT / "specs" / name for name in names), folder / "cases.yaml"]


@pytest.fixture(scope="module")
def emitted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    base = tmp_path_factory.mktemp("reproducible")
    one, two = base / "one", base / "elsewhere" / "two"
    emit_in_process(ROOT, one, base / "here", specs_in(base), PYTHONHASHSEED="0", LC_ALL="C", TZ="UTC")
    other = {"PYTHONHASHSEED": "4242", "LC_ALL": "tr_TR.UTF-8", "TZ": "Asia/Tokyo", "HOME": str(base), "USER": "other"}
    emit_in_process(ROOT, two, base / "there" / "deep", specs_in(base / "elsewhere"), **other)
    return one, two


def test_two_processes_write_the_same_bytes(emitted: tuple[Path, Path]) -> None:
    one, two = map(tree, emitted)
    assert len(one) == 2 * 3 * 8
    assert [name for name in one if one[name] != two.get(name)] == [] and one.keys() == two.keys()


def test_no_file_names_the_machine_or_the_day(emitted: tuple[Path, Path]) -> None:
    words = [str(ROOT), str(emitted[0].parent), f"{Path.home()}/", "elsewhere", "/tmp/", "Asia/Tokyo"]
    words += [os.uname().nodename] if len(os.uname().nodename) > 3 else []
    for name, content in tree(emitted[0]).items():
        text = content.decode()
        assert [word for word in words if word in text] == [], name
        assert "\r" not in text and text.endswith("\n"), name
