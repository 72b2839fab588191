"""Packages around the emitted test for running it on the CPU: a right kernel whose body a test replaces."""

import importlib.util
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from kgen.package.views import InputTensorView, InputView, KernelTestView, WorkView
from kgen.render import render

TEST_VIEW = KernelTestView(
    title="relu(a @ b.T + bias)",
    is_module=False,
    rel_errs=(("torch.bfloat16", "0.01"),),
    element_factor="10",
    element_reason="ten times REL_ERR",
    atol="None",
    offsets="0, 1",
    offsets_reason="any base address is accepted",
    refused_offsets="",
    device="h200",
    sm_count=132,
    peak_flops="9.89e14",
    peak_flops_source="bf16, dense",
    peak_bytes="4.8e12",
    peak_bytes_source="HBM",
    work=(WorkView("base", 2 * 48 * 40 * 32, 2 * (48 * 32 + 40 * 32 + 40), 2 * 48 * 40), WorkView("nothing", 0, 80, 0)),
    multiplies_integers=False,
    allow_tf32="False",
    tf32_reason="TF32 would make the reference less exact than the kernel",
    expected="reference.reference",
    updated="",
    hidden=(),
    planted=("for x in inputs.values():", "    if x.is_floating_point() and x.numel() > 1:"),
)
INPUT_VIEW = InputView(
    title=TEST_VIEW.title,
    parameters="M, N, K",
    tensors=(
        InputTensorView("a", "torch.bfloat16", "(M, K)", "(K + 8, 1)"),
        InputTensorView("b", "torch.bfloat16", "(N, K)", "(1, N)"),
        InputTensorView("bias", "torch.bfloat16", "(N,)", "(1,)"),
    ),
)
SHAPES = {
    "base": {"init_kwargs": None, "input_kwargs": {"M": 48, "N": 40, "K": 32}},
    "ragged": {"init_kwargs": None, "input_kwargs": {"M": 7, "N": 40, "K": 33}},
}
REFERENCE = """
import torch

def reference(a, b, bias):
    return torch.relu(a @ b.T + bias)
"""
KERNEL = """
import ctypes
import time
import torch

ACCEPTED = {(48, 40, 32), (7, 40, 33), (1, 40, 1), (0, 40, 32), (7, 40, 0)}

def kernel(a, b, bias):
    for name, x, rank in (("a", a, 2), ("b", b, 2), ("bias", bias, 1)):
        if x.dtype != torch.bfloat16:
            raise TypeError(f"{name} is {x.dtype}, not torch.bfloat16")
        if x.ndim != rank:
            raise ValueError(f"{name} has {x.ndim} axes, not {rank}")
    if (*a.shape[:1], *b.shape) not in ACCEPTED or a.shape[1] != b.shape[1] or b.shape[:1] != bias.shape:
        raise ValueError(f"no variant for shapes {a.shape}, {b.shape}, {bias.shape}")
    for x, wanted in ((a, (a.shape[1] + 8, 1)), (b, (1, b.shape[0])), (bias, (1,))):
        if any(found != want for n, found, want in zip(x.shape, x.stride(), wanted) if n > 1):
            raise ValueError(f"no variant for strides {x.stride()}")
    out = torch.empty(a.shape[0], b.shape[0], dtype=torch.bfloat16, device=a.device)
    BODY
    return out
"""
# the emitted test runs on CUDA; this runs the same code on the CPU
ON_CPU = """
import sys
import test_kernel

if __name__ == "__main__":
    sys.exit(test_kernel.main(device="cpu"))
"""
RIGHT = "out.copy_(torch.relu(a.float() @ b.float().T + bias.float()))"
MARK = "[test_kernel] RESULT_JSON="


@dataclass(frozen=True)
class Run:
    """How a run of the emitted test ended, and what its last line says."""

    exit_status: int
    result: dict
    output: str


def package(folder, kernel_body=RIGHT, kernel=KERNEL, shapes=SHAPES, view=TEST_VIEW, reference=REFERENCE) -> Path:
    """Write a package and return its folder."""
    files = {
        "kernel.py": kernel.replace("BODY", kernel_body),
        "reference.py": reference,
        "input.py": render("package/input.py.j2", INPUT_VIEW),
        "test_kernel.py": render("package/test_kernel.py.j2", view),
        "shapes.json": json.dumps(shapes),
        "on_cpu.py": ON_CPU,
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def run(folder, *arguments, script="on_cpu.py", limit_s=30) -> Run:
    """Run the emitted test on the CPU in a process of its own."""
    command = [sys.executable, str(folder / script), *arguments]
    environment = {"PATH": "/usr/bin:/bin", "TEST_TIMEOUT_SEC": str(limit_s), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    last = (done.stdout.splitlines() or [""])[-1]
    assert last.startswith(MARK), done.stdout + done.stderr
    return Run(done.returncode, json.loads(last.removeprefix(MARK)), done.stdout + done.stderr)


def load_test(folder, monkeypatch) -> ModuleType:
    """Import the emitted test of a package into this process."""
    monkeypatch.syspath_prepend(folder)
    for name in ("kernel", "reference", "input"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    spec = importlib.util.spec_from_file_location(f"emitted_test_{folder.name}", folder / "test_kernel.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def arguments_of(module, *argv):
    """Return the parsed arguments as `main` completes them, with a fresh seed that is the same each time."""
    _, arguments = module.parse(argv)
    arguments.limit_s, arguments.fresh_seed = 30, 12345
    return arguments
