"""DPP: the first source of a vector instruction comes from another lane of the wave.

A row is 16 lanes, a bank 4. A lane whose source lane does not exist or is inactive reads zero where bound_ctrl is set,
and is not written otherwise; lanes outside of row_mask and bank_mask are not written. (CDNA3 ISA reference, "DPP".)
"""

from collections.abc import Callable

import numpy as np

from kgen.simulator.arrays import Array, Bits, Mask
from kgen.simulator.opcode import refuse
from kgen.simulator.program import LANES, Instruction
from kgen.simulator.wave import Wave

LANE = np.arange(LANES)
ROW, PLACE = LANE // 16, LANE % 16


def source_lanes(instruction: Instruction) -> Array:
    """Return the lane that each lane reads, -1 where there is none."""
    for name, lanes_from in CONTROLS.items():
        if name in instruction.modifiers:
            value = instruction.modifiers[name]
            return lanes_from(value)
    raise refuse(instruction, "the lane control")


def in_row(place: Array) -> Array:
    """Return the lane at a place of the own row, -1 outside of it."""
    return np.where((place >= 0) & (place < 16), ROW * 16 + place, -1)


CONTROLS: dict[str, Callable[..., Array]] = {
    "quad_perm": lambda picks: LANE // 4 * 4 + np.array(picks)[LANE % 4],
    "row_shl": lambda n: in_row(PLACE + n),
    "row_shr": lambda n: in_row(PLACE - n),
    "row_ror": lambda n: ROW * 16 + (PLACE - n) % 16,
    "wave_shl": lambda n: np.where(LANE + 1 < LANES, LANE + 1, -1),
    "wave_shr": lambda n: LANE - 1,
    "wave_rol": lambda n: (LANE + 1) % LANES,
    "wave_ror": lambda n: (LANE - 1) % LANES,
    "row_mirror": lambda n: ROW * 16 + 15 - PLACE,
    "row_half_mirror": lambda n: LANE // 8 * 8 + 7 - LANE % 8,
    # row_bcast:15 gives each row the last lane of the row before it, row_bcast:31 the upper half lane 31.
    "row_bcast": lambda n: np.where(ROW > 0, ROW * 16 - 1, -1) if n == 15 else np.where(LANE >= 32, 31, -1),
    "row_newbcast": lambda n: ROW * 16 + n,
}


class LaneShuffle:
    """The lane control of one DPP instruction."""

    def __init__(self, instruction: Instruction) -> None:
        sources = source_lanes(instruction)
        self.exists = sources >= 0
        self.sources = np.where(self.exists, sources, 0)
        self.zero_fill = instruction.flag("bound_ctrl")
        rows, banks = instruction.number("row_mask", 15), instruction.number("bank_mask", 15)
        self.selected = ((rows >> ROW & 1) & (banks >> (PLACE // 4) & 1)).astype(np.bool_)

    def readable(self, wave: Wave) -> Mask:
        """Return where the source lane exists and is active."""
        return np.asarray(self.exists & wave.exec[:, self.sources])

    def moved(self, wave: Wave, values: Bits) -> Bits:
        """Return the values each lane reads; zero where it can read none."""
        values = np.broadcast_to(values, wave.exec.shape)
        return np.where(self.readable(wave), values[:, self.sources], np.uint32(0))

    def written(self, wave: Wave) -> Mask:
        """Return the lanes that the instruction writes."""
        selected = self.selected & wave.exec
        return selected if self.zero_fill else selected & self.readable(wave)
