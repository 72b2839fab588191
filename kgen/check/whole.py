"""Both proofs of one package: what the compiler made of it, and what it computes on the GPU of this machine."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgen.check.cache import Cache
from kgen.check.compile import check_package
from kgen.check.on_device import DeviceResult, require_gpu, run_on_device
from kgen.check.package import read_package
from kgen.check.result import CheckResult


@dataclass(frozen=True, slots=True)
class PackageCheck:
    """The outcome of `kgen check`; `device` is `None` when only the compile was asked for."""

    compiled: CheckResult
    device: DeviceResult | None

    @property
    def ok(self) -> bool:
        """Whether everything that was looked at is right."""
        return self.compiled.ok and (self.device is None or self.device.ok)

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as one JSON object."""
        device = None if self.device is None else self.device.to_json()
        return {"ok": self.ok, "compiled": self.compiled.to_json(), "device": device}


def check(folder: str | Path, *, compile_only: bool = False, cache: Cache | None = None) -> PackageCheck:
    """Compile a package and inspect it, then run its tests on the GPU; raises `NoGpuError` first if there is none."""
    package = read_package(Path(folder))
    if not compile_only:
        require_gpu(package)
    compiled = check_package(package.folder, cache=cache)
    return PackageCheck(compiled, None if compile_only else run_on_device(package.folder))
