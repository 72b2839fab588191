"""Which device file describes a GPU of this machine: what its driver measures decides, names only between equals."""

from collections.abc import Iterable
from dataclasses import dataclass

from kgen.check.gpu import Gpu
from kgen.target import Device

_MEMORY_TOLERANCE = 0.1  # data sheets round, and the driver keeps some for itself


@dataclass(frozen=True, slots=True)
class GpuMatch:
    """A GPU of this machine and the device file that describes it, if there is one."""

    gpu: Gpu
    device: str | None


def match_gpus(gpus: Iterable[Gpu], devices: Iterable[Device]) -> tuple[GpuMatch, ...]:
    """Return each GPU with the device file that describes it best."""
    known = tuple(devices)
    return tuple(GpuMatch(gpu, _device_of(gpu, known)) for gpu in gpus)


def _device_of(gpu: Gpu, devices: tuple[Device, ...]) -> str | None:
    """Match what the driver measures first (ISA, units, memory); only between equals do names decide."""
    words = set(gpu.name.lower().replace("-", " ").split())
    fitting = [device for device in devices if _fits(gpu, device)]
    return min(fitting, key=lambda device: _strangeness(device, words)).name if fitting else None


def _fits(gpu: Gpu, device: Device) -> bool:
    memory_gib = gpu.memory_bytes / 2**30  # a data sheet's "141 GB" of HBM are 140.4 GiB to the driver
    stated = device.value("quantities.memory")
    return (
        gpu.runs(device.arch.isa)
        and gpu.compute_units == device.compute_units
        and abs(memory_gib - stated) <= _MEMORY_TOLERANCE * stated
    )


def _strangeness(device: Device, words: set[str]) -> tuple[int, int]:
    parts = device.name.replace("-", "_").split("_")
    return sum(part not in words for part in parts), -len(parts)
