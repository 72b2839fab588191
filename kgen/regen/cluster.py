"""A Ray cluster as an engine: the tasks of the pool as remote functions, which Ray places, retries and isolates.

Tasks without a GPU run on any node. One that measures asks for a GPU of its own on a node whose accelerator is that of
the package's device, so a GPU has one of them at a time. Spec, package and result travel as values: nodes share no
files, and only the caller writes packages and records.
"""

import atexit
import logging
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from kgen.errors.regen import NoClusterError, RayMissingError
from kgen.regen.tasks import Done, Lost, Made, PackageTask, Task
from kgen.regen.worker import RECYCLE_AFTER, Worker
from kgen.target import Device

RETRIES = 3  # by Ray, of a task whose worker or node was lost
AHEAD = 2  # tasks per CPU that are handed to Ray at once


def accelerator_of(device: Device) -> str:
    """Return what Ray calls the accelerator of a device: made of the name that its driver gives, as Ray does.

    "NVIDIA H200 SXM" is H200; "AMD Instinct MI300X" is AMD-Instinct-MI300X-OAM, the form that Ray knows these in.
    """
    vendor, _, model = device.title.partition(" ")
    if vendor == "AMD":
        return f"AMD-{model.replace(' ', '-')}-OAM"
    return model.split(" ")[0]


class Cluster:
    """An engine: takes tasks while there is room, and tells of each when it is done."""

    def __init__(self, address: str | None) -> None:
        """Connect to the cluster of the address, else to that of RAY_ADDRESS, else start one on this machine."""
        try:
            import ray
        except ImportError as error:
            raise RayMissingError(reason=error) from error
        self._ray: Any = ray
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)
        except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
            raise NoClusterError(address=address or "this machine", reason=str(error).strip()) from error
        self._do = ray.remote(num_cpus=1, max_retries=RETRIES, max_calls=RECYCLE_AFTER)(do)
        self._measure = ray.remote(num_cpus=1, num_gpus=1, max_retries=RETRIES, max_calls=1)(do)
        self._running: dict[Any, Task] = {}

    def gpus(self, device: Device) -> int:
        """Return how many GPUs a device's packages can be measured on."""
        wanted = _resource(device)
        nodes = (node["Resources"] for node in self._ray.nodes() if node["Alive"])
        return int(sum(resources.get("GPU", 0) for resources in nodes if wanted in resources))

    def has_room(self, device: Device | None = None) -> bool:
        """Whether a task can be started now: without a GPU, or on one of a device."""
        if device is None:
            cpus = int(self._ray.cluster_resources().get("CPU", 1))
            return len(self._running) < AHEAD * max(cpus, 1)
        waiting = [t for t in self._running.values() if isinstance(t, PackageTask) and t.device == device]
        return len(waiting) < self.gpus(device)

    @property
    def is_busy(self) -> bool:
        """Whether any task is being done."""
        return bool(self._running)

    def start(self, task: Task) -> None:
        """Hand a task to Ray."""
        if isinstance(task, PackageTask) and task.step.needs_gpu:
            there = self._measure.options(resources={_resource(task.device): 0.001})
            self._running[there.remote(task)] = task
        else:
            self._running[self._do.remote(task)] = task

    def wait(self) -> Done:
        """Wait for the end of a task."""
        (ready, *_), _ = self._ray.wait(list(self._running), num_returns=1)
        task = self._running.pop(ready)
        try:
            outcome: tuple[Made, ...] | Lost = self._ray.get(ready)
        except self._ray.exceptions.RayError as error:
            outcome = Lost(f"Ray gave it up after {RETRIES} retries: {str(error).strip()}")
        return Done(task, outcome)

    def close(self) -> None:
        """Cancel what runs, and leave the cluster."""
        for reference in self._running:
            self._ray.cancel(reference, force=True)
        self._ray.shutdown()


def _resource(device: Device) -> str:
    return f"accelerator_type:{accelerator_of(device)}"


def do(task: Task) -> tuple[Made, ...]:
    """Do a task in a process of Ray's: the remote function."""
    return _worker().do(task)


@cache
def _worker() -> Worker:
    """Return the worker of this process, whose private folder goes with it."""
    scratch = Path(tempfile.mkdtemp(prefix="kgen-regen-"))
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    return Worker(scratch)
