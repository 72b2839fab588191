"""What a simulated launch is given: the kernel and its grid, the memory it may touch, and the two free choices.

Everything a kernel may read or write is a `Buffer`; an access outside of all of them is a finding, not a crash. The
choices (which wave runs first, what unwritten storage holds) are free on hardware, so a right kernel gives the same
bytes for each of them.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

Extent3 = tuple[int, int, int]


class WaveOrder(Enum):
    """The order in which the waves of a workgroup take their turns between two barriers."""

    FORWARD = "forward"
    REVERSED = "reversed"


class Poison(Enum):
    """The 32-bit pattern that never-written registers and LDS words hold."""

    QUIET_NAN = 0x7FC0DEAD  # NaN as f32 and as the high bf16 half
    FINITE = 0xC2F7BEEF  # about -123.9 as f32, -123.5 as the high bf16 half: no NaN that a maximum would hide


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory that the kernel may touch, at the address by which its kernel arguments name it.

    `data` is a writable, contiguous, one-dimensional uint8 view of the tensor's bytes; stores of the kernel land in it.
    """

    address: int
    data: npt.NDArray[np.uint8]
    name: str = ""

    @property
    def end(self) -> int:
        """The address of the first byte behind the buffer."""
        return self.address + self.data.size


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch: `grid` counts workgroups, `block` work-items; `kernarg` is the kernel argument segment."""

    kernel: str
    grid: Extent3
    block: Extent3
    kernarg: bytes
    dynamic_lds_bytes: int = 0
