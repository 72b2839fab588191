"""Instructions that move values between lanes, and between lanes and scalar registers."""

from collections.abc import Callable

import numpy as np

from kgen.simulator.arrays import Array, Bits
from kgen.simulator.machine import Machine
from kgen.simulator.opcode import Opcode, Step, check_modifiers, refuse
from kgen.simulator.program import LANES, Instruction, Operand, OperandKind
from kgen.simulator.report import InstructionClass
from kgen.simulator.vector_operands import word
from kgen.simulator.waits import Queue
from kgen.simulator.wave import Wave

LANE = np.arange(LANES)


def read_first_lane(instruction: Instruction, machine: Machine) -> Step:
    """v_readfirstlane_b32: the value of the lowest active lane; lane 0 where none is."""
    check_modifiers(instruction, ())
    bits, destination = word(instruction.sources[0]), instruction.destinations[0].register

    def step(wave: Wave) -> None:
        values = np.broadcast_to(bits(wave), wave.exec.shape)
        wave.write_scalar(destination, values[np.arange(len(values)), wave.exec.argmax(axis=1)])

    return step


def lane_number(operand: Operand) -> Callable[[Wave], Array]:
    """Return the reader of a scalar lane number, modulo 64."""
    if operand.kind is OperandKind.CONSTANT:
        return lambda wave: np.full(len(wave.rows), operand.value % LANES)
    return lambda wave: (wave.s[:, operand.register] % np.uint32(LANES)).astype(np.int64)


def read_lane(instruction: Instruction, machine: Machine) -> Step:
    """v_readlane_b32: the value of one lane, active or not."""
    check_modifiers(instruction, ())
    source, lane = instruction.sources[0].register, lane_number(instruction.sources[1])
    destination = instruction.destinations[0].register

    def step(wave: Wave) -> None:
        wave.write_scalar(destination, wave.v[source, np.arange(len(wave.rows)), lane(wave)])

    return step


def write_lane(instruction: Instruction, machine: Machine) -> Step:
    """v_writelane_b32: a scalar into one lane, active or not."""
    check_modifiers(instruction, ())
    value, lane = word(instruction.sources[0]), lane_number(instruction.sources[1])
    destination = instruction.destinations[0].register

    def step(wave: Wave) -> None:
        rows = np.arange(len(wave.rows))
        wave.v[destination, rows, lane(wave)] = np.broadcast_to(value(wave)[:, 0], rows.shape)
        wave.undefined[destination, rows, lane(wave)] = False

    return step


def swap_halves(size: int) -> Opcode:
    """Return v_permlane<size>_swap_b32: odd groups of lanes of the first register swap with even ones of the second."""

    def bind(instruction: Instruction, machine: Machine) -> Step:
        check_modifiers(instruction, ("bound_ctrl",))
        first, second = (operand.register for operand in instruction.destinations)
        odd = LANE[LANE // size % 2 == 1]

        def step(wave: Wave) -> None:
            if not wave.full:
                raise refuse(instruction, "an exchange with inactive lanes")
            for array in (wave.v, wave.undefined):
                kept = array[first][:, odd].copy()
                array[first][:, odd] = array[second][:, odd - size]
                array[second][:, odd - size] = kept

        return step

    return Opcode(bind, InstructionClass.VALU, destinations=2)


def swap(instruction: Instruction, machine: Machine) -> Step:
    """v_swap_b32: the active lanes of two registers change places."""
    check_modifiers(instruction, ())
    first, second = (operand.register for operand in instruction.destinations)

    def step(wave: Wave) -> None:
        for array in (wave.v, wave.undefined):
            kept = np.where(wave.exec, array[second], array[first])
            array[second] = np.where(wave.exec, array[first], array[second])
            array[first] = kept

    return step


def gather(wave: Wave, values: Bits, lanes: Array) -> Bits:
    """Return the value that each lane reads from another one; zero where that lane is inactive."""
    lanes = np.broadcast_to(lanes, wave.exec.shape)
    readable = np.take_along_axis(wave.exec, lanes, axis=1)
    return np.where(readable, np.take_along_axis(values, lanes, axis=1), np.uint32(0))


def pull(instruction: Instruction, machine: Machine) -> Step:
    """ds_bpermute_b32: each lane reads the lane whose number times 4 is its address."""
    check_modifiers(instruction, ("offset",))
    address, data = (operand.register for operand in instruction.sources)
    offset, result = np.uint32(instruction.number("offset")), instruction.destinations[0].registers

    def step(wave: Wave) -> None:
        wave.in_flight.issue_lds(result)
        lanes = ((wave.v[address] + offset) >> np.uint32(2) & np.uint32(63)).astype(np.int64)
        wave.write(result.start, gather(wave, wave.v[data], lanes))

    return step


def push(instruction: Instruction, machine: Machine) -> Step:
    """ds_permute_b32: each active lane writes to the lane whose number times 4 is its address; others read zero."""
    check_modifiers(instruction, ("offset",))
    address, data = (operand.register for operand in instruction.sources)
    offset, result = np.uint32(instruction.number("offset")), instruction.destinations[0].registers

    def step(wave: Wave) -> None:
        wave.in_flight.issue_lds(result)
        lanes = ((wave.v[address] + offset) >> np.uint32(2) & np.uint32(63)).astype(np.int64)
        pushed = np.zeros_like(wave.v[data])
        for lane in LANE:  # in order, as the highest lane wins
            rows = np.flatnonzero(wave.exec[:, lane])
            pushed[rows, lanes[rows, lane]] = wave.v[data][rows, lane]
        wave.write(result.start, pushed)

    return step


def swizzle(instruction: Instruction, machine: Machine) -> Step:
    """ds_swizzle_b32: a fixed pattern; bit 15 of the offset: within quads, else and, or, xor masks within 32 lanes."""
    check_modifiers(instruction, ("offset",))
    pattern = instruction.number("offset")
    if pattern & 0x8000:
        lanes = LANE // 4 * 4 + np.array([pattern >> 2 * place & 3 for place in range(4)])[LANE % 4]
    else:
        low = (LANE & 31 & pattern | pattern >> 5 & 31) ^ (pattern >> 10 & 31)
        lanes = LANE & 32 | low & 31
    source, result = instruction.sources[0].register, instruction.destinations[0].registers

    def step(wave: Wave) -> None:
        wave.in_flight.issue_lds(result)
        wave.write(result.start, gather(wave, wave.v[source], lanes))

    return step


VALU, LDS = InstructionClass.VALU, InstructionClass.LDS
OPCODES: dict[str, Opcode] = {
    "v_readfirstlane_b32": Opcode(read_first_lane, VALU),
    "v_readlane_b32": Opcode(read_lane, VALU),
    "v_writelane_b32": Opcode(write_lane, VALU),
    "v_permlane16_swap_b32": swap_halves(16),
    "v_permlane32_swap_b32": swap_halves(32),
    "v_swap_b32": Opcode(swap, VALU, destinations=2),
    # These use the LDS hardware, not its memory; their results come back through lgkmcnt.
    "ds_bpermute_b32": Opcode(pull, LDS, queue=Queue.LDS),
    "ds_permute_b32": Opcode(push, LDS, queue=Queue.LDS),
    "ds_swizzle_b32": Opcode(swizzle, LDS, queue=Queue.LDS),
}
