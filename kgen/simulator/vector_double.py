"""Vector instructions on f64, and the conversions between it and integers, one line each."""

from typing import Any

import numpy as np
import numpy.typing as npt

from kgen.simulator.arrays import Array
from kgen.simulator.forms import Function, vector
from kgen.simulator.opcode import Opcode

F64 = np.float64
Floats = npt.NDArray[Any]
SPLITTER = F64(2.0**27 + 1.0)  # Dekker's: a factor in two halves of 26 bits, whose products are exact


def fma(a: Floats, b: Floats, c: Floats) -> Floats:
    """Return a * b + c: the product in two exact parts, of which the sum is rounded.

    Where the result needs no rounding it is exact; elsewhere it may be one unit in the last place off.
    """
    product = a * b
    a_high, b_high = SPLITTER * a - (SPLITTER * a - a), SPLITTER * b - (SPLITTER * b - b)
    a_low, b_low = a - a_high, b - b_high
    low = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    total = product + c
    back = total - product
    rest = (product - (total - back)) + (c - back)
    exact = np.asarray(total + (rest + low))
    return np.where(np.isfinite(exact), exact, total)


def exponent(a: Floats) -> Array:
    """Return the biased exponent."""
    return np.asarray(a.view(np.uint64) >> np.uint64(52) & np.uint64(0x7FF)).astype(np.int64)


def is_denormal(a: Floats) -> Array:
    return np.asarray((exponent(a) == 0) & (a != 0))


def scale_for_division(value: Floats, divisor: Floats, dividend: Floats) -> tuple[Floats, Array]:
    """v_div_scale_f64: as v_div_scale_f32, by 2**128. (CDNA3 ISA reference, V_DIV_SCALE_F64.)"""
    up, down = np.ldexp(value, 128), np.ldexp(value, -128)
    same_divisor, same_dividend = value == divisor, value == dividend
    tiny_reciprocal, tiny_quotient = is_denormal(F64(1) / divisor), is_denormal(dividend / divisor)
    cases = [
        ((dividend == 0) | (divisor == 0), np.full_like(up, np.nan), False),
        (exponent(dividend) - exponent(divisor) >= 768, np.where(same_divisor, up, value), True),
        (exponent(divisor) == 0, up, False),
        (tiny_reciprocal & tiny_quotient, np.where(same_divisor, up, value), True),
        (tiny_reciprocal, down, False),
        (tiny_quotient, np.where(same_dividend, up, value), True),
        (exponent(dividend) <= 53, up, False),
    ]
    result = np.select([c for c, _, _ in cases], [r for _, r, _ in cases], value)
    return result, np.select([c for c, _, _ in cases], [np.full(c.shape, u) for c, _, u in cases], False)


def finish_division(a: Floats, b: Floats, c: Floats, undo: Array) -> Floats:
    """v_div_fmas_f64: the last step of Newton's method, with the scaling undone where VCC says so."""
    quotient = fma(a, b, c)
    return np.where(undo, np.ldexp(quotient, np.where(exponent(c) > 1023, 128, -128)), quotient)


def fix_division(quotient: Floats, divisor: Floats, dividend: Floats) -> Floats:
    """v_div_fixup_f64: the quotient with the sign, and the special cases of IEEE division."""
    sign = np.where(np.signbit(divisor) ^ np.signbit(dividend), F64(-1), F64(1))
    invalid = np.isnan(divisor) | np.isnan(dividend) | ((divisor == 0) & (dividend == 0))
    invalid |= np.isinf(divisor) & np.isinf(dividend)
    infinite = (divisor == 0) | np.isinf(dividend)
    zero = np.isinf(divisor) | (dividend == 0)
    magnitude = np.select(
        [invalid, infinite, zero, np.isnan(quotient)], [F64(np.nan), F64(np.inf), F64(0), F64(np.inf)], np.abs(quotient)
    )
    return np.copysign(magnitude, sign)


def sign_bits(a: Array) -> Array:
    """v_ffbh_i32: the place of the first bit from the top that differs from the sign, -1 where none does."""
    different = np.asarray(a ^ (a >> np.int32(31))).astype(np.uint32)
    length = np.frexp(different.astype(F64))[1]
    return np.where(different == 0, -1, 32 - length).astype(np.int32)


TABLE: dict[str, tuple[str, Function]] = {
    "v_fma_f64": ("f64 f64 f64 -> f64", fma),
    "v_fmac_f64": ("f64 f64 old.f64 -> f64", fma),
    "v_rcp_f64": ("f64 -> f64", lambda a: F64(1) / a),
    "v_rsq_f64": ("f64 -> f64", lambda a: F64(1) / np.sqrt(a)),
    "v_sqrt_f64": ("f64 -> f64", np.sqrt),
    "v_trunc_f64": ("f64 -> f64", np.trunc),
    "v_floor_f64": ("f64 -> f64", np.floor),
    "v_ceil_f64": ("f64 -> f64", np.ceil),
    "v_rndne_f64": ("f64 -> f64", np.rint),
    "v_div_scale_f64": ("f64 f64 f64 -> f64 mask", scale_for_division),
    "v_div_fmas_f64": ("f64 f64 f64 mask -> f64", finish_division),
    "v_div_fixup_f64": ("f64 f64 f64 -> f64", fix_division),
    "v_ffbh_i32": ("i32 -> i32", sign_bits),
}

OPCODES: dict[str, Opcode] = {name: vector(signature, function) for name, (signature, function) in TABLE.items()}
