"""How processes that measure on one GPU take turns: many test their kernels beside each other, what is timed is alone.

An flock of one file for each GPU; a process that dies lets go of it. `kgen bench` and `kgen regen` take it, and so does
every test_kernel.py that is given the file by --gpu-lock.
"""

import fcntl
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kgen.check.gpu import Gpu


@dataclass(frozen=True, slots=True)
class GpuLock:
    """The lock of one GPU; `path` is a file that need not exist yet."""

    path: Path

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Work on the GPU while nobody times anything there; waits until that is so."""
        with self._held(fcntl.LOCK_SH):
            yield

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Time something: nobody else who takes the lock works meanwhile; waits until that is so."""
        with self._held(fcntl.LOCK_EX):
            yield

    @contextmanager
    def _held(self, how: int) -> Iterator[None]:
        descriptor = self._opened()
        try:
            fcntl.flock(descriptor, how)
            yield
        finally:
            os.close(descriptor)

    def _opened(self) -> int:
        """Open the file for reading: that is enough to lock it, and another user's file allows no more."""
        try:
            return os.open(self.path, os.O_RDONLY)
        except FileNotFoundError:
            return os.open(self.path, os.O_RDONLY | os.O_CREAT, 0o644)


def lock_of(gpu: Gpu) -> GpuLock:
    """Return the lock of a GPU of this machine, the same for every process and user."""
    place = re.sub(r"[^0-9A-Za-z.]+", "-", gpu.address or gpu.name)
    return GpuLock(Path(tempfile.gettempdir()) / f"kgen-gpu-{place}.lock")
