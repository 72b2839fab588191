"""What the package's target allows, from the target files: the ISA to compile for, the tool chain, the limits."""

from dataclasses import dataclass

from kgen.check.package import PackageFolder
from kgen.check.toolchains import TOOLCHAINS, Limits, Toolchain
from kgen.errors.check import ArchNotCheckableError, PlanFileError
from kgen.target import Arch, Device, device_of_package


@dataclass(frozen=True, slots=True)
class Hardware:
    """The target of a package. `isa` is as compilers spell it, "sm_90a" or "gfx942"."""

    isa: str
    limits: Limits


def device_of(package: PackageFolder) -> Device:
    """Return the device that the package was planned for."""
    return device_of_package(package.folder, package.device)


def arch_of_package(package: PackageFolder) -> Arch:
    """Return the arch of the device that the package was planned for."""
    arch = device_of(package).arch
    if package.arch not in (arch.isa, arch.name):
        reason = f"target.arch is {package.arch!r}, but the device {package.device!r} is {arch.isa!r}"
        raise PlanFileError(file=package.folder / "plan.json", reason=reason)
    return arch


def isa_of(package: PackageFolder) -> str:
    """Return the ISA of the device that the package was planned for."""
    return arch_of_package(package).isa


def toolchain_of(package: PackageFolder) -> type[Toolchain]:
    """Return what compiles the package; raises `ArchNotCheckableError` where nothing does."""
    arch = arch_of_package(package)
    if arch.backend not in TOOLCHAINS:
        known = " and ".join(TOOLCHAINS)
        raise ArchNotCheckableError(folder=package.folder, arch=arch.isa, backend=arch.backend, known=known)
    return TOOLCHAINS[arch.backend]


def hardware_of(package: PackageFolder) -> Hardware:
    """Return the target of a package; raises `ArchNotCheckableError` where nothing compiles for it."""
    arch = arch_of_package(package)
    return Hardware(arch.isa, toolchain_of(package).limits_of(arch))
