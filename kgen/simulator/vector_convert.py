"""Conversions between number formats, and the steps of a division, one line each."""

import numpy as np

from kgen.simulator.arrays import Array, Bits, Floats
from kgen.simulator.forms import Function, vector
from kgen.simulator.numbers import f32_to_bf16, fma
from kgen.simulator.opcode import Opcode

F32 = np.float32


def to_unsigned(a: Floats) -> Bits:
    """Return the truncated value, saturated; NaN gives zero."""
    whole = np.trunc(np.where(np.isnan(a), 0, a).astype(np.float64))
    return np.clip(whole, 0, 4294967295.0).astype(np.uint32)


def to_signed(a: Array) -> Array:
    """Return the truncated value, saturated; NaN gives zero."""
    whole = np.trunc(np.where(np.isnan(a), 0, a).astype(np.float64))
    return np.clip(whole, -2147483648.0, 2147483647.0).astype(np.int32)


def halves(low: Array, high: Array) -> Bits:
    """Return two 16-bit patterns as one 32-bit word."""
    return low.astype(np.uint32) | high.astype(np.uint32) << np.uint32(16)


def half_bits(a: Floats) -> Array:
    """Return the f16 pattern, rounded to nearest even."""
    return a.astype(np.float16).view(np.uint16)


def half_towards_zero(a: Floats) -> Array:
    """Return the f16 pattern, rounded towards zero."""
    nearest = a.astype(np.float16)
    beyond = np.isfinite(a) & (np.abs(nearest.astype(np.float64)) > np.abs(a.astype(np.float64)))
    return np.asarray(nearest.view(np.uint16) - beyond.astype(np.uint16))


def saturated_16(a: Array) -> Array:
    """Return signed integers, saturated, as 16-bit patterns."""
    return np.clip(a, -0x8000, 0x7FFF).astype(np.int16).view(np.uint16)


def exponent(a: Floats) -> Array:
    return np.asarray(a.view(np.uint32) >> np.uint32(23) & np.uint32(0xFF)).astype(np.int32)


def is_denormal(a: Floats) -> Array:
    return np.asarray((exponent(a) == 0) & (a != 0))


def scale_for_division(value: Floats, divisor: Floats, dividend: Floats) -> tuple[Floats, Array]:
    """v_div_scale_f32: the operand scaled by 2**64 where the quotient could lose bits, and where it must be undone.

    `value` is the divisor or the dividend. The two cases of a reciprocal that is denormal look at it in f64, so that of
    an f32 never is. (CDNA3 ISA reference, V_DIV_SCALE_F32.)
    """
    up = np.ldexp(value, 64)
    same_divisor, same_dividend = value == divisor, value == dividend
    far = exponent(dividend) - exponent(divisor) >= 96
    tiny_quotient = is_denormal(dividend / divisor)
    cases = [
        ((dividend == 0) | (divisor == 0), np.full_like(up, np.nan), False),
        (far, np.where(same_divisor, up, value), True),
        (exponent(divisor) == 0, up, False),
        (tiny_quotient, np.where(same_dividend, up, value), True),
        (exponent(dividend) <= 23, up, False),
    ]
    result = np.select([c for c, _, _ in cases], [r for _, r, _ in cases], value)
    undo = np.select([c for c, _, _ in cases], [np.full(c.shape, u) for c, _, u in cases], False)
    return result, undo


def finish_division(a: Floats, b: Floats, c: Floats, undo: Array) -> Floats:
    """v_div_fmas_f32: the last step of Newton's method, with the scaling undone where VCC says so."""
    quotient = fma(a, b, c)
    return np.where(undo, np.ldexp(quotient, np.where(exponent(c) > 127, 64, -64)), quotient)


def fix_division(quotient: Floats, divisor: Floats, dividend: Floats) -> Floats:
    """v_div_fixup_f32: the quotient with the sign, and the special cases of IEEE division."""
    sign = np.where(np.signbit(divisor) ^ np.signbit(dividend), F32(-1), F32(1))
    invalid = np.isnan(divisor) | np.isnan(dividend) | ((divisor == 0) & (dividend == 0))
    invalid |= np.isinf(divisor) & np.isinf(dividend)
    infinite = (divisor == 0) | np.isinf(dividend) | np.isnan(quotient)
    zero = np.isinf(divisor) | (dividend == 0)
    magnitude = np.select([invalid, (divisor == 0) | np.isinf(dividend), zero, infinite],
                          [F32(np.nan), F32(np.inf), F32(0), F32(np.inf)], np.abs(quotient))  # fmt: skip
    return np.copysign(magnitude, sign).astype(F32)


TABLE: dict[str, tuple[str, Function]] = {
    "v_cvt_u32_f32": ("f32 -> u32", to_unsigned),
    "v_cvt_i32_f32": ("f32 -> i32", to_signed),
    "v_cvt_rpi_i32_f32": ("f32 -> i32", lambda a: to_signed(np.floor(a + F32(0.5)))),
    "v_cvt_flr_i32_f32": ("f32 -> i32", lambda a: to_signed(np.floor(a))),
    "v_cvt_f32_u32": ("u32 -> f32", lambda a: a.astype(F32)),
    "v_cvt_f32_i32": ("i32 -> f32", lambda a: a.astype(F32)),
    "v_cvt_f32_f16": ("f16 -> f32", lambda a: a.astype(F32)),
    "v_cvt_f32_bf16": ("u16 -> u32", lambda a: a.astype(np.uint32) << np.uint32(16)),
    "v_cvt_f16_f32": ("f32 -> f16", lambda a: a.astype(np.float16)),
    "v_cvt_u16_f16": ("f16 -> u16", lambda a: np.clip(to_signed(a), 0, 0xFFFF)),
    "v_cvt_i16_f16": ("f16 -> i16", lambda a: np.clip(to_signed(a), -0x8000, 0x7FFF)),
    "v_cvt_pk_u16_u32": ("u32 u32 -> u32", lambda a, b: halves(np.minimum(a, 0xFFFF), np.minimum(b, 0xFFFF))),
    "v_cvt_pk_i16_i32": ("i32 i32 -> u32", lambda a, b: halves(saturated_16(a), saturated_16(b))),
    "v_cvt_f64_f32": ("f32 -> f64", lambda a: a.astype(np.float64)),
    "v_cvt_u32_f64": ("f64 -> u32", to_unsigned),
    "v_cvt_f16_u16": ("u16 -> f16", lambda a: a.astype(np.float16)),
    "v_cvt_f16_i16": ("i16 -> f16", lambda a: a.astype(np.float16)),
    "v_cvt_f32_ubyte0": ("u32 -> f32", lambda a: (a & 0xFF).astype(F32)),
    "v_cvt_f32_ubyte1": ("u32 -> f32", lambda a: (a >> 8 & 0xFF).astype(F32)),
    "v_cvt_f32_ubyte2": ("u32 -> f32", lambda a: (a >> 16 & 0xFF).astype(F32)),
    "v_cvt_f32_ubyte3": ("u32 -> f32", lambda a: (a >> 24).astype(F32)),
    "v_cvt_f32_f64": ("f64 -> f32", lambda a: a.astype(F32)),
    "v_cvt_f64_i32": ("i32 -> f64", lambda a: a.astype(np.float64)),
    "v_cvt_f64_u32": ("u32 -> f64", lambda a: a.astype(np.float64)),
    "v_cvt_i32_f64": ("f64 -> i32", to_signed),
    "v_cvt_pk_bf16_f32": ("f32 f32 -> u32", lambda a, b: halves(f32_to_bf16(a), f32_to_bf16(b))),
    "v_cvt_pk_f16_f32": ("f32 f32 -> u32", lambda a, b: halves(half_bits(a), half_bits(b))),
    "v_cvt_pkrtz_f16_f32": ("f32 f32 -> u32", lambda a, b: halves(half_towards_zero(a), half_towards_zero(b))),
    "v_pack_b32_f16": ("f16 f16 -> u32", lambda a, b: halves(a.view(np.uint16), b.view(np.uint16))),
    "v_div_scale_f32": ("f32 f32 f32 -> f32 mask", scale_for_division),
    "v_div_fmas_f32": ("f32 f32 f32 mask -> f32", finish_division),
    "v_div_fixup_f32": ("f32 f32 f32 -> f32", fix_division),
}

OPCODES: dict[str, Opcode] = {name: vector(signature, function) for name, (signature, function) in TABLE.items()}
