"""Which GPUs are in this machine, asked of the driver itself: no torch, no DSL, no vendor tool."""

import ctypes
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

# CUdevice_attribute values, CUDA driver API reference.
_MULTIPROCESSOR_COUNT = 16
_COMPUTE_CAPABILITY_MAJOR = 75
_COMPUTE_CAPABILITY_MINOR = 76
_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97

_AMD_MODULE_VERSION = Path("/sys/module/amdgpu/version")
_KFD_NODES = Path("/sys/class/kfd/kfd/topology/nodes")


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU as its driver describes it. `isa` is "sm_90" or "gfx942"."""

    name: str
    isa: str
    compute_units: int
    memory_bytes: int
    smem_bytes_per_cta: int

    def runs(self, isa: str) -> bool:
        """Whether code for that ISA runs here: "sm_90a" code on an sm_90 GPU, and on nothing newer."""
        return self.isa == isa.removesuffix("a")


def find_gpus() -> tuple[Gpu, ...]:
    """Return the GPUs that the CUDA driver and the AMD kernel driver show to this process."""
    return _nvidia_gpus() + _amd_gpus(_KFD_NODES)


def cuda_driver_version() -> str | None:
    """Return the newest CUDA version that the installed driver runs, as "13.0", or `None` without a driver."""
    number = ctypes.c_int()
    if (cuda := _cuda()) is None or cuda.cuDriverGetVersion(ctypes.byref(number)) != 0:
        return None
    return f"{number.value // 1000}.{number.value % 1000 // 10}"


def driver_version() -> str | None:
    """Return the version of the GPU's kernel driver, as "580.159.04", or `None` where none can be asked."""
    text = ctypes.create_string_buffer(96)
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return _amd_driver_version()
    if nvml.nvmlInit_v2() != 0 or nvml.nvmlSystemGetDriverVersion(text, len(text)) != 0:
        return None
    return text.value.decode(errors="replace")


def _amd_driver_version() -> str | None:
    try:
        return _AMD_MODULE_VERSION.read_text(encoding="utf-8").strip()
    except OSError:
        return None


def _cuda() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None


def _nvidia_gpus() -> tuple[Gpu, ...]:
    if (cuda := _cuda()) is None:
        return ()
    count = ctypes.c_int()
    if cuda.cuInit(0) != 0 or cuda.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return ()
    return tuple(_nvidia_gpu(cuda, index) for index in range(count.value))


def _nvidia_gpu(cuda: ctypes.CDLL, index: int) -> Gpu:
    device = ctypes.c_int()
    cuda.cuDeviceGet(ctypes.byref(device), index)

    def attribute(number: int) -> int:
        value = ctypes.c_int()
        cuda.cuDeviceGetAttribute(ctypes.byref(value), number, device)
        return value.value

    name = ctypes.create_string_buffer(256)
    cuda.cuDeviceGetName(name, len(name), device)
    memory = ctypes.c_size_t()
    cuda.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
    return Gpu(
        name=name.value.decode(errors="replace"),
        isa=f"sm_{attribute(_COMPUTE_CAPABILITY_MAJOR)}{attribute(_COMPUTE_CAPABILITY_MINOR)}",
        compute_units=attribute(_MULTIPROCESSOR_COUNT),
        memory_bytes=memory.value,
        smem_bytes_per_cta=attribute(_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
    )


def _amd_gpus(nodes: Path) -> tuple[Gpu, ...]:
    try:
        folders = sorted((node for node in nodes.iterdir() if node.name.isdecimal()), key=lambda node: int(node.name))
    except OSError:
        return ()
    return tuple(gpu for folder in folders if (gpu := _amd_gpu(folder)) is not None)


def _amd_gpu(folder: Path) -> Gpu | None:
    """Return the GPU of one topology node; CPUs are nodes too, with `gfx_target_version` 0."""
    try:
        numbers = _properties(folder / "properties")
        banks = [_properties(file) for file in folder.glob("mem_banks/*/properties")]
    except OSError:
        return None
    if not (version := numbers.get("gfx_target_version", 0)):
        return None
    major, minor, step = version // 10000, version // 100 % 100, version % 100
    isa = f"gfx{major}{minor:x}{step:x}"
    return Gpu(
        name=f"AMD GPU {isa} (device id {numbers.get('device_id', 0):#06x})",
        isa=isa,
        compute_units=numbers.get("simd_count", 0) // max(1, numbers.get("simd_per_cu", 1)),
        memory_bytes=sum(bank.get("size_in_bytes", 0) for bank in banks),
        smem_bytes_per_cta=numbers.get("lds_size_in_kb", 0) * 1024,
    )


def _properties(file: Path) -> dict[str, int]:
    """Read lines of "name number", the format of the AMD kernel driver's topology files."""
    pairs = (line.split() for line in file.read_text().splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}


def shown_alone(gpus: Sequence[Gpu], index: int) -> dict[str, str]:
    """Return the variables that show one of the GPUs of `find_gpus` alone to a process."""
    variable = "CUDA_VISIBLE_DEVICES" if _is_nvidia(gpus[index]) else "HIP_VISIBLE_DEVICES"
    among = sum(_is_nvidia(gpu) is _is_nvidia(gpus[index]) for gpu in gpus[:index])
    shown = [name.strip() for name in os.environ.get(variable, "").split(",") if name.strip()]
    return {variable: shown[among] if among < len(shown) else str(among)}


def _is_nvidia(gpu: Gpu) -> bool:
    return gpu.isa.startswith("sm_")
