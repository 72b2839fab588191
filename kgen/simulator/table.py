"""All opcodes, and the few that are nothing but control: the engine knows those by name."""

from collections.abc import Mapping

from kgen.simulator import (
    bitop,
    compare,
    cross_lane,
    global_access,
    local_access,
    mfma,
    packed,
    scalar_alu,
    scalar_loads,
    vector_alu,
    vector_convert,
    vector_double,
)
from kgen.simulator.machine import Machine
from kgen.simulator.opcode import Opcode, Step
from kgen.simulator.program import Instruction, Modifier
from kgen.simulator.report import InstructionClass


def nothing(instruction: Instruction, machine: Machine) -> Step:
    """Return the step of an instruction without an effect on what a kernel computes."""
    return lambda wave: None


def by_engine(instruction: Instruction, machine: Machine) -> Step:
    raise AssertionError("control flow is the engine's")


IDLE = (
    "s_nop s_setprio s_sleep s_sethalt s_setreg_b32 s_setreg_imm32_b32 s_dcache_inv s_icache_inv buffer_wbl2 buffer_inv"
)
BRANCHES = "s_branch s_cbranch_scc0 s_cbranch_scc1 s_cbranch_vccz s_cbranch_vccnz s_cbranch_execz s_cbranch_execnz"
CONTROL: dict[str, Opcode] = (
    {name: Opcode(nothing, InstructionClass.OTHER, destinations=0) for name in IDLE.split()}
    | {name: Opcode(by_engine, InstructionClass.BRANCH, destinations=0) for name in BRANCHES.split()}
    | {
        "s_endpgm": Opcode(by_engine, InstructionClass.BRANCH, destinations=0),
        "s_barrier": Opcode(by_engine, InstructionClass.BARRIER, destinations=0),
        "s_waitcnt": Opcode(by_engine, InstructionClass.WAIT, destinations=0),
    }
)
OPCODES: Mapping[str, Opcode] = (
    CONTROL
    | scalar_alu.OPCODES
    | vector_alu.OPCODES
    | vector_convert.OPCODES
    | vector_double.OPCODES
    | compare.OPCODES
    | packed.OPCODES
    | bitop.OPCODES
    | cross_lane.OPCODES
    | mfma.OPCODES
    | global_access.OPCODES
    | local_access.OPCODES
    | scalar_loads.OPCODES
)


def destination_count(name: str, operands: int, modifiers: Mapping[str, Modifier]) -> int | None:
    """Return how many of an instruction's operands are destinations, None for an unknown opcode."""
    opcode = OPCODES.get(name)
    if opcode is None:
        return None
    if name.startswith("buffer_load") and "lds" in modifiers:
        return 0
    if name.startswith("global_atomic"):
        return operands - 3
    return opcode.destinations


def unit_of(instruction: Instruction) -> InstructionClass:
    """Return the class that an instruction is counted in."""
    if instruction.name.startswith("buffer_load") and instruction.flag("lds"):
        return InstructionClass.LDS_COPY
    return OPCODES[instruction.name].unit
