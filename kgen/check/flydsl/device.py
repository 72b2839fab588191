"""A GPU for emitted host functions where there is none: CPU tensors that say that they are on it.

An emitted kernel.py takes GPU tensors, allocates its results on their device and launches on the device's current
stream; it knows nothing of a simulator. Within `active`, tensors that were put on the device, and all that is made of
them or asked for on "cuda", answer as GPU tensors do, and torch.cuda describes the device of the package. What the
device holds is also what a kernel may touch.
"""

import ctypes
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import torch
from torch.overrides import TorchFunctionMode

from kgen.simulator import Buffer
from kgen.target import Device

DEVICE = torch.device("cuda", 0)
_LEAVES = frozenset({"cpu", "numpy", "tolist", "item"})  # what brings a tensor from the device to the host


@dataclass(frozen=True, slots=True)
class Stream:
    """The device's one stream, which does everything at once."""

    cuda_stream: int = 0
    device: torch.device = DEVICE


class SimulatedDevice:
    """Memory that counts as a GPU's, and that GPU's description."""

    def __init__(self, device: Device) -> None:
        """`device` is the one that a package was planned for."""
        self._properties = SimpleNamespace(
            name=f"simulated {device.title}",
            gcnArchName=device.arch.isa,
            multi_processor_count=device.compute_units,
            total_memory=int(device.value("quantities.memory") * 2**30),
            L2_cache_size=int(device.value("quantities.l2") * 2**20),
            warp_size=int(device.arch.limit("warp_size").value),
        )
        number = device.arch.isa.removeprefix("gfx")  # "942": major and minor, and a stepping
        self._capability = int(number[:-2]), int(number[-2])
        self._held: dict[tuple[int, int], torch.Tensor] = {}
        self._storages: set[int] = set()

    def put(self, *tensors: torch.Tensor) -> None:
        """Make tensors of this process count as the device's, and what they span as memory that kernels may touch."""
        for tensor in tensors:
            self._storages.add(tensor.untyped_storage().data_ptr())
            if tensor.numel():
                self._held[tensor.data_ptr(), _span_bytes(tensor)] = tensor

    def clear(self) -> None:
        """Take everything off the device."""
        self._held.clear()
        self._storages.clear()

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor counts as the device's."""
        return tensor.device.type == "cpu" and tensor.untyped_storage().data_ptr() in self._storages

    def buffers(self) -> tuple[Buffer, ...]:
        """Return what kernels may touch, by address; tensors that share memory are one buffer."""
        spans: list[tuple[int, int]] = []  # first byte, and the one behind the last
        for start, end in sorted((address, address + size) for address, size in self._held):
            if spans and start < spans[-1][1]:
                spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
            else:
                spans.append((start, end))
        return tuple(Buffer(start, _bytes_at(start, end - start)) for start, end in spans)

    @contextmanager
    def active(self) -> Iterator[None]:
        """Let tensors of the device, and torch.cuda, answer as on a GPU."""
        stream = Stream()
        answers: dict[str, Any] = {
            "is_available": lambda: True,
            "device_count": lambda: 1,
            "current_device": lambda: 0,
            "current_stream": lambda device=None: stream,
            "get_device_properties": lambda device=None: self._properties,
            "get_device_capability": lambda device=None: self._capability,
            "synchronize": lambda device=None: None,
            "device": _no_context,
            "stream": _no_context,
        }
        with patch.multiple(torch.cuda, **answers), _Answers(self):
            yield


class _Answers(TorchFunctionMode):
    """Intercepts what torch is asked about the device's tensors, and where new ones are made."""

    def __init__(self, device: SimulatedDevice) -> None:
        super().__init__()
        self._device = device

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        given = [x for x in _tensors((args, tuple(kwargs.values()))) if self._device.holds(x)]
        name = getattr(func, "__name__", "")
        if name == "__get__" and given:
            asked = getattr(func.__self__, "__name__", "")
            if asked in _PROPERTIES:
                return _PROPERTIES[asked]
        if name == "get_device" and given:
            return DEVICE.index
        on_device = bool(given) and name not in _LEAVES
        if "device" in kwargs and kwargs["device"] is not None:
            on_device = torch.device(kwargs["device"]).type == DEVICE.type
            kwargs["device"] = torch.device("cpu") if on_device else kwargs["device"]
        made = func(*args, **kwargs)
        if on_device:
            self._device.put(*(x for x in _tensors((made,)) if x.device.type == "cpu"))
        return made


_PROPERTIES = {"is_cuda": True, "is_cpu": False, "device": DEVICE}


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from _tensors(value)


def _no_context(*_: Any) -> AbstractContextManager[None]:
    return nullcontext()


def _span_bytes(tensor: torch.Tensor) -> int:
    """Return the bytes from a tensor's first element to the end of its last."""
    last = sum((extent - 1) * stride for extent, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (1 + last) * tensor.element_size()


def _bytes_at(address: int, size: int) -> npt.NDArray[np.uint8]:
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))
