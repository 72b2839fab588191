"""Scalar loads: from global memory, or from a buffer, where words beyond num_records read zero."""

import numpy as np

from kgen.simulator.buffer_address import BASE_BITS
from kgen.simulator.machine import Machine
from kgen.simulator.opcode import Opcode, Step, check_modifiers
from kgen.simulator.program import Instruction, OperandKind
from kgen.simulator.report import InstructionClass
from kgen.simulator.site import site_of
from kgen.simulator.waits import Queue
from kgen.simulator.wave import Wave


def scalar_load(count: int) -> Opcode:
    """Return s_load_dwordx<count>: from a scalar address, an offset and an optional scalar offset."""

    def bind(instruction: Instruction, machine: Machine) -> Step:
        check_modifiers(instruction, {"offset", "glc"})
        site, (base, *offsets) = site_of(instruction, machine), instruction.sources
        destination = instruction.destinations[0].register
        immediate = instruction.number("offset") + sum(o.value for o in offsets if o.kind is OperandKind.CONSTANT)
        registers = [o.register for o in offsets if o.kind is OperandKind.SGPR]

        def step(wave: Wave) -> None:
            wave.in_flight.issue_scalar(range(destination, destination + count))
            address = wave.s64[:, base.register // 2] + np.uint64(immediate & (1 << 64) - 1)
            for register in registers:
                address = address + wave.s[:, register]
            address = address & ~np.uint64(3)
            loaded, held = site.machine.memory.load(address, 4 * count)
            site.check(wave, wave.rows, address, held, 4 * count, "loads")
            for place, values in enumerate(loaded.view(np.uint32).T):
                wave.write_scalar(destination + place, values)

        return step

    return Opcode(bind, InstructionClass.SMEM, queue=Queue.SCALAR)


def scalar_buffer_load(count: int) -> Opcode:
    """Return s_buffer_load_dwordx<count>."""

    def bind(instruction: Instruction, machine: Machine) -> Step:
        check_modifiers(instruction, {"offset", "glc"})
        site, (resource, *offsets) = site_of(instruction, machine), instruction.sources
        first, destination = resource.register, instruction.destinations[0].register
        immediate = instruction.number("offset") + sum(o.value for o in offsets if o.kind is OperandKind.CONSTANT)
        registers = [o.register for o in offsets if o.kind is OperandKind.SGPR]

        def step(wave: Wave) -> None:
            wave.in_flight.issue_scalar(range(destination, destination + count))
            base = wave.s64[:, first // 2] & BASE_BITS
            offset = np.full(len(wave.rows), immediate, np.uint64)
            for register in registers:
                offset = offset + wave.s[:, register]
            offset = offset & ~np.uint64(3)
            for place in range(count):
                inside = offset + np.uint64(4 * place + 4) <= wave.s[:, first + 2]
                address = (base + offset + np.uint64(4 * place))[inside]
                words = np.zeros(len(wave.rows), np.uint32)
                home = site.machine.memory.home(base[inside])
                words[inside] = site.load(wave, wave.rows[inside], address, 4, home, counted=False).view(np.uint32)[
                    :, 0
                ]
                wave.write_scalar(destination + place, words)

        return step

    return Opcode(bind, InstructionClass.SMEM, queue=Queue.SCALAR)


def names(prefix: str) -> dict[int, str]:
    """Return the mnemonics by their number of words."""
    return {count: f"{prefix}_dword" + (f"x{count}" if count > 1 else "") for count in (1, 2, 3, 4, 8, 16)}


OPCODES: dict[str, Opcode] = {name: scalar_load(count) for count, name in names("s_load").items()} | {
    name: scalar_buffer_load(count) for count, name in names("s_buffer_load").items()
}
