"""Addresses of buffer instructions.

A buffer instruction addresses through a 128-bit resource in scalar registers: base, stride, num_records. Of a raw
buffer (stride 0) each 32-bit word, or the single narrower element, beyond num_records reads zero and is not stored.
That is the kernel's own bound and no finding; an address within it that no registered buffer has is one.
"""

from dataclasses import dataclass

import numpy as np

from kgen.simulator.arrays import Array, Mask, Rows
from kgen.simulator.global_memory import GlobalMemory
from kgen.simulator.opcode import refuse
from kgen.simulator.program import Instruction, Operand, OperandKind
from kgen.simulator.wave import Wave

BASE_BITS = np.uint64((1 << 48) - 1)
WORD = 4


@dataclass(frozen=True, slots=True)
class Elements:
    """The elements of a buffer access, [active lane, element]: addresses, and whether num_records allows them.

    `rows` are the batch rows and `bases` the base addresses of the lanes' resources.
    """

    rows: Rows
    bases: Array
    addresses: Array
    allowed: Mask

    def home(self, memory: GlobalMemory) -> Array:
        """Return the buffer of each lane's resource."""
        return memory.home(self.bases)


class BufferAddress:
    """The address operands of a buffer instruction: vector offset and index, resource, scalar offset."""

    def __init__(self, instruction: Instruction, operands: tuple[Operand, ...]) -> None:
        if len(operands) != 3:
            raise refuse(instruction, "the number of operands")
        self.vector, self.resource, self.offset = operands
        self.has_index, self.has_offset = instruction.flag("idxen"), instruction.flag("offen")
        self.immediate = np.uint64(instruction.number("offset"))
        self.instruction = instruction

    def elements(self, wave: Wave, size: int) -> Elements:
        """Return the elements of an access of `size` bytes a lane: its 32-bit words, or the one narrower element."""
        first = self.resource.register
        words = [wave.s[:, first + place, None].astype(np.uint64) for place in range(4)]
        base = (words[0] | words[1] << np.uint64(32)) & BASE_BITS
        stride = words[1] >> np.uint64(16) & np.uint64(0x3FFF)
        if (words[1] >> np.uint64(31)).any():
            raise refuse(self.instruction, "a swizzled buffer")
        index, offset = self._index_and_offset(wave)
        within = stride * index + offset
        scalar = np.uint64(self.offset.value) if self.offset.kind is not OperandKind.SGPR else (
            wave.s[:, self.offset.register, None].astype(np.uint64)
        )  # fmt: skip
        step = min(size, WORD)
        places = np.arange(0, size, step, dtype=np.uint64)
        ends = wave.active(within)[:, None] + places + np.uint64(step)
        records = wave.active(words[2])[:, None]
        allowed = np.where(wave.active(stride)[:, None] == 0, ends <= records, wave.active(index)[:, None] < records)
        addresses = wave.active(base + scalar + within)[:, None] + places
        return Elements(wave.lane_rows, wave.active(base), addresses, allowed)

    def _index_and_offset(self, wave: Wave) -> tuple[Array, Array]:
        register = self.vector.register
        index: Array = np.zeros((1, 1), np.uint64)
        offset: Array = np.full((1, 1), self.immediate)
        if self.has_index:
            index = wave.v[register].astype(np.uint64)
            register += 1
        if self.has_offset:
            offset = wave.v[register].astype(np.uint64) + self.immediate
        return index, offset
