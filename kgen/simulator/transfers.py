"""How memory bytes become registers: the widths and kinds of loads and stores, for every kind of memory."""

from dataclasses import dataclass

import numpy as np

from kgen.simulator.arrays import Bits, Bytes, Mask
from kgen.simulator.program import Operand
from kgen.simulator.wave import Wave


@dataclass(frozen=True, slots=True)
class Transfer:
    """`size` bytes a lane; below 4 bytes, where they go in the register: `signed`, `high` half, rest `kept`."""

    size: int
    signed: bool = False
    high: bool = False
    kept: bool = False

    @property
    def registers(self) -> int:
        """How many registers hold the bytes of a lane."""
        return -(-self.size // 4)

    def to_registers(self, loaded: Bytes, old: Bits) -> Bits:
        """Return registers [register, lane] from bytes [lane, byte]; `old` is the register before."""
        if self.size >= 4:
            return np.ascontiguousarray(loaded).view(np.uint32).T
        narrow = np.ascontiguousarray(loaded).view(f"{'i' if self.signed else 'u'}{self.size}")[:, 0]
        value = narrow.astype(np.int32).view(np.uint32) if self.signed else narrow.astype(np.uint32)
        if self.kept:
            half = value & np.uint32(0xFFFF)
            value = old & np.uint32(0xFFFF) | half << np.uint32(16) if self.high else old & np.uint32(0xFFFF0000) | half
        return value[None]

    def from_registers(self, registers: Bits) -> Bytes:
        """Return bytes [lane, byte] from registers [register, lane]."""
        if self.size >= 4:
            return np.ascontiguousarray(registers.T).view(np.uint8)
        value = registers[0] >> np.uint32(16) if self.high else registers[0]
        return np.ascontiguousarray(value.astype(f"u{self.size}")[:, None]).view(np.uint8)


DWORDS = {"dword": 4, "dwordx2": 8, "dwordx3": 12, "dwordx4": 16}
GLOBAL_LOADS = {name: Transfer(size) for name, size in DWORDS.items()} | {
    "ubyte": Transfer(1),
    "sbyte": Transfer(1, signed=True),
    "ushort": Transfer(2),
    "sshort": Transfer(2, signed=True),
    "short_d16": Transfer(2, kept=True),
    "short_d16_hi": Transfer(2, high=True, kept=True),
    "ubyte_d16": Transfer(1, kept=True),
    "ubyte_d16_hi": Transfer(1, high=True, kept=True),
    "sbyte_d16": Transfer(1, signed=True, kept=True),
    "sbyte_d16_hi": Transfer(1, signed=True, high=True, kept=True),
}
GLOBAL_STORES = {name: Transfer(size) for name, size in DWORDS.items()} | {
    "byte": Transfer(1),
    "short": Transfer(2),
    "byte_d16_hi": Transfer(1, high=True),
    "short_d16_hi": Transfer(2, high=True),
}
LDS_SIZES = {"b32": 4, "b64": 8, "b96": 12, "b128": 16}
LDS_LOADS = {name: Transfer(size) for name, size in LDS_SIZES.items()} | {
    "u8": Transfer(1),
    "i8": Transfer(1, signed=True),
    "u16": Transfer(2),
    "i16": Transfer(2, signed=True),
    "u8_d16": Transfer(1, kept=True),
    "u8_d16_hi": Transfer(1, high=True, kept=True),
    "i8_d16": Transfer(1, signed=True, kept=True),
    "i8_d16_hi": Transfer(1, signed=True, high=True, kept=True),
    "u16_d16": Transfer(2, kept=True),
    "u16_d16_hi": Transfer(2, high=True, kept=True),
}
LDS_STORES = {name: Transfer(size) for name, size in LDS_SIZES.items()} | {
    "b8": Transfer(1),
    "b16": Transfer(2),
    "b8_d16_hi": Transfer(1, high=True),
    "b16_d16_hi": Transfer(2, high=True),
}


def read_data(wave: Wave, operand: Operand) -> Bits:
    """Return the active lanes [register, lane] of a vector operand."""
    registers = wave.v[operand.register : operand.register + operand.count]
    return registers.reshape(operand.count, -1) if wave.full else registers[:, wave.exec]


def undefined_lanes(wave: Wave, operand: Operand) -> Mask:
    """Return which active lanes have an undefined register in an operand."""
    registers = wave.undefined[operand.register : operand.register + operand.count].any(axis=0)
    return np.asarray(wave.active(np.asarray(registers)))


def write_data(wave: Wave, register: int, transfer: Transfer, loaded: Bytes) -> None:
    """Write what the active lanes loaded."""
    old = wave.active(wave.v[register])
    for place, values in enumerate(transfer.to_registers(loaded, old)):
        wave.write_active(register + place, values)
