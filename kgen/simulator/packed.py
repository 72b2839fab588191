"""Packed instructions: two results at once from the low and high halves that op_sel and op_sel_hi pick.

For 16-bit types a half is half of a register; for f32 it is one register of a pair. neg_lo and neg_hi flip the sign of
the operands of the low and the high result.
"""

from collections.abc import Callable

import numpy as np

from kgen.simulator.arrays import Array, Bits
from kgen.simulator.machine import Machine
from kgen.simulator.numbers import Float8, f32_to_fp8, fma, formats, fp8_to_f32
from kgen.simulator.opcode import Opcode, Step, check_modifiers, refuse
from kgen.simulator.program import Instruction, Operand, OperandKind
from kgen.simulator.report import InstructionClass
from kgen.simulator.vector_alu import maximum, minimum
from kgen.simulator.vector_operands import DTYPES, SIGN, Reader, word
from kgen.simulator.wave import Wave

PACKED = ("op_sel", "op_sel_hi", "neg_lo", "neg_hi")


def half(instruction: Instruction, position: int, kind: str, high: bool) -> Reader:
    """Return the reader of one operand of the low or the high result."""
    operand = instruction.sources[position]
    picks = instruction.bits("op_sel_hi" if high else "op_sel", (1, 1, 1) if high else (0, 0, 0))
    signs = instruction.bits("neg_hi" if high else "neg_lo", (0, 0, 0))
    pick = picks[position] if position < len(picks) else 0
    negative = signs[position] if position < len(signs) else 0
    read = register_of_pair(operand, pick) if kind == "f32" else half_of_register(operand, pick, kind)
    if not negative:
        return read
    if kind not in SIGN:
        raise refuse(instruction, "a sign modifier")
    sign, dtype = SIGN[kind], DTYPES[kind]
    return lambda wave: (read(wave).view(sign.dtype) ^ sign).view(dtype)


def register_of_pair(operand: Operand, pick: int) -> Reader:
    """Return the reader of one register of a pair as f32."""
    bits = word(single(operand, pick))
    return lambda wave: bits(wave).view(np.float32)


def picked_registers(instruction: Instruction) -> tuple[list[Operand], list[Operand]]:
    """Return the single registers that the low and the high result of an instruction on pairs read."""
    if instruction.name == "v_pk_mov_b32":
        low, high = instruction.bits("op_sel", (0, 0))[:2]
        first, second = instruction.sources
        return [single(first, low)], [single(second, high)]
    picks = [instruction.bits("op_sel", (0, 0, 0)), instruction.bits("op_sel_hi", (1, 1, 1))]
    low_reads, high_reads = (
        [single(operand, pick[position]) for position, operand in enumerate(instruction.sources)] for pick in picks
    )
    return low_reads, high_reads


def single(operand: Operand, pick: int) -> Operand:
    """Return one register of a pair; a constant and a single scalar are the same for both."""
    if operand.kind is OperandKind.CONSTANT:
        return operand
    return Operand(operand.kind, operand.register + (pick if operand.count > 1 else 0))


def half_of_register(operand: Operand, pick: int, kind: str) -> Reader:
    """Return the reader of one half of a register; an inline constant has its value in the low half, 0 in the high."""
    bits, dtype = word(operand), DTYPES[kind]
    if pick:
        return lambda wave: (bits(wave) >> np.uint32(16)).astype(np.uint16).view(dtype)
    return lambda wave: bits(wave).astype(np.uint16).view(dtype)


def packed(kind: str, count: int, function: Callable[..., Array]) -> Opcode:
    """Return the opcode that computes a low and a high result."""
    dtype = DTYPES[kind]

    def bind(instruction: Instruction, machine: Machine) -> Step:
        check_modifiers(instruction, PACKED)
        if len(instruction.sources) != count or instruction.sdwa or instruction.dpp:
            raise refuse(instruction, "the number of operands")
        low = [half(instruction, position, kind, False) for position in range(count)]
        high = [half(instruction, position, kind, True) for position in range(count)]
        register = instruction.destinations[0].register

        def step(wave: Wave) -> None:
            first = function(*[read(wave) for read in low]).astype(dtype, copy=False)
            second = function(*[read(wave) for read in high]).astype(dtype, copy=False)
            if kind == "f32":
                wave.write(register, first.view(np.uint32))
                wave.write(register + 1, second.view(np.uint32))
            else:
                pair = first.view(np.uint16).astype(np.uint32)
                wave.write(register, pair | second.view(np.uint16).astype(np.uint32) << np.uint32(16))

        return step

    return Opcode(bind, InstructionClass.VALU, pure=True)


def move_pair(instruction: Instruction, machine: Machine) -> Step:
    """v_pk_mov_b32: the low result is op_sel's register of the first pair, the high one op_sel's of the second."""
    check_modifiers(instruction, PACKED)
    picks = instruction.bits("op_sel", (0, 0))
    first = register_of_pair(instruction.sources[0], picks[0])
    second = register_of_pair(instruction.sources[1], picks[1])
    register = instruction.destinations[0].register

    def step(wave: Wave) -> None:
        low, high = first(wave).view(np.uint32).copy(), second(wave).view(np.uint32).copy()
        wave.write(register, low)
        wave.write(register + 1, high)

    return step


# ---- mixed precision: each operand is f32, or a half of a register as f16


def mix_operand(instruction: Instruction, position: int) -> Reader:
    """Return the reader: op_sel_hi says f16, op_sel which half; neg_hi takes the magnitude, neg_lo the negative."""
    operand = instruction.sources[position]
    as_half = instruction.bits("op_sel_hi", (0, 0, 0))[position]
    pick = instruction.bits("op_sel", (0, 0, 0))[position]
    bits = word(operand)
    if as_half and operand.kind is OperandKind.CONSTANT and operand.value > 0xFFFF:
        value: Reader = lambda wave: bits(wave).view(np.float32)  # noqa: E731  a real number, kept in f32
    elif as_half:
        read = half_of_register(operand, pick, "f16")
        value = lambda wave: read(wave).astype(np.float32)  # noqa: E731
    else:
        value = lambda wave: bits(wave).view(np.float32)  # noqa: E731
    magnitude = operand.absolute or instruction.bits("neg_hi", (0, 0, 0))[position]
    negative = operand.negate != bool(instruction.bits("neg_lo", (0, 0, 0))[position])
    if not (magnitude or negative):
        return value
    return lambda wave: (np.abs(value(wave)) if magnitude else value(wave)) * np.float32(-1 if negative else 1)


def mix(place: int | None) -> Opcode:
    """Return v_fma_mix: f32 (place None), or f16 into the low (0) or high (1) half of the destination."""

    def bind(instruction: Instruction, machine: Machine) -> Step:
        check_modifiers(instruction, PACKED)
        readers = [mix_operand(instruction, position) for position in range(3)]
        register = instruction.destinations[0].register

        def step(wave: Wave) -> None:
            result = fma(*[read(wave) for read in readers])
            if place is None:
                wave.write(register, result.view(np.uint32))
                return
            bits = result.astype(np.float16).view(np.uint16).astype(np.uint32)
            wave.write(register, merged(wave.v[register], bits, place))

        return step

    return Opcode(bind, InstructionClass.VALU, pure=True)


def merged(old: Bits, half_bits: Bits, place: int) -> Bits:
    """Return a register with its low (0) or high (1) half replaced."""
    shift = np.uint32(16 * place)
    return old & ~(np.uint32(0xFFFF) << shift) | half_bits << shift


# ---- 8-bit floats


def pack_fp8(which: int) -> Opcode:
    """Return v_cvt_pk_fp8_f32 (0) or v_cvt_pk_bf8_f32 (1): two f32 into the half that op_sel's last bit names."""

    def bind(instruction: Instruction, machine: Machine) -> Step:
        check_modifiers(instruction, ("op_sel",))
        form = formats(machine.program.arch)[which]
        first, second = (register_of_pair(operand, 0) for operand in instruction.sources)
        signs = [operand for operand in instruction.sources if operand.negate or operand.absolute]
        if signs:
            raise refuse(instruction, "a sign modifier")
        register, place = instruction.destinations[0].register, instruction.bits("op_sel", (0,))[-1]

        def step(wave: Wave) -> None:
            low, high = f32_to_fp8(form, first(wave)), f32_to_fp8(form, second(wave))
            bits = low.astype(np.uint32) | high.astype(np.uint32) << np.uint32(8)
            wave.write(register, merged(wave.v[register], bits, place))

        return step

    return Opcode(bind, InstructionClass.VALU, pure=True)


def unpack_fp8(which: int, count: int) -> Opcode:
    """Return v_cvt_f32_fp8 (count 1, SDWA's byte) or v_cvt_pk_f32_fp8 (count 2, SDWA's or op_sel's word), bf8 alike."""

    def bind(instruction: Instruction, machine: Machine) -> Step:
        check_modifiers(instruction, ("op_sel", "src0_sel"))
        form: Float8 = formats(machine.program.arch)[which]
        bits, shift = word(instruction.sources[0]), source_shift(instruction, count)
        register = instruction.destinations[0].register

        def step(wave: Wave) -> None:
            packed_bytes = bits(wave) >> np.uint32(shift)
            for place in range(count):
                value = fp8_to_f32(form, packed_bytes >> np.uint32(8 * place) & np.uint32(0xFF))
                wave.write(register + place, value.view(np.uint32))

        return step

    return Opcode(bind, InstructionClass.VALU, pure=True)


def source_shift(instruction: Instruction, count: int) -> int:
    """Return by how many bits the wanted byte or word of the source is shifted."""
    if "src0_sel" in instruction.modifiers:
        select = instruction.number("src0_sel")
        return 0 if select == 6 else 8 * select if select < 4 else 16 * (select - 4)
    picks = instruction.bits("op_sel", (0, 0))
    return 16 * picks[0] if count == 2 else 8 * (2 * picks[0] + picks[1])


OPCODES: dict[str, Opcode] = {
    "v_pk_add_f32": packed("f32", 2, np.add),
    "v_pk_mul_f32": packed("f32", 2, np.multiply),
    "v_pk_fma_f32": packed("f32", 3, fma),
    "v_pk_add_f16": packed("f16", 2, np.add),
    "v_pk_mul_f16": packed("f16", 2, np.multiply),
    "v_pk_fma_f16": packed("f16", 3, lambda a, b, c: a.astype(np.float64) * b + c),
    "v_pk_max_f16": packed("f16", 2, maximum),
    "v_pk_min_f16": packed("f16", 2, minimum),
    "v_pk_maximum3_f16": packed("f16", 3, lambda a, b, c: np.maximum(np.maximum(a, b), c)),
    "v_pk_minimum3_f16": packed("f16", 3, lambda a, b, c: np.minimum(np.minimum(a, b), c)),
    "v_pk_add_u16": packed("u16", 2, np.add),
    "v_pk_add_i16": packed("i16", 2, np.add),
    "v_pk_sub_u16": packed("u16", 2, np.subtract),
    "v_pk_sub_i16": packed("i16", 2, np.subtract),
    "v_pk_mul_lo_u16": packed("u16", 2, np.multiply),
    "v_pk_mad_u16": packed("u16", 3, lambda a, b, c: a * b + c),
    "v_pk_mad_i16": packed("i16", 3, lambda a, b, c: a * b + c),
    "v_pk_max_u16": packed("u16", 2, np.maximum),
    "v_pk_min_u16": packed("u16", 2, np.minimum),
    "v_pk_max_i16": packed("i16", 2, np.maximum),
    "v_pk_min_i16": packed("i16", 2, np.minimum),
    "v_pk_lshlrev_b16": packed("u16", 2, lambda a, b: b << (a & 15)),
    "v_pk_lshrrev_b16": packed("u16", 2, lambda a, b: b >> (a & 15)),
    "v_pk_ashrrev_i16": packed("i16", 2, lambda a, b: b >> (a & 15)),
    "v_pk_mov_b32": Opcode(move_pair, InstructionClass.VALU, pure=True),
    "v_fma_mix_f32": mix(None),
    "v_fma_mixlo_f16": mix(0),
    "v_fma_mixhi_f16": mix(1),
    "v_cvt_pk_fp8_f32": pack_fp8(0),
    "v_cvt_pk_bf8_f32": pack_fp8(1),
    "v_cvt_f32_fp8": unpack_fp8(0, 1),
    "v_cvt_f32_bf8": unpack_fp8(1, 1),
    "v_cvt_pk_f32_fp8": unpack_fp8(0, 2),
    "v_cvt_pk_f32_bf8": unpack_fp8(1, 2),
}
