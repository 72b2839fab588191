"""SDWA: sources and destination of a vector instruction are bytes or 16-bit halves of registers."""

import numpy as np

from kgen.simulator.arrays import Bits
from kgen.simulator.program import Instruction

DWORD, PRESERVE = 6, 2  # as numbered by the operand parser


def part_of(values: Bits, select: int, signed: bool) -> Bits:
    """Return the selected byte (0..3) or half (4, 5) of each value, zero- or sign-extended."""
    if select == DWORD:
        return values
    width, shift = (8, 8 * select) if select < 4 else (16, 16 * (select - 4))
    if signed:
        upper = values << np.uint32(32 - width - shift)
        return (upper.view(np.int32) >> np.int32(32 - width)).view(np.uint32)
    return values >> np.uint32(shift) & np.uint32((1 << width) - 1)


def placed(instruction: Instruction, old: Bits, values: Bits) -> Bits:
    """Return the destination register with the values in the selected byte or half of it."""
    select, unused = instruction.number("dst_sel", DWORD), instruction.number("dst_unused")
    if select == DWORD:
        return values
    width, shift = (8, 8 * select) if select < 4 else (16, 16 * (select - 4))
    field = np.uint32(((1 << width) - 1) << shift)
    if unused == PRESERVE:
        return (old & ~field) | (values << np.uint32(shift) & field)
    placed_values = values << np.uint32(shift) & field
    if unused == 1:  # the bits above are the sign
        sign = np.uint32(1 << (shift + width - 1))
        above = np.uint32((0xFFFFFFFF << (shift + width)) & 0xFFFFFFFF)
        return np.where(placed_values & sign, placed_values | above, placed_values)
    return placed_values
