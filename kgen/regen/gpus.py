"""Which GPUs of this machine a device's packages run on."""

from collections.abc import Mapping

from kgen.check.gpu import Gpu, find_gpus, shown_alone
from kgen.check.match import match_gpus
from kgen.target import Device, all_devices


def gpus_of(device: Device) -> tuple[Mapping[str, str], ...]:
    """Return, of each GPU here that the device file describes, the variables that show it alone to a process."""
    gpus = find_gpus()
    return tuple(shown_alone(gpus, index) for index, gpu in enumerate(gpus) if is_device(gpu, device))


def is_device(gpu: Gpu, device: Device) -> bool:
    """Whether a device file describes a GPU: best of all files, where the driver's figures fit to several.

    A file that kgen does not ship is for the card that it fits, whatever else does.
    """
    devices = (device,) if device.text else all_devices()
    (match,) = match_gpus([gpu], devices)
    return match.device == device.name
