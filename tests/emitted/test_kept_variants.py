"""Compiled variants of Hopper kernels outlive their process: the next one reads them from disk."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.emitted
PACKAGE = Path(__file__).resolve().parents[2] / "generated" / "h200" / "gemm_bf16_small" / "kernel.py"
# Loads the first variant of a kernel.py; argv: its path. Says what it made of it, and how often it compiled.
LOAD = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("emitted", sys.argv[1])
module = importlib.util.module_from_spec(spec)
sys.modules["emitted"] = module
spec.loader.exec_module(module)
compiles, compile_variant = [], module.compile_variant
module.compile_variant = lambda name: compiles.append(name) or compile_variant(name)
function = module.loaded(module.VARIANTS[0].name)
print(callable(function), len(compiles))
"""


def load(kernel: Path, cache: Path) -> list[str]:
    """Load a variant in a process of its own."""
    environment = os.environ | {"KGEN_CACHE": str(cache), "CUTE_DSL_ARCH": "sm_90a"}
    command = [sys.executable, "-c", LOAD, str(kernel)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_the_second_process_compiles_nothing_and_an_edit_compiles_again(tmp_path: Path) -> None:
    kernel, cache = tmp_path / "kernel.py", tmp_path / "cache"
    shutil.copy(PACKAGE, kernel)
    assert load(kernel, cache) == ["True", "1"]
    kept = sorted(cache.iterdir())
    assert [file.suffix for file in kept] == [".o"]
    assert load(kernel, cache) == ["True", "0"]
    kernel.write_text(kernel.read_text(encoding="utf-8") + "\n# edited\n", encoding="utf-8")
    assert load(kernel, cache) == ["True", "1"]
    assert len(list(cache.iterdir())) == 2 and set(kept) < set(cache.iterdir())


def test_a_cache_that_cannot_be_made_costs_a_compile_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert load(PACKAGE, tmp_path / "file" / "cache") == ["True", "1"]
