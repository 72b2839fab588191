"""Where undefined values go: from registers and LDS bytes that nobody wrote to what they decide.

Every lane of a vector register and every scalar register is defined or not. An instruction makes its result undefined
where a source is; that alone is no fault, as compilers compute on registers they did not fill. It is one where an
undefined value becomes an address or is stored to global memory. Masks, conditions and shuffles between lanes count as
defined; that two poison patterns give the same bytes covers those.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from kgen.simulator.arrays import Mask
from kgen.simulator.findings import Findings
from kgen.simulator.mfma import undefined_result
from kgen.simulator.opcode import Opcode
from kgen.simulator.packed import picked_registers
from kgen.simulator.program import Instruction, Operand, OperandKind
from kgen.simulator.report import FindingKind, InstructionClass
from kgen.simulator.waits import scalar_id
from kgen.simulator.wave import Wave

MEMORY = (InstructionClass.GLOBAL, InstructionClass.LDS, InstructionClass.LDS_COPY, InstructionClass.SCRATCH)
SHUFFLES = ("ds_bpermute", "ds_permute", "ds_swizzle")  # through the LDS hardware, not its memory
WIDE_SUMS = ("v_mad_u64_u32", "v_mad_i64_i32", "v_lshl_add_u64", "v_lshlrev_b64")
PAIRS = ("v_pk_add_f32", "v_pk_mul_f32", "v_pk_fma_f32", "v_pk_mov_b32")  # op_sel picks single registers of their pairs

NOWHERE: Mask = np.zeros((1, 1), np.bool_)


def used_registers(instruction: Instruction) -> frozenset[int]:
    """Return all registers that an instruction names, scalar ones by their `scalar_id`."""
    found: set[int] = set()
    for operand in instruction.destinations + instruction.sources:
        if operand.kind is OperandKind.VGPR:
            found.update(operand.registers)
        elif operand.kind is OperandKind.SGPR:
            found.update(scalar_id(register) for register in operand.registers)
    return frozenset(found)


def lanes_undefined(wave: Wave, operand: Operand) -> Mask:
    """Return where an operand is undefined, [w, lane] or [w, 1]."""
    if operand.kind is OperandKind.VGPR:
        return np.asarray(wave.undefined[operand.register : operand.registers.stop].any(axis=0))
    if operand.kind is OperandKind.SGPR:
        return np.asarray(
            wave.undefined_scalars[:, operand.register : operand.registers.stop].any(axis=1, keepdims=True)
        )
    return NOWHERE


def follow(wave: Wave, pc: int, instruction: Instruction, opcode: Opcode, findings: Findings) -> None:
    """Carry undefinedness through one instruction, before it is executed, and find where it matters."""
    if instruction.name in SPECIAL:
        SPECIAL[instruction.name](wave, instruction)
        return
    if opcode.unit is InstructionClass.MFMA:
        (destination,) = instruction.destinations
        mark_vector(wave, destination, undefined_result(instruction, wave.undefined), everywhere=True)
        return
    if opcode.unit in MEMORY and not instruction.name.startswith(SHUFFLES):
        check_memory(wave, pc, instruction, findings)
    elif opcode.unit is InstructionClass.SMEM:
        check_scalar_address(wave, pc, instruction, findings)
    scalar = opcode.unit is InstructionClass.SALU
    bad = sources_undefined(wave, instruction) if scalar or opcode.pure else NOWHERE
    for destination in instruction.destinations:
        if destination.kind is OperandKind.VGPR:
            mark_vector(wave, destination, bad, everywhere=False)
        else:
            mark_scalar(wave, destination, bad if scalar else NOWHERE)


def sources_undefined(wave: Wave, instruction: Instruction) -> Mask:
    """Return where a source of an instruction is undefined."""
    if instruction.name == "v_cndmask_b32":
        return chosen_undefined(wave, instruction)
    reads_destination = instruction.name.startswith("v_fmac")
    bad = NOWHERE
    for operand in instruction.sources + (instruction.destinations if reads_destination else ()):
        bad = bad | lanes_undefined(wave, operand)
    return bad


def follow_exchange(wave: Wave, instruction: Instruction) -> None:
    """Leave it to the step, which moves undefinedness with the values."""
    for operand in instruction.destinations:
        wave.suspect.update(operand.registers)


def follow_pair(wave: Wave, instruction: Instruction) -> None:
    """Carry undefinedness through an instruction whose two results read the registers that op_sel picks."""
    results = []
    for high, operands in enumerate(picked_registers(instruction)):
        bad = NOWHERE
        for operand in operands:
            bad = bad | lanes_undefined(wave, operand)
        results.append((instruction.destinations[0].register + high, bad))
    for register, bad in results:
        mark_vector(wave, Operand(OperandKind.VGPR, register), bad, everywhere=False)


def follow_move(wave: Wave, instruction: Instruction) -> None:
    """Carry undefinedness through a move of two words, each by itself."""
    (destination,), (source, *_) = instruction.destinations, instruction.sources
    is_register = source.kind is not OperandKind.CONSTANT
    words = [replace(source, register=source.register + i * is_register, count=1) for i in range(2)]
    bad = [lanes_undefined(wave, word) for word in words]
    for register, undefined in zip(destination.registers, bad, strict=True):
        mark_vector(wave, Operand(OperandKind.VGPR, register), undefined, everywhere=False)


def follow_wide_sum(wave: Wave, instruction: Instruction) -> None:
    """Carry undefinedness through a 64-bit sum, whose low word depends on no high word."""
    result, *carry = instruction.destinations
    words = [NOWHERE, NOWHERE]
    for operand in instruction.sources:
        words[0] = words[0] | lanes_undefined(wave, replace(operand, count=1))
        words[1] = words[1] | lanes_undefined(wave, operand)
    for register, bad in zip(result.registers, words, strict=True):
        mark_vector(wave, Operand(OperandKind.VGPR, register), bad, everywhere=False)
    for destination in carry:
        mark_scalar(wave, destination, NOWHERE)


def chosen_undefined(wave: Wave, instruction: Instruction) -> Mask:
    """Return where v_cndmask picks an undefined value."""
    first, second, *mask = instruction.sources
    if not mask or mask[0].kind is not OperandKind.SGPR:
        return lanes_undefined(wave, first) | lanes_undefined(wave, second)
    picks = wave.mask(mask[0].register)
    return np.where(picks, lanes_undefined(wave, second), lanes_undefined(wave, first))


def mark_vector(wave: Wave, destination: Operand, bad: Mask, everywhere: bool) -> None:
    """Write where a vector destination becomes undefined; lanes that are not written stay as they are."""
    registers = slice(destination.register, destination.registers.stop)
    if everywhere or wave.full:
        wave.undefined[registers] = bad
    else:
        np.copyto(wave.undefined[registers], bad, where=wave.exec)
    for register in destination.registers:
        if wave.undefined[register].any():
            wave.suspect.add(register)
        else:
            wave.suspect.discard(register)


def mark_scalar(wave: Wave, destination: Operand, bad: Mask) -> None:
    """Write whether a scalar destination becomes undefined."""
    for register in destination.registers:
        wave.undefined_scalars[:, register] = bad[:, 0]
        if bad.any():
            wave.suspect.add(scalar_id(register))
        else:
            wave.suspect.discard(scalar_id(register))


def check_memory(wave: Wave, pc: int, instruction: Instruction, findings: Findings) -> None:
    """Find undefined addresses, and undefined data of stores to global memory."""
    local = instruction.name.startswith(("ds_", "scratch_"))
    stores = "_store_" in instruction.name or "_write" in instruction.name or "atomic" in instruction.name
    data_place = 0 if instruction.name.startswith("buffer") else 1
    for place, operand in enumerate(instruction.sources):
        is_data = place >= 1 if local else stores and place == data_place
        if is_data and local:
            continue  # LDS bytes become undefined instead
        bad = np.broadcast_to(lanes_undefined(wave, operand), wave.exec.shape) & wave.exec
        if bad.any():
            what = "data" if is_data else "an address"
            report(wave, pc, bad, findings, f"{what} from {describe(operand)}")


def check_scalar_address(wave: Wave, pc: int, instruction: Instruction, findings: Findings) -> None:
    """Find undefined addresses of scalar loads."""
    for operand in instruction.sources:
        bad = lanes_undefined(wave, operand)
        if bad.any():
            report(wave, pc, bad, findings, f"an address from {describe(operand)}")


def report(wave: Wave, pc: int, bad: Mask, findings: Findings, what: str) -> None:
    """Note a poison read."""
    row = int(wave.rows[int(np.argmax(bad.any(axis=1)))])
    detail = f"{what}, which was never written or was computed from what never was"
    findings.add(FindingKind.POISON_READ, pc, wave.index, row, int(bad.sum()), lambda: detail)


def describe(operand: Operand) -> str:
    """Return the assembler's name of a register operand."""
    bank = "s" if operand.kind is OperandKind.SGPR else "v" if operand.register < 256 else "a"
    first = operand.register - (256 if bank == "a" else 0)
    return f"{bank}{first}" if operand.count == 1 else f"{bank}[{first}:{first + operand.count - 1}]"


EXCHANGES = ("v_writelane_b32", "v_swap_b32", "v_permlane16_swap_b32", "v_permlane32_swap_b32")
SPECIAL: dict[str, Callable[[Wave, Instruction], None]] = {
    "v_mov_b64": follow_move,
    **dict.fromkeys(PAIRS, follow_pair),
    **dict.fromkeys(WIDE_SUMS, follow_wide_sum),
    **dict.fromkeys(EXCHANGES, follow_exchange),
}
