"""Whether a tool chain works here: its probe kernel is compiled for each of its instruction sets and read."""

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from kgen.check.compile_worker import CompileWorker
from kgen.check.package import PackageFolder
from kgen.check.toolchain import installed_version
from kgen.check.toolchains import TOOLCHAINS, Toolchain
from kgen.errors.base import KgenError
from kgen.target import Device, all_devices

_LIMIT_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Probe:
    """One thing that was tried; `failure` is why it does not work."""

    what: str
    outcome: str
    failure: str | None = None


def probe_toolchains() -> tuple[Probe, ...]:
    """Try the tool chains that have a probe and are installed."""
    kinds = [kind for kind in TOOLCHAINS.values() if kind.probe_kernel is not None]
    return tuple(probe for kind in kinds if installed_version(kind.distribution) for probe in _probes(kind))


def _probes(kind: type[Toolchain]) -> list[Probe]:
    by_isa = {device.arch.isa: device for device in all_devices() if TOOLCHAINS.get(device.arch.backend) is kind}
    probes = []
    try:
        toolchain = kind()
        with tempfile.TemporaryDirectory(prefix="kgen-probe-", ignore_cleanup_errors=True) as scratch:
            worker = CompileWorker(Path(scratch), _LIMIT_SECONDS)
            try:
                probes += [_compile(worker, toolchain, isa, device) for isa, device in by_isa.items()]
            finally:
                worker.close()
        kind.simulator()
        probes.append(Probe(f"the simulator of {kind.distribution}'s kernels", "its HIP stub is built"))
    except KgenError as error:
        probes.append(Probe(f"{kind.distribution}'s tool chain", "does not work", error.headline))
    return probes


def _compile(worker: CompileWorker, toolchain: Toolchain, isa: str, device: Device) -> Probe:
    what, started = f"{toolchain.distribution} for {isa}", time.perf_counter()
    assert toolchain.probe_kernel is not None
    package = PackageFolder(toolchain.probe_kernel.parent, "probe", device.name, isa, "", None, ())
    compiled = worker.compile(package, toolchain, isa)
    failures = [compiled.failure, *(variant.failure for variant in compiled.variants)]
    if failure := next(filter(None, failures), None):
        return Probe(what, "does not compile", failure.splitlines()[0])
    kernels = [kernel for variant in compiled.variants for kernel in variant.kernels]
    if not kernels or not all(kernel.instructions and kernel.registers for kernel in kernels):
        return Probe(what, "compiles", "the code object could not be read")
    return Probe(what, f"compiles and is read, {time.perf_counter() - started:.1f} s")
