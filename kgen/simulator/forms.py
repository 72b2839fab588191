"""Signatures: how the operands of an instruction are read and written, so that a table needs only the arithmetic.

"u32 f32 -> f32" reads two operands as the named types, calls the function with arrays, and writes what it returns.
Types: u32 i32 f32 (a register), u16 i16 f16 (its low half, or the high one where op_sel says so), u64 i64 f64 (a pair),
mask (a scalar pair, one bit a lane), scc (the scalar condition code), and old.T (the destination before the
instruction). Vector operands are [w, lane], scalars among them [w, 1]; scalar instructions work on [w].
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from kgen.simulator.arrays import Array
from kgen.simulator.dpp import LaneShuffle
from kgen.simulator.machine import Machine
from kgen.simulator.opcode import Opcode, Step, check_modifiers, refuse
from kgen.simulator.program import Instruction, Operand, OperandKind
from kgen.simulator.report import InstructionClass
from kgen.simulator.vector_operands import DTYPES, Reader, Writer, vector_readers, vector_writers
from kgen.simulator.wave import Wave

Function = Callable[..., Any]


def split_signature(signature: str) -> tuple[list[str], list[str]]:
    """Return the types of sources and destinations."""
    before, _, after = signature.partition("->")
    return before.split(), after.split()


def vector(signature: str, function: Function, unit: InstructionClass = InstructionClass.VALU) -> Opcode:
    """Return the opcode of a vector instruction that works lane by lane."""
    sources, results = split_signature(signature)

    def bind(instruction: Instruction, machine: Machine) -> Step:
        check_modifiers(instruction, allowed_modifiers(sources, results))
        shuffle = LaneShuffle(instruction) if instruction.dpp else None
        readers = vector_readers(instruction, sources, shuffle)
        return step_of(function, readers, vector_writers(instruction, results, shuffle))

    return Opcode(bind, unit, len(results), pure=True)


def allowed_modifiers(sources: Sequence[str], results: Sequence[str]) -> set[str]:
    """Return the modifiers that the types of an instruction give a meaning to."""
    allowed = {"clamp", "mul", "div"} if results[0] in ("f32", "f16") else set()
    halves = any(t.removeprefix("old.") in ("u16", "i16", "f16") for t in [*sources, *results])
    return allowed | ({"op_sel"} if halves else set())


def step_of(function: Function, readers: Sequence[Reader], writers: Sequence[Writer]) -> Step:
    """Return the step that reads, computes and writes."""
    if len(writers) == 1:
        write = writers[0]
        if len(readers) == 1:
            (only,) = readers
            return lambda wave: write(wave, function(only(wave)))
        if len(readers) == 2:
            first, second = readers
            return lambda wave: write(wave, function(first(wave), second(wave)))
        return lambda wave: write(wave, function(*[read(wave) for read in readers]))

    def step(wave: Wave) -> None:
        results = function(*[read(wave) for read in readers])
        for write, result in zip(writers, results, strict=True):
            write(wave, result)

    return step


def scalar(signature: str, function: Function, unit: InstructionClass = InstructionClass.SALU) -> Opcode:
    """Return the opcode of a scalar instruction."""
    sources, results = split_signature(signature)

    def bind(instruction: Instruction, machine: Machine) -> Step:
        check_modifiers(instruction, ())
        operands = iter(instruction.sources)
        readers = [scalar_reader(instruction, kind, operands) for kind in sources]
        if next(operands, None) is not None:
            raise refuse(instruction, "the number of operands")
        places = iter(instruction.destinations)
        return step_of(function, readers, [scalar_writer(instruction, kind, places) for kind in results])

    return Opcode(bind, unit, sum(kind != "scc" for kind in results))


def scalar_reader(instruction: Instruction, kind: str, operands: Iterator[Operand]) -> Reader:
    """Return the reader of one scalar source."""
    if kind == "scc":
        return lambda wave: wave.scc
    operand = instruction.destinations[0] if kind.startswith("old.") else next(operands, None)
    if operand is None or operand.kind is OperandKind.VGPR or operand.negate or operand.absolute:
        raise refuse(instruction, "an operand")
    register, dtype = operand.register, DTYPES[kind.removeprefix("old.")]
    if operand.kind is not OperandKind.SGPR:
        unsigned = np.dtype(f"uint{8 * dtype.itemsize}")
        constant = np.array([operand.value & (1 << 8 * dtype.itemsize) - 1], unsigned).view(dtype)
        return lambda wave: constant
    if dtype.itemsize == 8:
        return lambda wave: wave.s64[:, register // 2].view(dtype)
    return lambda wave: wave.s[:, register].view(dtype)


def scalar_writer(
    instruction: Instruction,
    kind: str,
    places: Iterator[Operand],
) -> Writer:
    """Return the writer of one scalar result."""
    if kind == "scc":

        def write_scc(wave: Wave, value: Array) -> None:
            wave.scc = np.broadcast_to(value, wave.scc.shape).astype(np.bool_)

        return write_scc
    operand = next(places, None)
    if operand is None or operand.kind is not OperandKind.SGPR:
        raise refuse(instruction, "the destination")
    register, dtype = operand.register, DTYPES[kind]
    if dtype.itemsize == 8:
        return lambda wave, value: wave.write_pair(register, value.astype(dtype, copy=False).view(np.uint64))
    return lambda wave, value: wave.write_scalar(register, value.astype(dtype, copy=False).view(np.uint32))
