"""Number formats: bf16, the two families of fp8 and bf8, and the exact fused multiply-add.

gfx942 has the FNUZ forms of the 8-bit formats (one zero, one NaN at 0x80, exponent bias one higher), gfx950 the OCP
forms. A conversion out of range gives NaN, or infinity where the format has one (MODE.FP16_OVFL = 0, the default).
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from kgen.simulator.arrays import Array, Bits, Bytes, Floats


def bf16_to_f32(bits: Array) -> Floats:
    """Return 16-bit patterns as f32."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def f32_to_bf16(values: Floats) -> Bits:
    """Return the bf16 patterns of f32 values, rounded to nearest even, in 32-bit integers."""
    bits = values.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(values), bits >> np.uint32(16) | np.uint32(0x40), rounded)


@dataclass(frozen=True, slots=True)
class Float8:
    """An 8-bit format: sign, `exponent_bits`, the rest mantissa."""

    exponent_bits: int
    fnuz: bool

    def decode_one(self, byte: int) -> float:
        """Return the value of one pattern."""
        mantissa_bits = 7 - self.exponent_bits
        sign = -1.0 if byte >> 7 else 1.0
        exponent = byte >> mantissa_bits & (1 << self.exponent_bits) - 1
        mantissa = byte & (1 << mantissa_bits) - 1
        if self.fnuz:
            if byte == 0x80:
                return np.nan
        elif self.exponent_bits == 4:
            if byte & 0x7F == 0x7F:
                return np.nan
        elif exponent == 31:
            return np.nan if mantissa else sign * np.inf
        bias = (1 << self.exponent_bits - 1) - (0 if self.fnuz else 1)
        scale = 2.0 ** (max(exponent, 1) - bias - mantissa_bits)
        return sign * scale * (mantissa + ((1 << mantissa_bits) if exponent else 0))


@cache
def decoding_table(form: Float8) -> Floats:
    """Return the f32 value of each of the 256 patterns."""
    return np.array([form.decode_one(byte) for byte in range(256)], np.float32)


@cache
def encoding_tables(form: Float8) -> tuple[Array, int]:
    """Return the f64 midpoints between neighbouring finite magnitudes, the last one the overflow limit, and the NaN."""
    magnitudes = decoding_table(form)[:128].astype(np.float64)
    finite = magnitudes[np.isfinite(magnitudes)]
    beyond = 2 * finite[-1] - finite[-2]
    midpoints = (np.append(finite[1:], beyond) + finite) / 2
    return midpoints, 0x80 if form.fnuz else 0x7F


def fp8_to_f32(form: Float8, patterns: Array) -> Floats:
    """Return 8-bit patterns as f32."""
    return np.asarray(decoding_table(form)[patterns])


def f32_to_fp8(form: Float8, values: Floats) -> Bytes:
    """Return the 8-bit patterns of f32 values, rounded to nearest even."""
    midpoints, not_a_number = encoding_tables(form)
    magnitude = np.abs(values).astype(np.float64)
    code = np.searchsorted(midpoints, magnitude, side="left")
    tied = (code < len(midpoints)) & (magnitude == midpoints[np.minimum(code, len(midpoints) - 1)])
    code = code + (tied & (code % 2 == 1))
    too_large = code >= len(midpoints)
    sign = np.signbit(values).astype(np.int64) << 7
    has_infinity = not form.fnuz and form.exponent_bits == 5
    result = np.where(too_large, (0x7C | sign) if has_infinity else not_a_number, code | sign)
    result = np.where(np.isnan(values), not_a_number, result)
    if form.fnuz:
        result = np.where(code == 0, 0, result)  # there is no negative zero
        result = np.where(np.isnan(values), not_a_number, result)
    return result.astype(np.uint8)


def formats(arch: str) -> tuple[Float8, Float8]:
    """Return what an arch calls fp8 and bf8."""
    fnuz = arch.startswith("gfx94")
    return Float8(4, fnuz), Float8(5, fnuz)


def fma(a: Floats, b: Floats, c: Floats) -> Floats:
    """Return a * b + c rounded once to f32.

    The product is exact in f64. Rounding the f64 sum again could only go wrong where the sum looks like a tie of f32,
    so there the f64 sum is first made odd in the direction of what was cut off.
    """
    product = a.astype(np.float64) * b.astype(np.float64)
    addend = c.astype(np.float64)
    total = np.asarray(product + addend)
    ties = (total.view(np.int64) & 0x1FFFFFFF) == 0x10000000
    if ties.any():
        back = total - product
        error = (product - (total - back)) + (addend - back)
        nudge = np.where(np.signbit(error) == np.signbit(total), 1, -1)
        total = (total.view(np.int64) + np.where(ties & (error != 0) & np.isfinite(total), nudge, 0)).view(np.float64)
    return total.astype(np.float32)
