"""A budget of device memory that the jobs of several processes take from, so that they do not meet the end of it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class DeviceShare:
    """`total` bytes, given out to threads that wait for them in no particular order."""

    def __init__(self, total: int) -> None:
        self._total = self._left = total
        self._changed = threading.Condition()

    @contextmanager
    def of(self, size: int) -> Iterator[None]:
        """Hold `size` bytes (all, where more are asked for) while the block runs."""
        size = min(size, self._total)
        with self._changed:
            self._changed.wait_for(lambda: self._left >= size)
            self._left -= size
        try:
            yield
        finally:
            with self._changed:
                self._left += size
                self._changed.notify_all()
