"""What a driver says of a GPU: the first step of a probe. Nothing is derived from the product's name."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kgen.check.cuda import CudaDevice, DeviceAttribute, Management, cuda_driver, management
from kgen.check.kfd import SYSFS, KfdGpu, kfd_driver_version, kfd_gpus, number_of, sensors, shown, text_of


@dataclass(frozen=True, slots=True)
class Facts:
    """One GPU as its driver describes it; `None` is what this driver does not say.

    `limits` are limits of an arch, by name, as this driver states them. `sensor` says where its clock and power can be
    read meanwhile: a PCI bus id for NVML, or a folder of sysfs.
    """

    api: str  # "cuda" or "hip"
    name: str
    isa: str  # "sm_90" or "gfx942"
    driver: str
    compute_units: int
    dies: int | None
    clock_mhz: float | None
    memory_clock_mhz: float | None
    memory_bus_bits: int | None
    memory_bytes: int
    l2_bytes: int | None
    last_level_cache_bytes: int | None
    power_limit_w: float | None
    limits: tuple[tuple[str, int], ...]
    sensor: str | None = None

    @property
    def cache_bytes(self) -> int:
        """The largest cache in front of memory."""
        return max(self.l2_bytes or 0, self.last_level_cache_bytes or 0)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object, without where the GPU is in this machine."""
        found = asdict(self)
        del found["sensor"]
        return {**found, "limits": dict(self.limits)}


def find_facts(sysfs: Path = SYSFS) -> tuple[Facts, ...]:
    """Return the GPUs that the drivers of this machine show to this process."""
    driver, nvml = cuda_driver(), management()
    nvidia = () if driver is None else driver.devices()
    return (
        *(_nvidia(device, nvml, driver.version() if driver else None) for device in nvidia),
        *(_amd(gpu, sysfs) for gpu in shown(kfd_gpus(sysfs))),
    )


def _nvidia(device: CudaDevice, nvml: Management | None, cuda: str | None) -> Facts:
    kilo = {"clock": DeviceAttribute.CLOCK_RATE, "memory_clock": DeviceAttribute.MEMORY_CLOCK_RATE}
    mhz = {name: rate / 1e3 if (rate := device.attribute(which)) else None for name, which in kilo.items()}
    managed = None if nvml is None else nvml.device(device.pci_bus_id)
    most, limit = (managed.most_mhz(), managed.power_limit_mw()) if managed else (None, None)
    version = (nvml.driver_version() if nvml else None) or "not known"
    return Facts(
        api="cuda",
        name=device.name,
        isa=device.isa,
        driver=f"{version}, CUDA {cuda}" if cuda else version,
        compute_units=device.attribute(DeviceAttribute.MULTIPROCESSOR_COUNT) or 0,
        dies=None,
        clock_mhz=max(mhz["clock"] or 0, most or 0) or None,
        memory_clock_mhz=mhz["memory_clock"],
        memory_bus_bits=device.attribute(DeviceAttribute.GLOBAL_MEMORY_BUS_WIDTH) or None,
        memory_bytes=device.memory_bytes,
        l2_bytes=device.attribute(DeviceAttribute.L2_CACHE_SIZE) or None,
        last_level_cache_bytes=None,
        power_limit_w=limit / 1e3 if limit else None,
        limits=tuple(_nvidia_limits(device)),
        sensor=device.pci_bus_id if managed else None,
    )


_NVIDIA_LIMITS = {
    "warp_size": DeviceAttribute.WARP_SIZE,
    "max_ctas_per_unit": DeviceAttribute.MAX_BLOCKS_PER_MULTIPROCESSOR,
    "threads_per_cta": DeviceAttribute.MAX_THREADS_PER_BLOCK,
    "registers_per_unit": DeviceAttribute.MAX_REGISTERS_PER_MULTIPROCESSOR,
    "smem_bytes_per_unit": DeviceAttribute.MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
    "smem_bytes_per_cta": DeviceAttribute.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
}


def _nvidia_limits(device: CudaDevice) -> Iterator[tuple[str, int]]:
    yield from _stated({name: device.attribute(which) for name, which in _NVIDIA_LIMITS.items()})
    threads = device.attribute(DeviceAttribute.MAX_THREADS_PER_MULTIPROCESSOR)
    if threads and (warp := device.attribute(DeviceAttribute.WARP_SIZE)):
        yield "warps_per_unit", threads // warp


def _amd(gpu: KfdGpu, sysfs: Path) -> Facts:
    card = gpu.card(sysfs)
    sensor = sensors(card) if card else None
    microwatts = number_of(sensor / "power1_cap") if sensor else None
    banks = [bank for bank in gpu.banks if bank.get("mem_clk_max") and bank.get("width")]
    l2, last = gpu.cache_bytes(2), gpu.cache_bytes(3)
    kernel = text_of(sysfs / "kernel/osrelease") or text_of(Path("/proc/sys/kernel/osrelease"))
    return Facts(
        api="hip",
        name=(text_of(card / "product_name") if card else None) or f"AMD GPU {gpu.isa}",
        isa=gpu.isa,
        driver=f"amdgpu {kfd_driver_version(sysfs) or f'of kernel {kernel}'}",
        compute_units=gpu.compute_units,
        dies=gpu.dies,
        clock_mhz=gpu.numbers.get("max_engine_clk_fcompute") or None,
        memory_clock_mhz=banks[0]["mem_clk_max"] if banks else None,
        memory_bus_bits=banks[0]["width"] if banks else None,
        memory_bytes=gpu.memory_bytes,
        l2_bytes=l2 * gpu.dies if l2 and gpu.dies else None,  # what is listed is that of one die
        last_level_cache_bytes=last,
        power_limit_w=microwatts / 1e6 if microwatts else None,
        limits=tuple(_amd_limits(gpu)),
        sensor=str(sensor) if sensor else None,
    )


def _amd_limits(gpu: KfdGpu) -> Iterable[tuple[str, int]]:
    simds, waves = gpu.numbers.get("simd_per_cu"), gpu.numbers.get("max_waves_per_simd")
    return _stated(
        {
            "warp_size": gpu.numbers.get("wave_front_size"),
            "simds_per_unit": simds,
            "warps_per_unit": simds * waves if simds and waves else None,
            "smem_bytes_per_unit": gpu.smem_bytes,
            "smem_bytes_per_cta": gpu.smem_bytes,
        }
    )


def _stated(numbers: Mapping[str, int | None]) -> Iterator[tuple[str, int]]:
    return ((name, number) for name, number in numbers.items() if number)
