"""Both proofs of one package: what the compiler made of it, and what it computes on a GPU or in a simulator."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgen.check.cache import Cache
from kgen.check.compile import check_packages
from kgen.check.hardware import isa_of, toolchain_of
from kgen.check.on_device import DeviceResult, gpu_that_runs, require_gpu, run_on_device
from kgen.check.package import PackageFolder, read_package
from kgen.check.result import CheckResult
from kgen.check.simulated import SimulatedResult, simulate_packages


@dataclass(frozen=True, slots=True)
class PackageCheck:
    """The outcome of `kgen check`: `device` is set where the test ran on a GPU, `simulated` where it ran in no GPU."""

    compiled: CheckResult
    device: DeviceResult | None = None
    simulated: SimulatedResult | None = None

    @property
    def ok(self) -> bool:
        """Whether everything that was looked at is right."""
        return all(proof.ok for proof in (self.compiled, self.device, self.simulated) if proof is not None)

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as one JSON object."""
        device = None if self.device is None else self.device.to_json()
        simulated = None if self.simulated is None else self.simulated.to_json()
        return {"ok": self.ok, "compiled": self.compiled.to_json(), "device": device, "simulated": simulated}


def check(folder: str | Path, *, compile_only: bool = False, cache: Cache | None = None) -> PackageCheck:
    """Compile a package and inspect it, then run its test: on the GPU of this machine, else in a simulator.

    Raises `NoGpuError` first where neither is here.
    """
    return check_all([Path(folder)], compile_only=compile_only, cache=cache)[0]


def check_all(
    folders: Sequence[Path],
    *,
    compile_only: bool = False,
    jobs: int | None = None,
    cache: Cache | None = None,
    progress: Callable[[Path], None] = lambda folder: None,
) -> tuple[PackageCheck, ...]:
    """Check many packages, `jobs` at once (default: the cores there are).

    `progress` is told each one that is compiled, and each that is simulated.
    """
    simulated = [] if compile_only else [folder for folder in folders if is_simulated(read_package(folder))]

    def told(result: CheckResult | SimulatedResult, done: int, total: int) -> None:
        progress(result.folder)

    compiled = check_packages(folders, jobs=jobs, cache=cache, progress=told)
    if compile_only:
        return tuple(map(PackageCheck, compiled))
    ran = simulate_packages(simulated, jobs=jobs, progress=told)
    by_folder = {result.folder: result for result in ran}
    return tuple(
        PackageCheck(result, simulated=by_folder[result.folder])
        if result.folder in by_folder
        else PackageCheck(result, device=run_on_device(result.folder))
        for result in compiled
    )


def is_simulated(package: PackageFolder) -> bool:
    """Whether the test of a package runs in a simulator here; raises `NoGpuError` where it runs nowhere."""
    if gpu_that_runs(isa_of(package)) is not None:
        return False
    if toolchain_of(package).simulator() is None:
        require_gpu(package)
    return True
