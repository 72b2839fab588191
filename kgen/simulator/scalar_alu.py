"""The scalar instructions: one line each. Arrays are [w], one entry a workgroup."""

from collections.abc import Callable

import numpy as np

from kgen.simulator.arrays import Array, choose, leading_zeros, lowest_bit, popcount, reverse_bits
from kgen.simulator.forms import Function, scalar
from kgen.simulator.machine import Machine
from kgen.simulator.opcode import Opcode, Step, check_modifiers
from kgen.simulator.program import EXEC, Instruction, OperandKind
from kgen.simulator.report import InstructionClass
from kgen.simulator.wave import Wave

U64 = np.uint64


def set_if_nonzero(function: Function) -> Function:
    """Return the function with a condition code that says whether the result is not zero."""

    def with_scc(*values: Array) -> tuple[Array, Array]:
        result = function(*values)
        assert isinstance(result, np.ndarray)
        return result, result != 0

    return with_scc


def wide(value: Array) -> Array:
    """Return 32-bit unsigned values in 64 bits."""
    return value.astype(U64)


def carry(function: Callable[..., Array]) -> Function:
    """Return (low 32 bits, whether there are bits above) of a sum in 64 bits; a borrow sets the bits above too."""

    def split(*values: Array) -> tuple[Array, Array]:
        total = function(*[wide(v) for v in values])
        return total.astype(np.uint32), (total >> U64(32)) != 0

    return split


def overflow(function: Callable[..., Array]) -> Function:
    """Return (low 32 bits, whether the signed result does not fit) of signed arithmetic in 64 bits."""

    def split(*values: Array) -> tuple[Array, Array]:
        exact = function(*[v.astype(np.int64) for v in values])
        return exact.astype(np.int32), exact != exact.astype(np.int32)

    return split


def pick(function: Callable[[Array, Array], Array]) -> Function:
    """Return (the chosen operand, whether it is the first), as minima and maxima set the condition code."""
    return lambda a, b: (choose(function(a, b), a, b), function(a, b))


def high_product(a: Array, b: Array) -> Array:
    """Return the upper 32 bits of a 64-bit product of values widened by the caller."""
    return np.asarray((a * b) >> a.dtype.type(32))


def field(a: Array, b: Array) -> Array:
    """Return the bits of `a` that `b` describes: offset in bits 0..4, width in 16..22; zero- or sign-extended."""
    offset, width = (b & 31).astype(np.int64), (b >> 16 & 127).astype(np.int64)
    width = np.minimum(width, 32)
    value = a.astype(np.int64) >> offset
    kept = value & (np.left_shift(np.int64(1), width) - 1)
    if a.dtype == np.int32:
        sign = np.where(width > 0, kept >> np.maximum(width - 1, 0) & 1, 0)
        kept = kept - (sign << width)
    return np.asarray(kept, a.dtype)


def wide_field(a: Array, b: Array) -> Array:
    """Return the same of 64 bits: offset in bits 0..5."""
    offset, width = (b & 63).astype(a.dtype), np.minimum(b >> 16 & 127, 64)
    above = np.asarray((64 - width) & 63, a.dtype)  # shifted out at the top, they come back as zeros or signs
    return np.asarray(np.where(width > 0, a >> offset << above >> above, 0), a.dtype)


def sign_extend_16(a: Array) -> Array:
    return a.astype(np.int16).astype(np.int32)


BITWISE: dict[str, Callable[..., Array]] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "andn2": lambda a, b: a & ~b,
    "orn2": lambda a, b: a | ~b,
    "nand": lambda a, b: ~(a & b),
    "nor": lambda a, b: ~(a | b),
    "xnor": lambda a, b: ~(a ^ b),
}
COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "lg": np.not_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lt": np.less,
    "le": np.less_equal,
}


def arithmetic() -> dict[str, Opcode]:
    """Return moves, sums, products and choices."""
    table: dict[str, tuple[str, Function]] = {
        "s_mov_b32": ("u32 -> u32", lambda a: a),
        "s_mov_b64": ("u64 -> u64", lambda a: a),
        "s_movk_i32": ("i32 -> i32", sign_extend_16),
        "s_cmov_b32": ("u32 old.u32 scc -> u32", lambda a, old, scc: np.where(scc, a, old)),
        "s_cmov_b64": ("u64 old.u64 scc -> u64", lambda a, old, scc: np.where(scc, a, old)),
        "s_cselect_b32": ("u32 u32 scc -> u32", lambda a, b, scc: np.where(scc, a, b)),
        "s_cselect_b64": ("u64 u64 scc -> u64", lambda a, b, scc: np.where(scc, a, b)),
        "s_add_u32": ("u32 u32 -> u32 scc", carry(lambda a, b: a + b)),
        "s_addc_u32": ("u32 u32 scc -> u32 scc", carry(lambda a, b, c: a + b + c)),
        "s_sub_u32": ("u32 u32 -> u32 scc", carry(lambda a, b: a - b)),
        "s_subb_u32": ("u32 u32 scc -> u32 scc", carry(lambda a, b, c: a - b - c)),
        "s_add_i32": ("i32 i32 -> i32 scc", overflow(lambda a, b: a + b)),
        "s_sub_i32": ("i32 i32 -> i32 scc", overflow(lambda a, b: a - b)),
        "s_addk_i32": ("old.i32 i32 -> i32 scc", overflow(lambda old, a: old + sign_extend_16(a))),
        "s_mulk_i32": ("old.i32 i32 -> i32", lambda old, a: old * sign_extend_16(a)),
        "s_mul_i32": ("u32 u32 -> u32", lambda a, b: a * b),
        "s_mul_hi_u32": ("u32 u32 -> u32", lambda a, b: high_product(wide(a), wide(b))),
        "s_mul_hi_i32": ("i32 i32 -> i32", lambda a, b: high_product(a.astype(np.int64), b.astype(np.int64))),
        "s_min_i32": ("i32 i32 -> i32 scc", pick(np.less)),
        "s_max_i32": ("i32 i32 -> i32 scc", pick(np.greater)),
        "s_min_u32": ("u32 u32 -> u32 scc", pick(np.less)),
        "s_max_u32": ("u32 u32 -> u32 scc", pick(np.greater)),
        "s_abs_i32": ("i32 -> i32 scc", set_if_nonzero(np.abs)),
        "s_absdiff_i32": ("i32 i32 -> i32 scc", set_if_nonzero(lambda a, b: np.abs(a - b))),
    }
    for shift in range(1, 5):
        add = carry(lambda a, b, shift=shift: (a << U64(shift)) + b)
        table[f"s_lshl{shift}_add_u32"] = ("u32 u32 -> u32 scc", add)
    return {name: scalar(signature, function) for name, (signature, function) in table.items()}


def bits() -> dict[str, Opcode]:
    """Return shifts, fields, counts and bitwise operations."""
    table: dict[str, tuple[str, Function]] = {
        "s_not_b32": ("u32 -> u32 scc", set_if_nonzero(np.invert)),
        "s_not_b64": ("u64 -> u64 scc", set_if_nonzero(np.invert)),
        "s_lshl_b32": ("u32 u32 -> u32 scc", set_if_nonzero(lambda a, b: a << (b & 31))),
        "s_lshr_b32": ("u32 u32 -> u32 scc", set_if_nonzero(lambda a, b: a >> (b & 31))),
        "s_ashr_i32": ("i32 i32 -> i32 scc", set_if_nonzero(lambda a, b: a >> (b & 31))),
        "s_lshl_b64": ("u64 u32 -> u64 scc", set_if_nonzero(lambda a, b: a << wide(b & 63))),
        "s_lshr_b64": ("u64 u32 -> u64 scc", set_if_nonzero(lambda a, b: a >> wide(b & 63))),
        "s_ashr_i64": ("i64 u32 -> i64 scc", set_if_nonzero(lambda a, b: a >> (b & 63).astype(np.int64))),
        "s_bfm_b32": ("u32 u32 -> u32", lambda a, b: ((np.uint32(1) << (a & 31)) - np.uint32(1)) << (b & 31)),
        "s_bfe_u32": ("u32 u32 -> u32 scc", set_if_nonzero(field)),
        "s_bfe_i32": ("i32 u32 -> i32 scc", set_if_nonzero(field)),
        "s_bfe_u64": ("u64 u32 -> u64 scc", set_if_nonzero(wide_field)),
        "s_bfe_i64": ("i64 u32 -> i64 scc", set_if_nonzero(wide_field)),
        "s_sext_i32_i8": ("i32 -> i32", lambda a: a.astype(np.int8).astype(np.int32)),
        "s_sext_i32_i16": ("i32 -> i32", sign_extend_16),
        "s_brev_b32": ("u32 -> u32", reverse_bits),
        "s_brev_b64": ("u64 -> u64", reverse_bits),
        "s_ff1_i32_b32": ("u32 -> u32", lowest_bit),
        "s_ff1_i32_b64": ("u64 -> u32", lowest_bit),
        "s_flbit_i32_b32": ("u32 -> u32", leading_zeros),
        "s_bcnt1_i32_b32": ("u32 -> u32 scc", set_if_nonzero(popcount)),
        "s_bcnt1_i32_b64": ("u64 -> u32 scc", set_if_nonzero(popcount)),
        "s_bfm_b64": ("u32 u32 -> u64", lambda a, b: ((U64(1) << wide(a & 63)) - U64(1)) << wide(b & 63)),
        "s_bitcmp0_b64": ("u64 u32 -> scc", lambda a, b: (a >> wide(b & 63) & U64(1)) == 0),
        "s_bitcmp1_b64": ("u64 u32 -> scc", lambda a, b: (a >> wide(b & 63) & U64(1)) == 1),
        "s_bitset0_b32": ("u32 old.u32 -> u32", lambda a, old: old & ~(np.uint32(1) << (a & 31))),
        "s_bitset1_b32": ("u32 old.u32 -> u32", lambda a, old: old | np.uint32(1) << (a & 31)),
        "s_pack_ll_b32_b16": ("u32 u32 -> u32", lambda a, b: a & 0xFFFF | b << 16),
        "s_pack_lh_b32_b16": ("u32 u32 -> u32", lambda a, b: a & 0xFFFF | b & 0xFFFF0000),
        "s_pack_hh_b32_b16": ("u32 u32 -> u32", lambda a, b: a >> 16 | b & 0xFFFF0000),
        "s_bitcmp0_b32": ("u32 u32 -> scc", lambda a, b: (a >> (b & 31) & 1) == 0),
        "s_bitcmp1_b32": ("u32 u32 -> scc", lambda a, b: (a >> (b & 31) & 1) == 1),
    }
    for name, function in BITWISE.items():
        table[f"s_{name}_b32"] = ("u32 u32 -> u32 scc", set_if_nonzero(function))
        table[f"s_{name}_b64"] = ("u64 u64 -> u64 scc", set_if_nonzero(function))
    return {name: scalar(signature, function) for name, (signature, function) in table.items()}


def extended(dtype: type, compare: Callable[[Array, Array], Array]) -> Function:
    """Return a comparison with a 16-bit constant, sign- or zero-extended as the type says."""
    narrow = np.int16 if dtype is np.int32 else np.uint16
    return lambda a, b: compare(a, b.astype(narrow).astype(dtype))


def compares() -> dict[str, Opcode]:
    """Return the comparisons, which set the condition code."""
    table: dict[str, Opcode] = {}
    for name, compare in COMPARE.items():
        table[f"s_cmp_{name}_u32"] = scalar("u32 u32 -> scc", compare)
        table[f"s_cmp_{name}_i32"] = scalar("i32 i32 -> scc", compare)
        table[f"s_cmpk_{name}_u32"] = scalar("u32 u32 -> scc", extended(np.uint32, compare))
        table[f"s_cmpk_{name}_i32"] = scalar("i32 i32 -> scc", extended(np.int32, compare))
    table["s_cmp_eq_u64"] = scalar("u64 u64 -> scc", np.equal)
    table["s_cmp_lg_u64"] = scalar("u64 u64 -> scc", np.not_equal)
    return table


def save_exec(function: Callable[[Array, Array], Array]) -> Opcode:
    """Return s_<op>_saveexec_b64: the destination gets EXEC, EXEC gets op(source, EXEC)."""

    def bind(instruction: Instruction, machine: Machine) -> Step:
        check_modifiers(instruction, ())
        (destination,), (source,) = instruction.destinations, instruction.sources

        def step(wave: Wave) -> None:
            old = wave.s64[:, EXEC // 2].copy()
            scalar = source.kind is OperandKind.SGPR
            given = wave.s64[:, source.register // 2] if scalar else np.full_like(old, source.value)
            new = function(given, old)
            wave.write_pair(destination.register, old)
            wave.write_pair(EXEC, new)
            wave.scc = new != 0

        return step

    return Opcode(bind, InstructionClass.SALU)


def save_execs() -> dict[str, Opcode]:
    """Return the instructions that save and restrict EXEC."""
    operations = {**BITWISE, "andn1": lambda a, b: ~a & b, "orn1": lambda a, b: ~a | b}
    return {f"s_{name}_saveexec_b64": save_exec(function) for name, function in operations.items()}


OPCODES: dict[str, Opcode] = arithmetic() | bits() | compares() | save_execs()
