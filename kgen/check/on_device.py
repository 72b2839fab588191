"""The proof on a GPU: run the package's own test_kernel.py in a subprocess and read its verdict."""

import json
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgen.check.command import run_command
from kgen.check.gpu import Gpu, find_gpus
from kgen.check.hardware import isa_of
from kgen.check.package import PackageFolder, read_package
from kgen.errors.check import NoGpuError, NotAPackageError

RESULT_PREFIX = "[test_kernel] RESULT_JSON="
DEVICE_LIMIT_SECONDS = 3600.0  # test_kernel.py limits each of its cases itself


@dataclass(frozen=True, slots=True)
class DeviceResult:
    """What test_kernel.py said: all of its output, and its RESULT_JSON as it stands, empty when it gave none."""

    folder: Path
    gpu: str
    ok: bool
    failures: tuple[str, ...]
    report: dict[str, Any]
    output: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the result as one JSON object."""
        return {
            "folder": str(self.folder),
            "gpu": self.gpu,
            "ok": self.ok,
            "failures": list(self.failures),
            "report": self.report,
        }


def require_gpu(package: PackageFolder) -> Gpu:
    """Return a GPU of this machine that runs the package; raises `NoGpuError`."""
    return require_isa(isa_of(package), package.folder)


def require_isa(isa: str, folder: Path) -> Gpu:
    """Return a GPU of this machine that runs an ISA, for a package in `folder`; raises `NoGpuError`."""
    if (gpu := gpu_that_runs(isa)) is not None:
        return gpu
    found = ", ".join(f"{gpu.name} ({gpu.isa})" for gpu in find_gpus()) or "no GPU"
    raise NoGpuError(folder=folder, isa=isa, found=found)


def gpu_that_runs(isa: str) -> Gpu | None:
    """Return a GPU of this machine that runs an ISA, None where none does."""
    return next((gpu for gpu in find_gpus() if gpu.runs(isa)), None)


def run_on_device(
    folder: Path,
    arguments: Sequence[str] = ("--no-memory",),
    limit_seconds: float = DEVICE_LIMIT_SECONDS,
    lock: Path | None = None,
) -> DeviceResult:
    """Run the package's test_kernel.py on the GPU of this machine; raises `NoGpuError` when there is none.

    With a `lock`, a file, it times while nobody else who takes it uses the GPU.
    """
    package = read_package(folder)
    gpu = require_gpu(package)
    if not (folder / "test_kernel.py").is_file():
        raise NotAPackageError(folder=folder, missing="test_kernel.py")
    turns = () if lock is None else ("--gpu-lock", str(lock))
    with tempfile.TemporaryFile() as printed:
        status = run_command([sys.executable, "test_kernel.py", *arguments, *turns], printed, limit_seconds, cwd=folder)
        printed.seek(0)
        output = printed.read().decode(errors="replace")
    return _verdict(folder, gpu.name, status, output)


def _verdict(folder: Path, gpu: str, status: int | None, output: str) -> DeviceResult:
    ending = "ran out of time" if status is None else f"exit status {status}"
    last = output.rstrip().rpartition("\n")[2]
    report: dict[str, Any] = {}
    if last.startswith(RESULT_PREFIX):
        with suppress(ValueError):
            report = json.loads(last.removeprefix(RESULT_PREFIX))
    if not report:
        tail = output.strip()[-2000:]
        failure = f"test_kernel.py ({ending}) did not end with a {RESULT_PREFIX}... line:\n{tail}"
        return DeviceResult(folder, gpu, False, (failure,), {}, output)
    failures = tuple(str(failure) for failure in report.get("failures", ()))
    if report.get("all_pass") is not True and not failures:
        failures = ("all_pass is not true",)
    if status != 0:
        failures += (f"test_kernel.py: {ending}",)
    return DeviceResult(folder, gpu, not failures, failures, report, output)
