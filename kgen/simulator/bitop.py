"""v_bitop3: any function of three bits, from its truth table."""

import numpy as np

from kgen.simulator.arrays import Bits
from kgen.simulator.machine import Machine
from kgen.simulator.opcode import Opcode, Step, check_modifiers, refuse
from kgen.simulator.program import Instruction
from kgen.simulator.report import InstructionClass
from kgen.simulator.vector_operands import word
from kgen.simulator.wave import Wave


def from_truth_table(a: Bits, b: Bits, c: Bits, table: int) -> Bits:
    """Return, bit by bit, bit number 4a + 2b + c of the table."""
    result = np.zeros(np.broadcast_shapes(a.shape, b.shape, c.shape), np.uint32)
    for row in range(8):
        if table >> row & 1:
            result |= (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
    return result


def bitop(keep: int) -> Opcode:
    """Return v_bitop3_b32 or, with the upper half cleared, v_bitop3_b16."""

    def bind(instruction: Instruction, machine: Machine) -> Step:
        check_modifiers(instruction, ("bitop3",))
        if len(instruction.sources) != 3 or any(o.negate or o.absolute for o in instruction.sources):
            raise refuse(instruction, "an operand")
        first, second, third = (word(operand) for operand in instruction.sources)
        table, register = instruction.number("bitop3"), instruction.destinations[0].register

        def step(wave: Wave) -> None:
            wave.write(register, from_truth_table(first(wave), second(wave), third(wave), table) & np.uint32(keep))

        return step

    return Opcode(bind, InstructionClass.VALU, pure=True)


OPCODES: dict[str, Opcode] = {"v_bitop3_b32": bitop(0xFFFFFFFF), "v_bitop3_b16": bitop(0xFFFF)}
