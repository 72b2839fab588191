"""The operands of vector instructions as arrays [w, lane] of a type: how they are read, modified, and written."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kgen.simulator.arrays import Array, Bits
from kgen.simulator.dpp import LaneShuffle
from kgen.simulator.opcode import refuse
from kgen.simulator.program import VCC, Instruction, Operand, OperandKind
from kgen.simulator.sdwa import DWORD, part_of, placed
from kgen.simulator.wave import Wave

Reader = Callable[[Wave], Array]
Writer = Callable[[Wave, Array], None]
DTYPES: dict[str, "np.dtype[Any]"] = {
    name: np.dtype(full)
    for name, full in {
        "u16": "uint16",
        "i16": "int16",
        "f16": "float16",
        "u32": "uint32",
        "i32": "int32",
        "f32": "float32",
        "u64": "uint64",
        "i64": "int64",
        "f64": "float64",
    }.items()
}
SIGN: dict[str, Any] = {"f16": np.uint16(0x8000), "f32": np.uint32(0x80000000), "f64": np.uint64(1 << 63)}


def vector_readers(instruction: Instruction, types: Sequence[str], shuffle: LaneShuffle | None) -> list[Reader]:
    """Return one reader for each source type; old.T reads the destination and takes no operand."""
    operands = iter(enumerate(instruction.sources))
    readers: list[Reader] = []
    for kind in types:
        if kind.startswith("old."):
            readers.append(typed(instruction, instruction.destinations[0], 3, kind[4:], None))
            continue
        position, operand = next(operands, (0, None))
        if operand is None and kind == "mask":  # v_cndmask_b32_e32 and carries name no mask where it is VCC
            operand = Operand(OperandKind.SGPR, VCC, 2)
        if operand is None:
            raise refuse(instruction, "the number of operands")
        readers.append(typed(instruction, operand, position, kind, shuffle if position == 0 else None))
    if next(operands, None) is not None:
        raise refuse(instruction, "the number of operands")
    return readers


def typed(instruction: Instruction, operand: Operand, position: int, kind: str, shuffle: LaneShuffle | None) -> Reader:
    """Return the reader of one vector operand as a type."""
    if kind == "mask":
        return mask_reader(operand)
    dtype = DTYPES[kind]
    if dtype.itemsize == 8:
        wide = pair(operand)
        return signed_reader(operand, kind, lambda wave: wide(wave).view(dtype))
    bits = word(operand)
    if shuffle is not None:
        direct, lanes = bits, shuffle
        bits = lambda wave: lanes.moved(wave, direct(wave))  # noqa: E731
    if instruction.sdwa and position < 2:
        bits = sdwa_reader(instruction, operand, position, bits)
    elif operand.sign_extend:
        raise refuse(instruction, "sext()")
    if dtype.itemsize == 2:
        half = half_reader(bits, operand, high_half(instruction, position))
        return signed_reader(operand, kind, lambda wave: half(wave).view(dtype))
    if kind == "u32":
        return refuse_sign(instruction, operand, bits)
    return signed_reader(operand, kind, lambda wave: bits(wave).view(dtype))


def word(operand: Operand) -> Callable[[Wave], Bits]:
    """Return the reader of 32 bits."""
    register = operand.register
    match operand.kind:
        case OperandKind.VGPR:
            return lambda wave: wave.v[register]
        case OperandKind.SGPR:
            return lambda wave: wave.s[:, register, None]
        case _:
            constant = np.array([[operand.value & 0xFFFFFFFF]], np.uint32)
            return lambda wave: constant


def pair(operand: Operand) -> Callable[[Wave], Array]:
    """Return the reader of 64 bits."""
    register = operand.register
    match operand.kind:
        case OperandKind.VGPR:
            return lambda wave: (
                wave.v[register].astype(np.uint64) | wave.v[register + 1].astype(np.uint64) << np.uint64(32)
            )
        case OperandKind.SGPR:
            return lambda wave: wave.s64[:, register // 2, None]
        case _:
            constant = np.array([[operand.value]], np.uint64)
            return lambda wave: constant


def mask_reader(operand: Operand) -> Reader:
    """Return the reader of a scalar pair as a lane mask."""
    register = operand.register
    if operand.kind is OperandKind.SGPR:
        return lambda wave: wave.mask(register)
    constant = np.unpackbits(np.array([operand.value], np.uint64).view(np.uint8), bitorder="little").view(np.bool_)[
        None
    ]
    return lambda wave: constant


def sdwa_reader(
    instruction: Instruction, operand: Operand, position: int, bits: Callable[[Wave], Bits]
) -> Callable[[Wave], Bits]:
    """Return the reader of the selected byte or half."""
    select = instruction.number(f"src{position}_sel", DWORD)
    return lambda wave: part_of(np.ascontiguousarray(bits(wave)), select, operand.sign_extend)


def half_reader(bits: Callable[[Wave], Bits], operand: Operand, high: bool) -> Callable[[Wave], Array]:
    """Return the reader of the low or high 16 bits."""
    if high and operand.kind is not OperandKind.CONSTANT:
        return lambda wave: (bits(wave) >> np.uint32(16)).astype(np.uint16)
    return lambda wave: bits(wave).astype(np.uint16)


def high_half(instruction: Instruction, position: int) -> bool:
    """Return whether op_sel picks the high half of source `position`, or of the destination (position 3)."""
    picks = instruction.bits("op_sel", ())
    place = len(picks) - 1 if position == 3 else position
    return bool(picks[place]) if 0 <= place < len(picks) else False


def signed_reader(operand: Operand, kind: str, read: Reader) -> Reader:
    """Return a reader with the operand's |x| and -x applied to a floating-point type."""
    if not (operand.negate or operand.absolute):
        return read
    dtype, sign = DTYPES[kind], SIGN.get(kind)
    unsigned = np.dtype(f"uint{8 * dtype.itemsize}")
    keep = ~sign if sign is not None and operand.absolute else None

    def modified(wave: Wave) -> Array:
        bits = read(wave).view(unsigned)
        bits = bits if keep is None else bits & keep
        return (bits ^ sign if operand.negate else bits).view(dtype)

    return modified


def refuse_sign(instruction: Instruction, operand: Operand, read: Reader) -> Reader:
    """Return a reader of integers, which have no sign modifiers."""
    if operand.negate or operand.absolute:
        raise refuse(instruction, "a sign modifier")
    return read


def vector_writers(instruction: Instruction, types: Sequence[str], shuffle: LaneShuffle | None) -> list[Writer]:
    """Return one writer for each destination."""
    if len(types) != len(instruction.destinations):
        raise refuse(instruction, "the number of operands")
    return [
        vector_writer(instruction, operand, kind, shuffle)
        for operand, kind in zip(instruction.destinations, types, strict=True)
    ]


def vector_writer(instruction: Instruction, operand: Operand, kind: str, shuffle: LaneShuffle | None) -> Writer:
    """Return the writer of one destination."""
    register = operand.register
    if kind == "mask":
        return lambda wave, value: wave.write_mask(register, value)
    if operand.kind is not OperandKind.VGPR:
        raise refuse(instruction, "a scalar destination")
    finish = output_modifier(instruction, kind)
    if DTYPES[kind].itemsize == 8:
        return wide_writer(register, DTYPES[kind])
    to_bits = bits_writer(kind)
    if shuffle is None and not instruction.sdwa and not high_half(instruction, 3):
        if finish is None:
            return lambda wave, value: wave.write(register, to_bits(value))
        return lambda wave, value: wave.write(register, to_bits(finish(value)))

    def write(wave: Wave, value: Array) -> None:
        bits = to_bits(finish(value) if finish else value)
        old = wave.v[register]
        if instruction.sdwa:
            bits = placed(instruction, old, bits)
        elif DTYPES[kind].itemsize == 2 and high_half(instruction, 3):
            bits = old & np.uint32(0xFFFF) | bits << np.uint32(16)
        np.copyto(old, bits, where=shuffle.written(wave) if shuffle else wave.exec)

    return write


def bits_writer(kind: str) -> Callable[[Array], Bits]:
    """Return the conversion of a result to the 32 bits of a register; 16-bit results clear the upper half."""
    dtype = DTYPES[kind]
    if dtype.itemsize == 2:
        return lambda value: value.astype(dtype, copy=False).view(np.uint16).astype(np.uint32)
    return lambda value: value.astype(dtype, copy=False).view(np.uint32)


def wide_writer(register: int, dtype: "np.dtype[np.generic]") -> Writer:
    """Return the writer of a register pair."""

    def write(wave: Wave, value: Array) -> None:
        bits = value.astype(dtype, copy=False).view(np.uint64)
        wave.write(register, bits.astype(np.uint32))
        wave.write(register + 1, (bits >> np.uint64(32)).astype(np.uint32))

    return write


def output_modifier(instruction: Instruction, kind: str) -> Callable[[Array], Array] | None:
    """Return what clamp, mul and div do to a floating-point result; clamp makes zero of NaN (DX10_CLAMP)."""
    factor = instruction.number("mul", 1) / instruction.number("div", 1)
    clamp = instruction.flag("clamp")
    if factor == 1 and not clamp:
        return None
    dtype = DTYPES[kind].type

    def finish(value: Array) -> Array:
        value = value * dtype(factor) if factor != 1 else value
        return np.where(np.isnan(value), dtype(0), np.clip(value, dtype(0), dtype(1))) if clamp else value

    return finish
