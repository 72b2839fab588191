"""Matrix instructions: D = A B + C over the registers of a wave.

For an M x N x K instruction (M = N = 16 or 32) lane l holds row l % M of A and column l % N of B, for the K / (64 / M)
values of k that start at (l // M) * K / (64 / M). D and C have register r of lane l at column l % N and row
4 (l // N) + r % 4 + (256 / N)(r // 4). (CDNA3 and CDNA4 ISA references, "Matrix fused multiply-add".)
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kgen.simulator.arrays import Array, Bits, Mask
from kgen.simulator.machine import Machine
from kgen.simulator.numbers import Float8, bf16_to_f32, formats, fp8_to_f32
from kgen.simulator.opcode import Opcode, Step, check_modifiers, refuse
from kgen.simulator.program import LANES, Instruction, OperandKind
from kgen.simulator.report import InstructionClass
from kgen.simulator.wave import Wave

ELEMENT_BITS = {"f32": 32, "f16": 16, "bf16": 16, "i8": 8, "fp8": 8, "bf8": 8}
NAME = re.compile(r"v_mfma(?:_scale)?_(f32|i32)_(\d+)x(\d+)x(\d+)_?(\w+)")
HALVES, BYTES = ("f16", "bf16"), ("fp8", "bf8")
NAMES = (
    "v_mfma_f32_16x16x4_f32",
    "v_mfma_f32_32x32x2_f32",
    *(f"v_mfma_f32_{shape}_{kind}" for shape in ("16x16x16", "32x32x8", "16x16x32", "32x32x16") for kind in HALVES),
    *(f"v_mfma_i32_{shape}_i8" for shape in ("16x16x32", "32x32x16", "16x16x64", "32x32x32")),
    *(f"v_mfma_f32_{shape}_{a}_{b}" for shape in ("16x16x32", "32x32x16") for a in BYTES for b in BYTES),
    *(f"v_mfma{scale}_f32_{shape}_f8f6f4" for scale in ("", "_scale") for shape in ("16x16x128", "32x32x64")),
)


@dataclass(frozen=True, slots=True)
class Shape:
    """The extents of a matrix instruction; `rows` is M and N."""

    rows: int
    k: int

    @property
    def groups(self) -> int:
        """How many lanes hold parts of the same row."""
        return LANES // self.rows

    @property
    def flops(self) -> int:
        """Multiplications and additions of one instruction."""
        return 2 * self.rows * self.rows * self.k

    def operand_rows(self, elements: Array) -> Array:
        """Return [w, row, k] of a wave's elements [w, lane, k of the lane]."""
        return (
            elements.reshape(-1, self.groups, self.rows, elements.shape[-1])
            .swapaxes(1, 2)
            .reshape(-1, self.rows, self.k)
        )

    def result_registers(self, product: Array) -> Array:
        """Return [register, w, lane] of a result [w, row, column]."""
        blocks = product.reshape(-1, self.rows // (4 * self.groups), self.groups, 4, self.rows)
        return blocks.transpose(1, 3, 0, 2, 4).reshape(-1, len(product), LANES)

    def result_matrix(self, registers: Array) -> Array:
        """Return [w, row, column] of registers [register, w, lane]: the inverse of `result_registers`."""
        blocks = registers.reshape(-1, 4, registers.shape[1], self.groups, self.rows)
        return blocks.transpose(2, 0, 3, 1, 4).reshape(-1, self.rows, self.rows)


def elements(kind: str, arch: str) -> Callable[[Bits], Array]:
    """Return the decoding of registers [register, w, lane] to values [w, lane, element]."""
    fp8, bf8 = formats(arch)

    def narrow(registers: Bits, dtype: type) -> Array:
        return np.ascontiguousarray(registers.transpose(1, 2, 0)).view(dtype)

    decoders: dict[str, Callable[[Bits], Array]] = {
        "f32": lambda registers: narrow(registers, np.float32),
        "f16": lambda registers: narrow(registers, np.float16).astype(np.float32),
        "bf16": lambda registers: bf16_to_f32(narrow(registers, np.uint16)),
        "i8": lambda registers: narrow(registers, np.int8).astype(np.float64),  # exact, and multiplied by BLAS
        "fp8": lambda registers: decode_fp8(fp8, registers),
        "bf8": lambda registers: decode_fp8(bf8, registers),
    }

    def decode_fp8(form: Float8, registers: Bits) -> Array:
        return fp8_to_f32(form, narrow(registers, np.uint8))

    return decoders[kind]


def operand_kinds(instruction: Instruction, suffix: str) -> tuple[str, str]:
    """Return the element types of A and B; f8f6f4 has them in cbsz and blgp (0 fp8, 1 bf8)."""
    if suffix == "f8f6f4":
        codes = instruction.number("cbsz"), instruction.number("blgp")
        if max(codes) > 1:
            raise refuse(instruction, "a 6-bit or 4-bit format")
        return ("fp8", "bf8")[codes[0]], ("fp8", "bf8")[codes[1]]
    first, _, second = suffix.partition("_")
    return first, second or first


def bind_mfma(instruction: Instruction, machine: Machine) -> Step:
    """Return the step of a matrix instruction. EXEC is ignored, as on hardware."""
    match = NAME.fullmatch(instruction.name)
    assert match
    scaled, integer, suffix = "_scale_" in instruction.name, match[1] == "i32", match[5]
    formats_allowed = {"cbsz", "blgp"} if suffix == "f8f6f4" else set()
    check_modifiers(instruction, formats_allowed | ({"op_sel", "op_sel_hi"} if scaled else set()))
    shape = Shape(int(match[2]), int(match[4]))
    arch: str = machine.program.arch
    kinds = operand_kinds(instruction, suffix)
    a, b, c, *scales = instruction.sources
    check_width(instruction, shape, kinds)
    decode_a, decode_b = (elements(kind, arch) for kind in kinds)
    scale_readers = [scale_reader(instruction, position) for position in range(2)] if scales else []
    (destination,) = instruction.destinations

    def step(wave: Wave) -> None:
        left = decode_a(wave.v[a.register : a.register + a.count])
        right = decode_b(wave.v[b.register : b.register + b.count])
        if scale_readers:
            left = left * scale_readers[0](wave)
            right = right * scale_readers[1](wave)
        product = shape.result_registers(shape.operand_rows(left) @ shape.operand_rows(right).swapaxes(1, 2))
        if c.kind is OperandKind.CONSTANT:
            start: Bits | np.uint32 = np.uint32(c.value & 0xFFFFFFFF)
        else:
            start = wave.v[c.register : c.register + c.count]
        if integer:
            total = product.astype(np.int64).astype(np.uint32) + start
        else:
            total = (product + start.view(np.float32)).view(np.uint32)
        wave.v[destination.register : destination.register + destination.count] = total

    return step


def check_width(instruction: Instruction, shape: Shape, kinds: tuple[str, str]) -> None:
    """Refuse operands whose registers do not hold the elements of the shape."""
    for operand, kind in zip(instruction.sources, kinds, strict=False):
        needed = shape.k // shape.groups * ELEMENT_BITS[kind] // 32
        if operand.kind is not OperandKind.VGPR or operand.count != needed:
            raise refuse(instruction, f"an operand of {operand.count} registers where {needed} are needed")


def scale_reader(instruction: Instruction, position: int) -> Callable[[Wave], Array]:
    """Return the reader of a lane's scale 2**(byte - 127): op_sel and op_sel_hi number the byte of the register."""
    operand = instruction.sources[3 + position]
    low = instruction.bits("op_sel", (0, 0, 0))[position]
    high = instruction.bits("op_sel_hi", (1, 1, 1))[position]
    shift = np.uint32(8 * (low + 2 * high))
    if operand.kind is OperandKind.CONSTANT:
        constant = 2.0 ** (float(operand.value >> int(shift) & 0xFF) - 127)
        return lambda wave: np.full((1, 1, 1), constant, np.float32)
    if operand.kind is not OperandKind.VGPR:
        raise refuse(instruction, "a scalar scale")

    def read(wave: Wave) -> Array:
        byte = wave.v[operand.register] >> shift & np.uint32(0xFF)
        scale = np.ldexp(np.float32(1), byte.astype(np.int32) - 127)
        return np.where(byte == 255, np.float32(np.nan), scale)[..., None]

    return read


def undefined_result(instruction: Instruction, undefined: Mask) -> Mask:
    """Return which results depend on undefined operands: rows of A, columns of B, elements of C."""
    match = NAME.fullmatch(instruction.name)
    assert match
    shape = Shape(int(match[2]), int(match[4]))
    a, b, c = instruction.sources[:3]
    rows, columns = (
        np.asarray(undefined[o.register : o.register + o.count].any(0)).reshape(-1, shape.groups, shape.rows).any(1)
        for o in (a, b)
    )
    bad = shape.result_registers(np.asarray(rows)[:, :, None] | np.asarray(columns)[:, None, :])
    if c.kind is OperandKind.VGPR:
        bad = bad | undefined[c.register : c.register + c.count]
    return bad


def flops(instruction: Instruction) -> int:
    """Return the operations of one matrix instruction, 0 for any other one."""
    match = NAME.fullmatch(instruction.name)
    return Shape(int(match[2]), int(match[4])).flops if match else 0


OPCODES: dict[str, Opcode] = {name: Opcode(bind_mfma, InstructionClass.MFMA) for name in NAMES}
