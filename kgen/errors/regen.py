"""Refusals of `kgen regen`: an engine that is not there, a task that cannot be done where it was sent."""

from kgen.errors.base import BadInputError, DeviceMissingError, KgenError


class UnknownEngineError(BadInputError):
    """`--engine` names none."""

    message = "--engine {text!r} is none"
    remedy = "pool, for the processes of this machine; ray or ray://HOST:PORT, for a Ray cluster"


class RayMissingError(BadInputError):
    """Ray is not installed."""

    message = "--engine ray needs Ray: {reason}"
    remedy = "pip install 'kgen[ray]' on every node of the cluster"


class NoClusterError(KgenError):
    """No Ray cluster answers."""

    message = "no Ray cluster at {address}: {reason}"
    remedy = "`ray start --head` on one machine, `ray start --address=...` on the others and on this one; docs/regen.md"


class OtherKgenError(KgenError):
    """A node of a cluster has another kgen than the machine that asks."""

    message = "{host} has kgen {there}, and {asked} is asked for"
    remedy = "install the same kgen on every node of the cluster"
    exit_code = 1


class WrongGpuError(DeviceMissingError):
    """A package was to be measured on a GPU that its device file does not describe."""

    message = "{host} has {found}, and the package is for {device}"
    remedy = "measure where that device is; `kgen doctor` says which device a machine has"


class NoTargetsError(BadInputError):
    """`--targets` lists nothing."""

    message = "--targets {text!r} names no device"
    remedy = "names or device files with commas between them, e.g. --targets h200,mi300x,cards/new.yaml"


class SameDeviceNameError(BadInputError):
    """Two targets would write to one folder."""

    message = "{first} and {second} are both called {name}, and packages of both would go to one folder"
    remedy = "rename one of the files: a device is called as its file"
