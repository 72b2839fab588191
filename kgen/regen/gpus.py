"""Which GPUs of this machine a device's packages run on."""

import os
from collections.abc import Mapping, Sequence

from kgen.check.gpu import Gpu, find_gpus
from kgen.check.match import match_gpus
from kgen.target import Device, all_devices


def gpus_of(device: Device) -> tuple[Mapping[str, str], ...]:
    """Return, of each GPU here that the device file describes, the variables that show it alone to a process."""
    gpus = find_gpus()
    return tuple(_shown_alone(gpus, index) for index, gpu in enumerate(gpus) if is_device(gpu, device))


def is_device(gpu: Gpu, device: Device) -> bool:
    """Whether a device file describes a GPU: best of all files, where the driver's figures fit to several.

    A file that kgen does not ship is for the card that it fits, whatever else does.
    """
    devices = (device,) if device.text else all_devices()
    (match,) = match_gpus([gpu], devices)
    return match.device == device.name


def _shown_alone(gpus: Sequence[Gpu], index: int) -> dict[str, str]:
    """Return the variables that show one of these GPUs alone to a process."""
    cuda = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    variable, given = "CUDA_VISIBLE_DEVICES", cuda
    if not _is_nvidia(gpus[index]):
        variable, given = "HIP_VISIBLE_DEVICES", os.environ.get("HIP_VISIBLE_DEVICES", cuda)
    among = sum(_is_nvidia(gpu) is _is_nvidia(gpus[index]) for gpu in gpus[:index])
    shown = [name.strip() for name in given.split(",") if name.strip()]
    return {variable: shown[among] if among < len(shown) else str(among)}


def _is_nvidia(gpu: Gpu) -> bool:
    return gpu.isa.startswith("sm_")
