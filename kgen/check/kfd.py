"""What the AMD kernel driver says of its GPUs in sysfs: the KFD topology, and the sensors of a card.

No ROCm library is needed, and no permission but to read.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SYSFS = Path("/sys")


@dataclass(frozen=True, slots=True)
class KfdGpu:
    """One GPU of the topology: the numbers of its node, and those of its memory banks and caches."""

    numbers: Mapping[str, int]
    banks: tuple[Mapping[str, int], ...]
    caches: tuple[Mapping[str, int], ...]

    @property
    def isa(self) -> str:
        """Its instruction set, as "gfx942"."""
        version = self.numbers["gfx_target_version"]
        return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"

    @property
    def compute_units(self) -> int:
        """CUs of all its dies."""
        return self.numbers.get("simd_count", 0) // max(1, self.numbers.get("simd_per_cu", 1))

    @property
    def dies(self) -> int | None:
        """XCDs that work as this one device; older kernels do not say."""
        return self.numbers.get("num_xcc") or None

    @property
    def memory_bytes(self) -> int:
        """All of its memory."""
        return sum(bank.get("size_in_bytes", 0) for bank in self.banks)

    @property
    def smem_bytes(self) -> int:
        """LDS of one CU."""
        return self.numbers.get("lds_size_in_kb", 0) * 1024

    @property
    def pci_bus_id(self) -> str:
        """Where it is, as "0000:1B:00.0": the topology packs bus, device and function into one number."""
        place = self.numbers.get("location_id", 0)
        return f"{self.numbers.get('domain', 0):04X}:{place >> 8 & 0xFF:02X}:{place >> 3 & 0x1F:02X}.{place & 7:X}"

    def cache_bytes(self, level: int) -> int | None:
        """Return the size of its largest cache of a level: one of its kind is listed for each die that has one."""
        sizes = [cache.get("size", 0) * 1024 for cache in self.caches if cache.get("level") == level]
        return max(sizes, default=0) or None

    def card(self, sysfs: Path = SYSFS) -> Path | None:
        """Return the folder of the card, which has its name and its sensors."""
        minor = self.numbers.get("drm_render_minor", 0)
        return sysfs / f"class/drm/renderD{minor}/device" if minor else None


def kfd_gpus(sysfs: Path = SYSFS) -> tuple[KfdGpu, ...]:
    """Return the GPUs of the topology in its order."""
    nodes = sysfs / "class/kfd/kfd/topology/nodes"
    try:
        folders = sorted((node for node in nodes.iterdir() if node.name.isdecimal()), key=lambda node: int(node.name))
    except OSError:
        return ()
    return tuple(gpu for folder in folders if (gpu := _gpu(folder)) is not None)


def shown(gpus: Sequence[KfdGpu], environment: Mapping[str, str] = os.environ) -> tuple[KfdGpu, ...]:
    """Return those that ROCm shows to this process, in its order: sysfs has all of the machine.

    ROCR_VISIBLE_DEVICES picks by place or as "GPU-<unique id>", HIP_VISIBLE_DEVICES and then CUDA_VISIBLE_DEVICES by
    place among what is left. As in ROCm, the first name that is none ends a list.
    """
    found = tuple(gpus)
    hip = next((name for name in ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES") if name in environment), "")
    for variable in ("ROCR_VISIBLE_DEVICES", hip):
        if variable in environment:
            found = tuple(_picked(found, environment[variable].split(",")))
    return found


def _picked(gpus: Sequence[KfdGpu], names: Sequence[str]) -> Iterator[KfdGpu]:
    by_name = {str(place): gpu for place, gpu in enumerate(gpus)}
    by_name |= {f"GPU-{gpu.numbers.get('unique_id', 0):016x}": gpu for gpu in gpus}
    for name in names:
        if (gpu := by_name.get(name.strip())) is None:
            return
        yield gpu


def kfd_driver_version(sysfs: Path = SYSFS) -> str | None:
    """Return the version of the kernel module, where it is not a part of the kernel itself."""
    return text_of(sysfs / "module/amdgpu/version")


def sensors(card: Path) -> Path | None:
    """Return the folder of a card's sensors."""
    return next(iter(sorted(card.glob("hwmon/hwmon*"))), None)


def number_of(file: Path) -> int | None:
    """Return the number in a file of sysfs."""
    text = text_of(file)
    return int(text) if text is not None and text.isdecimal() else None


def text_of(file: Path) -> str | None:
    """Return the text of a file of sysfs, or `None` where it cannot be read or is empty."""
    try:
        return file.read_text(encoding="utf-8").strip() or None
    except OSError:
        return None


def _gpu(folder: Path) -> KfdGpu | None:
    """Return the GPU of one topology node; CPUs are nodes too, with `gfx_target_version` 0."""
    try:
        numbers = _properties(folder / "properties")
        banks = tuple(_properties(file) for file in sorted(folder.glob("mem_banks/*/properties")))
        caches = tuple(_properties(file) for file in sorted(folder.glob("caches/*/properties")))
    except OSError:
        return None
    return KfdGpu(numbers, banks, caches) if numbers.get("gfx_target_version", 0) else None


def _properties(file: Path) -> dict[str, int]:
    """Read lines of "name number", the format of the topology's files."""
    pairs = (line.split() for line in file.read_text().splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}
