"""What a check is made with: the installed compiler and disassemblers, found without importing any of them."""

import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

from kgen.errors.check import DisassemblerFailedError, DisassemblerMissingError

# Whatever can change the code of a CuTe DSL kernel; the `libs` distributions hold its compiler.
CUTEDSL_DISTRIBUTIONS = (
    "nvidia-cutlass-dsl",
    "nvidia-cutlass-dsl-libs-base",
    "nvidia-cutlass-dsl-libs-core",
    "nvidia-cutlass-dsl-libs-cu12",
    "nvidia-cutlass-dsl-libs-cu13",
    "apache-tvm-ffi",
    "torch",
)
# The same of a FlyDSL kernel; ziglang holds the linker.
FLYDSL_DISTRIBUTIONS = ("flydsl", "ziglang", "torch")


@dataclass(frozen=True, slots=True)
class Tool:
    """An external program: where it is, and what identifies its version."""

    name: str
    path: Path
    version: str

    def run(self, *arguments: str, text: str = "") -> str:
        """Run the program on `text` and return its standard output; raises `DisassemblerFailedError`."""
        done = subprocess.run([self.path, *arguments], input=text, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise DisassemblerFailedError(tool=self.name, status=done.returncode, stderr=done.stderr.strip()[-500:])
        return done.stdout


@dataclass(frozen=True, slots=True)
class Disassemblers:
    """The two programs that read a cubin."""

    nvdisasm: Tool
    cuobjdump: Tool

    def listing(self, cubin: Path) -> str:
        """Return the SASS of every kernel; no data-flow analysis, which only adds branch labels."""
        return self.nvdisasm.run("-c", "-ndf", str(cubin))

    def resource_usage(self, cubin: Path) -> str:
        """Return registers, stack, local and static shared memory per kernel."""
        return self.cuobjdump.run("-res-usage", str(cubin))


def installed_version(name: str) -> str | None:
    """Return the version of a distribution, or `None` when it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


@dataclass(frozen=True, slots=True)
class InstalledFile:
    """A file of the compiler; `distribution` is "name version"."""

    path: Path
    distribution: str


def installed_file(ending: str) -> InstalledFile | None:
    """Find a file of the installed compiler by the end of its path, or return `None`."""
    for name in CUTEDSL_DISTRIBUTIONS:
        if installed_version(name) is not None:
            for file in distribution(name).files or ():
                if file.as_posix().endswith(ending):
                    return InstalledFile(Path(str(file.locate())), f"{name} {version(name)}")
    return None


def installed_versions(names: Iterable[str]) -> dict[str, str | None]:
    """Return the version of each distribution, `None` where it is not installed."""
    return {name: installed_version(name) for name in names}


def compiler_versions() -> dict[str, str | None]:
    """Return the version of every distribution that takes part in a compile for any target."""
    return installed_versions(dict.fromkeys((*CUTEDSL_DISTRIBUTIONS, *FLYDSL_DISTRIBUTIONS)))


def find_disassemblers() -> Disassemblers:
    """Find nvdisasm and cuobjdump; raises `DisassemblerMissingError`."""
    return Disassemblers(require_tool("nvdisasm"), require_tool("cuobjdump"))


def find_tool(name: str) -> Tool | None:
    """Find a CUDA binary utility: the PyPI distribution first, so that a lock file decides, then PATH."""
    package = f"nvidia-cuda-{name}"
    try:
        files = distribution(package).files or []
    except PackageNotFoundError:
        files = []
    for file in files:
        path = Path(str(file.locate()))
        if path.name in (name, f"{name}.exe") and path.parent.name == "bin" and path.is_file():
            return Tool(name, path, f"{package} {version(package)}")
    if on_path := shutil.which(name):
        stat = Path(on_path).stat()
        return Tool(name, Path(on_path), f"{on_path} ({stat.st_size} bytes, changed {stat.st_mtime_ns})")
    return None


def require_tool(name: str) -> Tool:
    """Find a CUDA binary utility; raises `DisassemblerMissingError`."""
    if tool := find_tool(name):
        return tool
    raise DisassemblerMissingError(tool=name, distribution=f"nvidia-cuda-{name}")
