"""FlyDSL's tool chain: compiled in a subprocess with a stand-in for ROCm, code objects and assembly read here."""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from kgen.check.compile_process import users_environment
from kgen.check.evidence import KernelEvidence
from kgen.check.flydsl.stand_ins import hip_stub, rocm_path, zig_environment
from kgen.check.package import Expectation, PackageFolder
from kgen.check.result import Finding, VariantEvidence
from kgen.check.toolchain import FLYDSL_DISTRIBUTIONS, installed_versions
from kgen.target import Arch, arch_of_isa

_FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class WaveLimits:
    """What the hardware gives one workgroup at most; `smem_bytes` are of LDS."""

    threads: int
    registers_per_thread: int
    smem_bytes: int

    def findings(self, expected: Expectation, kernel: KernelEvidence) -> Iterator[Finding]:
        """Yield which resources of a kernel are not as planned, more than there are, or known to go wrong."""
        name, wave = expected.variant, kernel.wave
        assert wave is not None
        if expected.threads is not None and kernel.threads != expected.threads:
            yield Finding(name, "threads", str(expected.threads), str(kernel.threads))
        if (threads := kernel.threads or 0) > self.threads:
            yield Finding(name, "threads", f"at most {self.threads} in a workgroup", str(threads))
        if kernel.registers > self.registers_per_thread:
            yield Finding(name, "registers", f"at most {self.registers_per_thread}", str(kernel.registers))
        lds = kernel.static_smem_bytes + (kernel.dynamic_smem_bytes or 0)
        if expected.smem_bytes is not None and lds != expected.smem_bytes:
            yield Finding(name, "LDS", f"{expected.smem_bytes} bytes", f"{lds} bytes")
        if lds > self.smem_bytes:
            yield Finding(name, "LDS", f"at most {self.smem_bytes} bytes in a workgroup", f"{lds} bytes")
        yield from _waves(expected, kernel)
        # FlyDSL #1087: LLVM may drop a move in a chain of scalar spills, and a buffer's base is undefined
        if wave.sgpr_spills:
            yield Finding(name, "scalar registers", "no spills: code with them is not reliable", str(wave.sgpr_spills))
        if wave.vgpr_spills > (allowed := expected.spills or 0):
            yield Finding(name, "vector registers", f"at most {allowed} spilled", str(wave.vgpr_spills))
        for instruction in wave.errata:
            yield Finding(name, "erratum", "no instruction that the hardware gets wrong", instruction)


def _waves(expected: Expectation, kernel: KernelEvidence) -> Iterator[Finding]:
    name, wave = expected.variant, kernel.wave
    assert wave is not None
    if expected.async_loads is not None and expected.async_loads != (wave.async_loads > 0):
        wanted = "at least one" if expected.async_loads else "none"
        yield Finding(name, "asynchronous loads to LDS", wanted, str(wave.async_loads))
    if expected.waves_per_simd is not None and wave.waves_per_simd < expected.waves_per_simd:
        yield Finding(name, "waves per SIMD", f"at least {expected.waves_per_simd}", str(wave.waves_per_simd))


class FlyDsl:
    """Compiles and reads packages for CDNA, and has a simulator for them."""

    distribution: ClassVar[str] = "flydsl"
    distributions: ClassVar[tuple[str, ...]] = FLYDSL_DISTRIBUTIONS
    simulates: ClassVar[bool] = True
    extra: ClassVar[str] = "cdna"
    dsl_module: ClassVar[str] = "flydsl"
    readers: ClassVar[tuple[str, ...]] = (
        "compile_runner.py",
        *(f"flydsl/{file.name}" for file in sorted(_FOLDER.glob("*.py"))),
    )

    probe_kernel: ClassVar[Path | None] = _FOLDER / "probe" / "kernel.py"

    def __init__(self) -> None:
        """Make the stand-in for ROCm; raises `CompilerMissingError` where its linker is missing."""
        self._rocm_path = rocm_path()

    @staticmethod
    def limits_of(arch: Arch) -> WaveLimits:
        """Return what the hardware gives one workgroup."""
        return WaveLimits(
            threads=int(arch.limit("threads_per_cta").value),
            registers_per_thread=int(arch.limit("registers_per_thread").value),
            smem_bytes=int(arch.limit("smem_bytes_per_cta").value),
        )

    @staticmethod
    def simulator() -> "FlyDslSimulator":
        """Return what runs kernels in the simulator."""
        return FlyDslSimulator()

    def made_with(self) -> dict[str, Any]:
        """Return what the evidence is made with."""
        return {"distributions": installed_versions(FLYDSL_DISTRIBUTIONS)}

    def command(self) -> list[str]:
        """Return the program of the compile subprocess; -P: no module of the current folder may shadow another."""
        return [sys.executable, "-P", "-m", "kgen.check.flydsl.compile_runner"]

    def environment(self, isa: str, scratch: Path) -> dict[str, str]:
        """Return its environment: the same on a machine with a GPU and on one without."""
        return zig_environment(users_environment()) | cross_environment(isa, self._rocm_path)

    def read(self, event: dict[str, Any], isa: str) -> VariantEvidence:
        """Return the evidence of a compiled variant, and remove its files."""
        from kgen.check.flydsl.assembly import isa_of
        from kgen.check.flydsl.evidence import evidence_of

        kernels: list[KernelEvidence] = []
        listings: list[str] = []
        for object_file, assembly_file in (map(Path, pair) for pair in event["objects"]):
            assembly = assembly_file.read_text(encoding="utf-8")
            kernels += evidence_of(object_file.read_bytes(), assembly, arch_of_isa(isa))
            listings.append(assembly)
            object_file.unlink()
            assembly_file.unlink()
        isas = dict.fromkeys(filter(None, map(isa_of, listings)))
        return VariantEvidence(
            variant=event["variant"],
            seconds=event["seconds"],
            arch=" and ".join(isas) or None,
            kernels=tuple(kernels),
            listing="\n".join(listings),
            warnings=tuple(event["warnings"]),
        )


class FlyDslSimulator:
    """Runs a package's test with the HIP stub and the simulator of CDNA machine code."""

    def __init__(self) -> None:
        """Make the stand-ins for ROCm; raises `CompilerMissingError` and `HipStubError`."""
        self._rocm_path, self._hip_stub = rocm_path(), hip_stub()

    def command(self) -> list[str]:
        """Return the program of the simulating subprocess."""
        return [sys.executable, "-P", "-m", "kgen.check.flydsl.simulation"]

    def environment(self, isa: str) -> dict[str, str]:
        """Return its environment; a process with one thread can be forked."""
        single = {"OPENBLAS_NUM_THREADS": "1"}
        return zig_environment(users_environment()) | cross_environment(isa, self._rocm_path) | single

    def request(self, package: PackageFolder) -> dict[str, Any]:
        """Return the request for a package."""
        return {"folder": str(package.folder.resolve()), "device": package.device, "hip": str(self._hip_stub)}


def cross_environment(isa: str, rocm: Path) -> dict[str, str]:
    """Return the variables that make FlyDSL compile for an ISA with what stands in for ROCm."""
    return {
        "FLYDSL_GPU_ARCH": isa,  # of the kernels' own questions about the hardware
        "ARCH": isa,  # of the compiler's target
        "ROCM_PATH": str(rocm),
        "FLYDSL_RUNTIME_ENABLE_CACHE": "0",  # a kernel from FlyDSL's disk cache would leave no assembly
        "HIP_VISIBLE_DEVICES": "",
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": os.pathsep.join(filter(None, (str(_FOLDER.parents[2]), os.environ.get("PYTHONPATH")))),
    }
