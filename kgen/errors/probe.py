"""Errors of `kgen probe`: no GPU, one that no arch has, a torch that does not see it, a file not to write."""

from kgen.errors.base import BadInputError, DeviceMissingError, KgenError, UnsupportedError


class NoGpuToProbeError(DeviceMissingError):
    """No driver shows a GPU."""

    message = "kgen probe needs a GPU; this machine has none: neither the CUDA nor the AMD kernel driver shows one"
    remedy = "run it on the machine of the GPU; `kgen doctor` says which drivers are here"


class ProbedIsaError(UnsupportedError):
    """No arch file has the instruction set of the GPU."""

    message = "{gpu} is {isa}, and targets/ has no arch for it; known: {known}"
    remedy = "an arch comes first: CONTRIBUTING.md, Add an arch on a known ISA"


class DriverSaysTooLittleError(UnsupportedError):
    """A number without which no device file can be written."""

    message = "the driver of {gpu} ({driver}) does not say {what}"
    remedy = "write the device file by hand: CONTRIBUTING.md, Add a device"


class TorchSeesNoGpuError(KgenError):
    """The driver shows a GPU, and torch cannot use it."""

    message = "the driver shows {gpu}, and torch does not use it: {reason}"
    remedy = "install the torch build of this GPU: pytorch.org"


class OtherGpuError(KgenError):
    """Driver and torch speak of different GPUs."""

    message = "the driver shows {gpu} ({isa}, {units} units) first, torch {other} ({other_isa}, {other_units} units)"
    remedy = "make one GPU visible: CUDA_VISIBLE_DEVICES=0, or HIP_VISIBLE_DEVICES=0 for AMD"


class ProbeFailedError(KgenError):
    """The measuring process failed, ended or hung."""

    message = "{gpu} could not be measured: {reason}"
    remedy = "`nvidia-smi` or `rocm-smi` says whether something else is using it"
    exit_code = 1


class ProbeFileNameError(BadInputError):
    """A device is named by its file: the name must be one that targets and folders can have."""

    message = "{path} is no name of a device file"
    remedy = "lower-case letters, digits and _ with .yaml behind them, in a folder that exists: e.g. -o new_gpu.yaml"


class NotAProbedFileError(BadInputError):
    """The file that would be overwritten was not written by a probe."""

    message = "{path} is there, and no probe wrote it"
    remedy = "name another file: what is written by hand has sources that a probe does not know"
