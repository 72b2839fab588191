"""The CUDA driver and NVIDIA's management library, asked through ctypes: no torch, no DSL, no vendor tool.

A number that this driver does not know is `None`, never 0.
"""

import ctypes
from dataclasses import dataclass
from enum import IntEnum
from typing import Any


class DeviceAttribute(IntEnum):
    """Members of CUdevice_attribute, CUDA driver API reference (cuda.h of CUDA 13.0)."""

    MAX_THREADS_PER_BLOCK = 1
    WARP_SIZE = 10
    CLOCK_RATE = 13  # kHz
    MULTIPROCESSOR_COUNT = 16
    MEMORY_CLOCK_RATE = 36  # kHz
    GLOBAL_MEMORY_BUS_WIDTH = 37  # bits
    L2_CACHE_SIZE = 38
    MAX_THREADS_PER_MULTIPROCESSOR = 39
    COMPUTE_CAPABILITY_MAJOR = 75
    COMPUTE_CAPABILITY_MINOR = 76
    MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81
    MAX_REGISTERS_PER_MULTIPROCESSOR = 82
    MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97
    MAX_BLOCKS_PER_MULTIPROCESSOR = 106


_SM_CLOCK = 1  # nvmlClockType_t, NVML API reference
_POWER_CAP = 0x4  # nvmlClocksEventReasonSwPowerCap


def cuda_driver() -> "CudaDriver | None":
    """Return the CUDA driver, or `None` where there is none."""
    try:
        return CudaDriver(ctypes.CDLL("libcuda.so.1"))
    except OSError:
        return None


@dataclass(frozen=True, slots=True)
class CudaDriver:
    """The driver. It may be here and have no GPU."""

    library: Any

    def version(self) -> str | None:
        """Return the newest CUDA version that it runs, as "13.0"."""
        number = ctypes.c_int()
        if self.library.cuDriverGetVersion(ctypes.byref(number)) != 0:
            return None
        return f"{number.value // 1000}.{number.value % 1000 // 10}"

    def devices(self) -> "tuple[CudaDevice, ...]":
        """Return the GPUs that it shows to this process: CUDA_VISIBLE_DEVICES counts."""
        count = ctypes.c_int()
        if self.library.cuInit(0) != 0 or self.library.cuDeviceGetCount(ctypes.byref(count)) != 0:
            return ()
        return tuple(CudaDevice(self.library, index) for index in range(count.value))


@dataclass(frozen=True, slots=True)
class CudaDevice:
    """One GPU of the driver, by its index."""

    library: Any
    index: int

    def attribute(self, attribute: DeviceAttribute) -> int | None:
        """Return one of its attributes."""
        value = ctypes.c_int()
        status = self.library.cuDeviceGetAttribute(ctypes.byref(value), int(attribute), self._handle())
        return value.value if status == 0 else None

    @property
    def isa(self) -> str:
        """Its compute capability, as "sm_90"."""
        major, minor = (
            self.attribute(a) or 0
            for a in (DeviceAttribute.COMPUTE_CAPABILITY_MAJOR, DeviceAttribute.COMPUTE_CAPABILITY_MINOR)
        )
        return f"sm_{major}{minor}"

    @property
    def name(self) -> str:
        """The product as the driver names it."""
        return self._text(self.library.cuDeviceGetName)

    @property
    def pci_bus_id(self) -> str:
        """Where it is, as "0000:1B:00.0"."""
        return self._text(self.library.cuDeviceGetPCIBusId)

    @property
    def memory_bytes(self) -> int:
        """All of its memory that the driver gives to kernels."""
        memory = ctypes.c_size_t()
        self.library.cuDeviceTotalMem_v2(ctypes.byref(memory), self._handle())
        return memory.value

    def _handle(self) -> ctypes.c_int:
        handle = ctypes.c_int()
        self.library.cuDeviceGet(ctypes.byref(handle), self.index)
        return handle

    def _text(self, function: Any) -> str:
        text = ctypes.create_string_buffer(256)
        function(text, len(text), self._handle())
        return text.value.decode(errors="replace")


def management() -> "Management | None":
    """Return NVIDIA's management library, or `None` where there is none or it does not start."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    return Management(library) if library.nvmlInit_v2() == 0 else None


@dataclass(frozen=True, slots=True)
class Management:
    """NVML, which is up. It counts all GPUs of the machine, so that one is named by where it is."""

    library: Any

    def driver_version(self) -> str | None:
        """Return the version of the kernel driver, as "580.159.04"."""
        text = ctypes.create_string_buffer(96)
        status = self.library.nvmlSystemGetDriverVersion(text, len(text))
        return text.value.decode(errors="replace") if status == 0 else None

    def device(self, pci_bus_id: str) -> "ManagedDevice | None":
        """Return the GPU at a place."""
        handle = ctypes.c_void_p()
        status = self.library.nvmlDeviceGetHandleByPciBusId_v2(pci_bus_id.encode(), ctypes.byref(handle))
        return ManagedDevice(self.library, handle) if status == 0 else None


@dataclass(frozen=True, slots=True)
class ManagedDevice:
    """One GPU of NVML: what it may draw, and what it does at this moment."""

    library: Any
    handle: ctypes.c_void_p

    def most_mhz(self) -> int | None:
        """Return the highest clock of its SMs."""
        return self._number(self.library.nvmlDeviceGetMaxClockInfo, ctypes.c_int(_SM_CLOCK))

    def mhz(self) -> int | None:
        """Return the clock of its SMs now."""
        return self._number(self.library.nvmlDeviceGetClockInfo, ctypes.c_int(_SM_CLOCK))

    def power_limit_mw(self) -> int | None:
        """Return what it may draw."""
        return self._number(self.library.nvmlDeviceGetEnforcedPowerLimit)

    def power_mw(self) -> int | None:
        """Return what it draws now."""
        return self._number(self.library.nvmlDeviceGetPowerUsage)

    def is_power_capped(self) -> bool | None:
        """Return whether the power limit holds its clock down now."""
        reasons = ctypes.c_ulonglong()
        status = self.library.nvmlDeviceGetCurrentClocksThrottleReasons(self.handle, ctypes.byref(reasons))
        return bool(reasons.value & _POWER_CAP) if status == 0 else None

    def _number(self, function: Any, *arguments: Any) -> int | None:
        value = ctypes.c_uint()
        return value.value if function(self.handle, *arguments, ctypes.byref(value)) == 0 else None
