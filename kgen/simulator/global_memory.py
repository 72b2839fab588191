"""Global memory: the buffers of the launch, and where accesses leave them.

Every byte that a kernel may touch belongs to one buffer. A load outside of all of them returns poison, a store there is
dropped, and both are findings. So is an access that leaves the buffer of its base address for another one. Plain stores
are remembered by workgroup, as two workgroups must not store to one byte.
"""

from collections.abc import Sequence

import numpy as np

from kgen.errors.simulator import BadLaunchError
from kgen.simulator.arrays import Array, Bytes, Mask, Rows
from kgen.simulator.launch import Buffer, Poison


class GlobalMemory:
    """The buffers, by address."""

    def __init__(self, kernel: str, buffers: Sequence[Buffer], poison: Poison) -> None:
        self.buffers = sorted(buffers, key=lambda buffer: buffer.address)
        for buffer in self.buffers:
            if buffer.data.dtype != np.uint8 or buffer.data.ndim != 1 or not buffer.data.flags.c_contiguous:
                raise BadLaunchError(kernel=kernel, reason=f"buffer {buffer.name} is no flat array of bytes")
        for below, above in zip(self.buffers, self.buffers[1:], strict=False):
            if below.end > above.address:
                raise BadLaunchError(kernel=kernel, reason=f"buffers {below.name} and {above.name} overlap")
        self.starts = np.array([buffer.address for buffer in self.buffers], np.uint64)
        self.ends = np.array([buffer.end for buffer in self.buffers], np.uint64)
        self.owners: dict[int, Array] = {}  # buffer -> [byte], 1 + the workgroup that stored there
        self.poison = np.array([poison.value] * 4, np.uint32).view(np.uint8)

    def locate(self, addresses: Array, size: int) -> tuple[Array, Mask]:
        """Return for each access the buffer that should hold it, and whether it does."""
        number = np.searchsorted(self.starts, addresses, side="right") - 1
        held = (number >= 0) & (addresses + np.uint64(size) <= self.ends[np.maximum(number, 0)])
        return np.maximum(number, 0), held

    def home(self, bases: Array) -> Array:
        """Return the buffers that base addresses point into, -1 where there is none: that base proves nothing."""
        number, held = self.locate(bases, 1)
        return np.where(held, number, -1)

    def split(
        self, addresses: Array, size: int, home: Array | None = None
    ) -> tuple[Mask, list[tuple[int, Array | slice, Rows]]]:
        """Return which accesses are inside, and per buffer: its number, the accesses to it, their offsets.

        Given `home`, one buffer for each access, accesses to another buffer are not inside.
        """
        if not len(addresses):
            return np.ones(0, np.bool_), []
        numbers, held = self.locate(addresses[[addresses.argmin(), addresses.argmax()]], size)
        number = int(numbers[0])
        at_home = home is None or bool(np.all((home == number) | (home < 0)))
        if held.all() and number == numbers[1] and at_home:  # the usual case: all in one buffer
            return np.ones(len(addresses), np.bool_), [(number, slice(None), self.offsets(number, addresses))]
        numbers, held = self.locate(addresses, size)
        if home is not None:
            held &= (home == numbers) | (home < 0)
        parts: list[tuple[int, Array | slice, Rows]] = []
        for number in np.unique(numbers[held]).tolist():
            which = np.flatnonzero(held & (numbers == number))
            parts.append((number, which, self.offsets(number, addresses[which])))
        return held, parts

    def offsets(self, number: int, addresses: Array) -> Rows:
        """Return the offsets of addresses in a buffer."""
        return np.asarray(addresses - self.starts[number], np.int64)

    def load(self, addresses: Array, size: int, home: Array | None = None) -> tuple[Bytes, Mask]:
        """Return `size` bytes for each address, and which are inside of a buffer."""
        held, parts = self.split(addresses, size, home)
        result = np.empty((len(addresses), size), np.uint8)
        if not held.all():
            result[:] = np.resize(self.poison, size)
        for number, which, offsets in parts:
            result[which] = gather(self.buffers[number].data, offsets, size)
        return result, held

    def store(self, addresses: Array, values: Bytes, workgroups: Rows, home: Array | None = None) -> tuple[Mask, Mask]:
        """Store rows of bytes; return which are inside of a buffer, and which overwrite another workgroup's store."""
        size = values.shape[1]
        held, parts = self.split(addresses, size, home)
        overlaps = np.zeros(len(addresses), np.bool_)
        for number, which, offsets in parts:
            data = self.buffers[number].data
            if number not in self.owners:
                self.owners[number] = np.zeros(data.size, np.int32)
            owners, mine = self.owners[number], workgroups[which] + 1
            ends = np.stack([offsets, offsets + (size - 1)])
            before = owners[ends]
            scatter(owners.view(np.uint8), 4 * offsets, owner_bytes(mine, size))
            others = ((before != 0) & (before != mine)) | (owners[ends] != mine)  # before, or in this very access
            overlaps[which] = others.any(axis=0)
            scatter(data, offsets, values[which])
        return held, overlaps


def owner_bytes(owners: Array, size: int) -> Bytes:
    """Return `size` copies of each 32-bit number, as bytes."""
    return np.repeat(owners.astype(np.int32)[:, None], size, axis=1).view(np.uint8)


def units(data: Bytes, offsets: Rows, size: int) -> tuple[Array, Array]:
    """Return the memory as its largest units that all accesses are aligned to, and the units of each access."""
    for dtype in (np.uint64, np.uint32, np.uint16):
        width = np.dtype(dtype).itemsize
        if size % width == 0 and data.ctypes.data % width == 0 and not np.any(offsets & (width - 1)):
            words = data[: data.size // width * width].view(dtype)
            return words, (offsets // width)[:, None] + np.arange(size // width)
    return data, offsets[:, None] + np.arange(size)


def gather(data: Bytes, offsets: Rows, size: int) -> Bytes:
    """Return `size` bytes from each offset."""
    words, places = units(data, offsets, size)
    return words[places].view(np.uint8)


def scatter(data: Bytes, offsets: Rows, values: Bytes) -> None:
    """Store one row of bytes at each offset; where rows overlap, the last one stays."""
    words, places = units(data, offsets, values.shape[1])
    words[places] = np.ascontiguousarray(values).view(words.dtype)
