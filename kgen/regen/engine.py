"""What a regeneration asks of whatever does its tasks: the pool of this machine, or a Ray cluster."""

from typing import Protocol

from kgen.regen.tasks import Done, Task
from kgen.target import Device


class Engine(Protocol):
    """Takes tasks while there is room for them, and tells of each when it is done; each is told of once."""

    def gpus(self, device: Device) -> int:
        """Return how many GPUs a device's packages can be measured on."""
        ...

    def has_room(self, device: Device | None = None) -> bool:
        """Whether a task can be started now: without a GPU, or on one of a device."""
        ...

    @property
    def is_busy(self) -> bool:
        """Whether any task is being done."""
        ...

    def start(self, task: Task) -> None:
        """Start a task; there is room for it."""
        ...

    def wait(self) -> Done:
        """Wait for the end of a task."""
        ...

    def close(self) -> None:
        """Stop all work at once."""
        ...
