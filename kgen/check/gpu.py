"""Which GPUs are in this machine, asked of the driver itself: no torch, no DSL, no vendor tool."""

from dataclasses import dataclass
from pathlib import Path

from kgen.check.cuda import CudaDevice, DeviceAttribute, cuda_driver, management
from kgen.check.kfd import SYSFS, KfdGpu, kfd_driver_version, kfd_gpus, shown


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU as its driver describes it. `isa` is "sm_90" or "gfx942"."""

    name: str
    isa: str
    compute_units: int
    memory_bytes: int
    smem_bytes_per_cta: int
    address: str = ""  # where it is in this machine, as "0000:1B:00.0"

    def runs(self, isa: str) -> bool:
        """Whether code for that ISA runs here: "sm_90a" code on an sm_90 GPU, and on nothing newer."""
        return self.isa == isa.removesuffix("a")


def find_gpus(sysfs: Path = SYSFS) -> tuple[Gpu, ...]:
    """Return the GPUs that the CUDA driver and the AMD kernel driver show to this process."""
    driver = cuda_driver()
    nvidia = () if driver is None else driver.devices()
    return (*map(_nvidia_gpu, nvidia), *map(_amd_gpu, shown(kfd_gpus(sysfs))))


def cuda_driver_version() -> str | None:
    """Return the newest CUDA version that the installed driver runs, as "13.0", or `None` without a driver."""
    driver = cuda_driver()
    return None if driver is None else driver.version()


def driver_version() -> str | None:
    """Return the version of the GPU's kernel driver, as "580.159.04", or `None` where none can be asked."""
    nvml = management()
    return kfd_driver_version() if nvml is None else nvml.driver_version()


def _nvidia_gpu(device: CudaDevice) -> Gpu:
    return Gpu(
        name=device.name,
        isa=device.isa,
        compute_units=device.attribute(DeviceAttribute.MULTIPROCESSOR_COUNT) or 0,
        memory_bytes=device.memory_bytes,
        smem_bytes_per_cta=device.attribute(DeviceAttribute.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) or 0,
        address=device.pci_bus_id,
    )


def _amd_gpu(gpu: KfdGpu) -> Gpu:
    return Gpu(
        name=f"AMD GPU {gpu.isa} (device id {gpu.numbers.get('device_id', 0):#06x})",
        isa=gpu.isa,
        compute_units=gpu.compute_units,
        memory_bytes=gpu.memory_bytes,
        smem_bytes_per_cta=gpu.smem_bytes,
        address=gpu.pci_bus_id,
    )
