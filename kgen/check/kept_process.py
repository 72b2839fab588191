"""A subprocess that is kept from one request to the next, and replaced where the next one needs another."""

from collections.abc import Callable
from typing import Generic, TypeVar

from kgen.check.event_process import EventProcess

Process = TypeVar("Process", bound=EventProcess)


class KeptProcess(Generic[Process]):
    """At most one subprocess; belongs to one thread, but for `interrupt`."""

    def __init__(self) -> None:
        """None runs yet."""
        self._process: Process | None = None
        self._kind: object = None
        self._is_interrupted = False

    def running(self, kind: object, start: Callable[[], Process]) -> Process:
        """Return the subprocess for requests of a kind: the one that runs, or one that `start` makes in its place."""
        if self._kind != kind:
            self.close()
        if self._process is None:
            self._process, self._kind = start(), kind
        if self._is_interrupted:  # while it started: `interrupt` could not see it yet
            self._process.kill()
        return self._process

    def interrupt(self) -> None:
        """End the subprocess from another thread, so that whoever waits for it goes on, now and ever after."""
        self._is_interrupted = True
        if (process := self._process) is not None:
            process.kill()

    def close(self) -> None:
        """End the subprocess and free what belongs to it."""
        if self._process is not None:
            self._process.close()
            self._process = None
