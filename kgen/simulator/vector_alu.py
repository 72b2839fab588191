"""The vector instructions that work lane by lane, one line each. Arrays are [w, lane]."""

from collections.abc import Callable

import numpy as np

from kgen.simulator.arrays import Array, Bits, leading_zeros, lowest_bit, popcount, reverse_bits
from kgen.simulator.forms import Function, vector
from kgen.simulator.numbers import fma
from kgen.simulator.opcode import Opcode
from kgen.simulator.program import LANES

U64, U32 = np.uint64, np.uint32
LANE = np.arange(LANES, dtype=np.uint32)
BELOW_LOW = np.where(LANE < 32, (U64(1) << LANE.astype(U64)) - U64(1), 0xFFFFFFFF).astype(np.uint32)
BELOW_HIGH = np.where(LANE < 32, 0, (U64(1) << (LANE - U32(32)).astype(U64) % U64(32)) - U64(1)).astype(np.uint32)
TWO_PI = np.float32(6.283185307179586)


def low_24(a: Bits) -> Bits:
    return a & U32(0xFFFFFF)


def signed_24(a: Array) -> Array:
    return (a << 8) >> 8


def wide(a: Array) -> Array:
    """Return 32-bit values in 64 bits of the same signedness."""
    return a.astype(np.int64 if a.dtype == np.int32 else U64)


def minimum(a: Array, b: Array) -> Array:
    """IEEE minNum: a NaN gives the other operand, and -0 is below +0."""
    smaller = np.where(a == b, np.where(np.signbit(a), a, b), np.fmin(a, b))
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, smaller))


def maximum(a: Array, b: Array) -> Array:
    """IEEE maxNum: a NaN gives the other operand, and +0 is above -0."""
    larger = np.where(a == b, np.where(np.signbit(a), b, a), np.fmax(a, b))
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, larger))


def middle(a: Array, b: Array, c: Array) -> Array:
    """Return the middle one of three; with a NaN, the minimum of the three."""
    ordered = maximum(minimum(a, b), minimum(maximum(a, b), c))
    any_nan = np.isnan(a) | np.isnan(b) | np.isnan(c)
    return np.where(any_nan, minimum(minimum(a, b), c), ordered)


def largest(a: Array, b: Array, c: Array) -> Array:
    return np.maximum(np.maximum(a, b), c)


def smallest(a: Array, b: Array, c: Array) -> Array:
    return np.minimum(np.minimum(a, b), c)


def integer_middle(a: Array, b: Array, c: Array) -> Array:
    return np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c))


def extract(a: Array, offset: Array, width: Array) -> Array:
    """Return `width` bits of `a` from `offset`, zero- or sign-extended as the type of `a` says; no bits give zero."""
    width, offset = width & 31, offset & 31
    value = a.astype(np.int64) >> offset.astype(np.int64)
    kept = value & ((np.int64(1) << width.astype(np.int64)) - 1)
    if a.dtype == np.int32:
        sign = kept >> np.maximum(width.astype(np.int64) - 1, 0) & 1
        kept = np.where(width > 0, kept - (sign << width.astype(np.int64)), 0)
    return kept.astype(a.dtype)


def permute_bytes(a: Bits, b: Bits, select: Bits) -> Bits:
    """v_perm_b32: each selector byte picks a byte of a:b (0..7), a repeated sign (8..11), 0x00 (12) or 0xff (13...)."""
    both = wide(a) << U64(32) | wide(b)
    result = np.zeros(np.broadcast_shapes(a.shape, b.shape, select.shape), np.uint32)
    for place in range(4):
        pick = (select >> U32(8 * place) & U32(0xFF)).astype(U64)
        byte = both >> U64(8) * np.minimum(pick, U64(7)) & U64(0xFF)
        sign = (both >> (U64(16) * (pick & U64(3)) + U64(15)) & U64(1)) * U64(0xFF)
        chosen = np.where(pick < 8, byte, np.where(pick < 12, sign, np.where(pick == 12, U64(0), U64(0xFF))))
        result |= chosen.astype(np.uint32) << U32(8 * place)
    return result


def add_carry(a: Bits, b: Bits, carry: Array | None = None) -> tuple[Bits, Array]:
    """Return the sum and where it carries."""
    total = wide(a) + wide(b) + (U64(0) if carry is None else carry.astype(U64))
    return total.astype(np.uint32), total >> U64(32) != 0


def subtract_borrow(a: Bits, b: Bits, borrow: Array | None = None) -> tuple[Bits, Array]:
    """Return the difference and where it borrows."""
    taken = wide(b) + (U64(0) if borrow is None else borrow.astype(U64))
    return (wide(a) - taken).astype(np.uint32), wide(a) < taken


def multiply_add_64(a: Bits, b: Bits, c: Array) -> tuple[Array, Array]:
    """Return a * b + c in 64 bits and where it carries out of them."""
    product = wide(a) * wide(b)
    total = product + c
    return total, total < c


MOVES: dict[str, tuple[str, Function]] = {
    "v_mov_b32": ("u32 -> u32", lambda a: a),
    "v_mov_b64": ("u64 -> u64", lambda a: a),
    "v_accvgpr_read_b32": ("u32 -> u32", lambda a: a),
    "v_accvgpr_write_b32": ("u32 -> u32", lambda a: a),
    "v_accvgpr_mov_b32": ("u32 -> u32", lambda a: a),
    "v_cndmask_b32": ("f32 f32 mask -> f32", lambda a, b, m: np.where(m, b, a)),
}
BITS: dict[str, tuple[str, Function]] = {
    "v_not_b32": ("u32 -> u32", np.invert),
    "v_and_b32": ("u32 u32 -> u32", np.bitwise_and),
    "v_or_b32": ("u32 u32 -> u32", np.bitwise_or),
    "v_xor_b32": ("u32 u32 -> u32", np.bitwise_xor),
    "v_xnor_b32": ("u32 u32 -> u32", lambda a, b: ~(a ^ b)),
    "v_and_or_b32": ("u32 u32 u32 -> u32", lambda a, b, c: a & b | c),
    "v_or3_b32": ("u32 u32 u32 -> u32", lambda a, b, c: a | b | c),
    "v_bfi_b32": ("u32 u32 u32 -> u32", lambda a, b, c: a & b | ~a & c),
    "v_bfrev_b32": ("u32 -> u32", reverse_bits),
    "v_ffbl_b32": ("u32 -> u32", lowest_bit),
    "v_ffbh_u32": ("u32 -> u32", leading_zeros),
    "v_bcnt_u32_b32": ("u32 u32 -> u32", lambda a, b: popcount(a) + b),
    "v_mbcnt_lo_u32_b32": ("u32 u32 -> u32", lambda a, b: popcount(a & BELOW_LOW) + b),
    "v_mbcnt_hi_u32_b32": ("u32 u32 -> u32", lambda a, b: popcount(a & BELOW_HIGH) + b),
    "v_lshlrev_b32": ("u32 u32 -> u32", lambda a, b: b << (a & 31)),
    "v_lshrrev_b32": ("u32 u32 -> u32", lambda a, b: b >> (a & 31)),
    "v_ashrrev_i32": ("i32 i32 -> i32", lambda a, b: b >> (a & 31)),
    "v_lshlrev_b64": ("u32 u64 -> u64", lambda a, b: b << wide(a & 63)),
    "v_lshrrev_b64": ("u32 u64 -> u64", lambda a, b: b >> wide(a & 63)),
    "v_ashrrev_i64": ("i32 i64 -> i64", lambda a, b: b >> wide(a & 63)),
    "v_lshlrev_b16": ("u16 u16 -> u16", lambda a, b: b << (a & 15)),
    "v_lshrrev_b16": ("u16 u16 -> u16", lambda a, b: b >> (a & 15)),
    "v_ashrrev_i16": ("i16 i16 -> i16", lambda a, b: b >> (a & 15)),
    "v_lshl_or_b32": ("u32 u32 u32 -> u32", lambda a, b, c: a << (b & 31) | c),
    "v_bfm_b32": ("u32 u32 -> u32", lambda a, b: ((U32(1) << (a & 31)) - U32(1)) << (b & 31)),
    "v_bfe_u32": ("u32 u32 u32 -> u32", extract),
    "v_bfe_i32": ("i32 u32 u32 -> i32", extract),
    "v_alignbit_b32": ("u32 u32 u32 -> u32", lambda a, b, c: (wide(a) << U64(32) | wide(b)) >> wide(c & 31)),
    "v_alignbyte_b32": ("u32 u32 u32 -> u32", lambda a, b, c: (wide(a) << U64(32) | wide(b)) >> wide(8 * (c & 3))),
    "v_perm_b32": ("u32 u32 u32 -> u32", permute_bytes),
}
INTEGERS: dict[str, tuple[str, Function]] = {
    "v_add_u32": ("u32 u32 -> u32", np.add),
    "v_sub_u32": ("u32 u32 -> u32", np.subtract),
    "v_subrev_u32": ("u32 u32 -> u32", lambda a, b: b - a),
    "v_add3_u32": ("u32 u32 u32 -> u32", lambda a, b, c: a + b + c),
    "v_sad_u32": ("u32 u32 u32 -> u32", lambda a, b, c: np.maximum(a, b) - np.minimum(a, b) + c),
    "v_xad_u32": ("u32 u32 u32 -> u32", lambda a, b, c: (a ^ b) + c),
    "v_add_lshl_u32": ("u32 u32 u32 -> u32", lambda a, b, c: (a + b) << (c & 31)),
    "v_lshl_add_u32": ("u32 u32 u32 -> u32", lambda a, b, c: (a << (b & 31)) + c),
    "v_add_i32": ("i32 i32 -> i32", np.add),
    "v_sub_i32": ("i32 i32 -> i32", np.subtract),
    "v_mul_hi_u32_u24": ("u32 u32 -> u32", lambda a, b: wide(low_24(a)) * wide(low_24(b)) >> U64(32)),
    "v_mad_u32_u16": ("u16 u16 u32 -> u32", lambda a, b, c: a.astype(np.uint32) * b + c),
    "v_mad_i32_i16": ("i16 i16 i32 -> i32", lambda a, b, c: a.astype(np.int32) * b + c),
    "v_lshl_add_u64": ("u64 u32 u64 -> u64", lambda a, b, c: (a << wide(b & 7)) + c),
    "v_add_co_u32": ("u32 u32 -> u32 mask", add_carry),
    "v_addc_co_u32": ("u32 u32 mask -> u32 mask", add_carry),
    "v_sub_co_u32": ("u32 u32 -> u32 mask", subtract_borrow),
    "v_subb_co_u32": ("u32 u32 mask -> u32 mask", subtract_borrow),
    "v_subrev_co_u32": ("u32 u32 -> u32 mask", lambda a, b: subtract_borrow(b, a)),
    "v_subbrev_co_u32": ("u32 u32 mask -> u32 mask", lambda a, b, c: subtract_borrow(b, a, c)),
    "v_mul_lo_u32": ("u32 u32 -> u32", np.multiply),
    "v_mul_hi_u32": ("u32 u32 -> u32", lambda a, b: wide(a) * wide(b) >> U64(32)),
    "v_mul_hi_i32": ("i32 i32 -> i32", lambda a, b: wide(a) * wide(b) >> 32),
    "v_mul_u32_u24": ("u32 u32 -> u32", lambda a, b: low_24(a) * low_24(b)),
    "v_mul_i32_i24": ("i32 i32 -> i32", lambda a, b: signed_24(a) * signed_24(b)),
    "v_mad_u32_u24": ("u32 u32 u32 -> u32", lambda a, b, c: low_24(a) * low_24(b) + c),
    "v_mad_i32_i24": ("i32 i32 i32 -> i32", lambda a, b, c: signed_24(a) * signed_24(b) + c),
    "v_mad_u64_u32": ("u32 u32 u64 -> u64 mask", multiply_add_64),
    "v_mad_i64_i32": ("i32 i32 i64 -> i64 mask", lambda a, b, c: (wide(a) * wide(b) + c, np.zeros_like(c, np.bool_))),
    "v_max_u32": ("u32 u32 -> u32", np.maximum),
    "v_min_u32": ("u32 u32 -> u32", np.minimum),
    "v_max_i32": ("i32 i32 -> i32", np.maximum),
    "v_min_i32": ("i32 i32 -> i32", np.minimum),
    **{f"v_max3_{t}": (f"{t} {t} {t} -> {t}", largest) for t in ("u16", "i16", "u32", "i32")},
    **{f"v_min3_{t}": (f"{t} {t} {t} -> {t}", smallest) for t in ("u16", "i16", "u32", "i32")},
    **{f"v_med3_{t}": (f"{t} {t} {t} -> {t}", integer_middle) for t in ("u16", "i16", "u32", "i32")},
    "v_add_u16": ("u16 u16 -> u16", np.add),
    "v_sub_u16": ("u16 u16 -> u16", np.subtract),
    "v_subrev_u16": ("u16 u16 -> u16", lambda a, b: b - a),
    "v_add_i16": ("i16 i16 -> i16", np.add),
    "v_sub_i16": ("i16 i16 -> i16", np.subtract),
    "v_mul_lo_u16": ("u16 u16 -> u16", np.multiply),
    "v_mad_u16": ("u16 u16 u16 -> u16", lambda a, b, c: a * b + c),
    "v_mad_i16": ("i16 i16 i16 -> i16", lambda a, b, c: a * b + c),
    "v_max_u16": ("u16 u16 -> u16", np.maximum),
    "v_min_u16": ("u16 u16 -> u16", np.minimum),
    "v_max_i16": ("i16 i16 -> i16", np.maximum),
    "v_min_i16": ("i16 i16 -> i16", np.minimum),
}
FLOATS: dict[str, tuple[str, Function]] = {
    "v_add_f32": ("f32 f32 -> f32", np.add),
    "v_sub_f32": ("f32 f32 -> f32", np.subtract),
    "v_subrev_f32": ("f32 f32 -> f32", lambda a, b: b - a),
    "v_mul_f32": ("f32 f32 -> f32", np.multiply),
    "v_mul_legacy_f32": ("f32 f32 -> f32", lambda a, b: np.where((a == 0) | (b == 0), np.float32(0), a * b)),
    "v_max_f32": ("f32 f32 -> f32", maximum),
    "v_min_f32": ("f32 f32 -> f32", minimum),
    "v_max3_f32": ("f32 f32 f32 -> f32", lambda a, b, c: maximum(maximum(a, b), c)),
    "v_min3_f32": ("f32 f32 f32 -> f32", lambda a, b, c: minimum(minimum(a, b), c)),
    "v_maximum3_f32": ("f32 f32 f32 -> f32", largest),
    "v_minimum3_f32": ("f32 f32 f32 -> f32", smallest),
    "v_med3_f32": ("f32 f32 f32 -> f32", middle),
    "v_fma_f32": ("f32 f32 f32 -> f32", fma),
    "v_fmac_f32": ("f32 f32 old.f32 -> f32", fma),
    "v_fmamk_f32": ("f32 f32 f32 -> f32", fma),
    "v_fmaak_f32": ("f32 f32 f32 -> f32", fma),
    "v_rcp_iflag_f32": ("f32 -> f32", np.reciprocal),
    "v_sin_f32": ("f32 -> f32", lambda a: np.sin(a * TWO_PI)),
    "v_cos_f32": ("f32 -> f32", lambda a: np.cos(a * TWO_PI)),
    "v_ldexp_f32": ("f32 i32 -> f32", np.ldexp),
    "v_frexp_exp_i32_f32": ("f32 -> i32", lambda a: np.where(np.isfinite(a), np.frexp(a)[1], 0)),
    "v_frexp_mant_f32": ("f32 -> f32", lambda a: np.where(np.isfinite(a), np.frexp(a)[0], a)),
    "v_add_f16": ("f16 f16 -> f16", np.add),
    "v_sub_f16": ("f16 f16 -> f16", np.subtract),
    "v_subrev_f16": ("f16 f16 -> f16", lambda a, b: b - a),
    "v_mul_f16": ("f16 f16 -> f16", np.multiply),
    "v_max_f16": ("f16 f16 -> f16", maximum),
    "v_min_f16": ("f16 f16 -> f16", minimum),
    "v_fma_f16": ("f16 f16 f16 -> f16", lambda a, b, c: a.astype(np.float64) * b + c),
    "v_fmac_f16": ("f16 f16 old.f16 -> f16", lambda a, b, c: a.astype(np.float64) * b + c),
    "v_max3_f16": ("f16 f16 f16 -> f16", lambda a, b, c: maximum(maximum(a, b), c)),
    "v_min3_f16": ("f16 f16 f16 -> f16", lambda a, b, c: minimum(minimum(a, b), c)),
    "v_med3_f16": ("f16 f16 f16 -> f16", middle),
    "v_add_f64": ("f64 f64 -> f64", np.add),
    "v_mul_f64": ("f64 f64 -> f64", np.multiply),
    "v_max_f64": ("f64 f64 -> f64", maximum),
    "v_min_f64": ("f64 f64 -> f64", minimum),
    "v_ldexp_f64": ("f64 i32 -> f64", np.ldexp),
}
FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp2,
    "log": np.log2,
    "rcp": np.reciprocal,
    "sqrt": np.sqrt,
    "rsq": lambda a: np.reciprocal(np.sqrt(a)),
    "trunc": np.trunc,
    "floor": np.floor,
    "ceil": np.ceil,
    "rndne": np.rint,
    "fract": lambda a: a - np.floor(a),
}
FLOATS |= {
    f"v_{name}_{kind}": (f"{kind} -> {kind}", f) for name, f in FUNCTIONS.items() for kind in ("f16", "f32", "f64")
}

OPCODES: dict[str, Opcode] = {
    name: vector(signature, function) for name, (signature, function) in (MOVES | BITS | INTEGERS | FLOATS).items()
}
