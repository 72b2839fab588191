"""What the package's target allows, from the target files: the ISA to compile for and the limits of one CTA."""

from dataclasses import dataclass

from kgen.check.package import PackageFolder
from kgen.errors.check import ArchNotCheckableError, PlanFileError
from kgen.target import load_device

# Back-ends whose packages can be compiled with no GPU -> the distribution that does it.
COMPILERS = {"cutedsl": "nvidia-cutlass-dsl"}


@dataclass(frozen=True, slots=True)
class CtaLimits:
    """What the hardware gives one CTA at most."""

    registers: int
    registers_per_thread: int
    smem_bytes: int

    def registers_for(self, threads: int) -> int:
        """Return the most registers a thread may have at launch; the hardware hands them out by eight."""
        return min(self.registers_per_thread, self.registers // threads // 8 * 8)


@dataclass(frozen=True, slots=True)
class Hardware:
    """The target of a package. `isa` is as compilers spell it, "sm_90a"; `compiler` is a distribution."""

    isa: str
    compiler: str
    limits: CtaLimits


def isa_of(package: PackageFolder) -> str:
    """Return the ISA of the device that the package was planned for."""
    arch = load_device(package.device).arch
    if package.arch not in (arch.isa, arch.name):
        reason = f"target.arch is {package.arch!r}, but the device {package.device!r} is {arch.isa!r}"
        raise PlanFileError(file=package.folder / "plan.json", reason=reason)
    return arch.isa


def hardware_of(package: PackageFolder) -> Hardware:
    """Return the target of a package; raises `ArchNotCheckableError` where nothing compiles for it here."""
    isa, arch = isa_of(package), load_device(package.device).arch
    if arch.backend not in COMPILERS:
        known = " and ".join(COMPILERS)
        raise ArchNotCheckableError(folder=package.folder, arch=isa, backend=arch.backend, known=known)
    limits = CtaLimits(
        registers=int(arch.limit("registers_per_unit").value),
        registers_per_thread=int(arch.limit("registers_per_thread").value),
        smem_bytes=int(arch.limit("smem_bytes_per_cta").value),
    )
    return Hardware(isa, COMPILERS[arch.backend], limits)
