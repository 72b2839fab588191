"""Bytes of fp8 to fp32 and back, and bf16, in FlyDSL; a kernel.py takes over those that it uses, as they stand here.

`ocp` are the formats of the Open Compute Project, of gfx950 and of Hopper; `fnuz` those of gfx942, which have one NaN,
0x80, no infinity and no negative zero. Each rounds to nearest even, and beyond its range does what torch's cast does.
"""

import flydsl.expr as fx


def to_bf16(x):
    """The bf16 nearest to x, ties to even, of a NaN whose lower 16 bits are 0: carried into the sign, others are lost.

    Those of bf16, of fp8, and those that the hardware makes (0x7FC00000) are such, and arithmetic passes them on.
    """
    bits = x.bitcast(fx.Uint32)
    return fx.Uint16(bits + 0x7FFF + ((bits >> 16) & 1) >> 16).bitcast(fx.BFloat16)


def rounded_to_fp8(x, mantissa, bias):
    """Exponent and `mantissa` bits of |x|: the last bits of the sum with a large number where it is below the normals.

    Above the largest magnitude the exponent grows on, as if the format had more bits.
    """
    bits = fx.absf(x).bitcast(fx.Uint32)
    shift = 23 - mantissa
    near = (bits + ((1 << (shift - 1)) - 1) + ((bits >> shift) & 1) >> shift) - ((127 - bias) << mantissa)
    offset = 2.0 ** (24 - bias - mantissa)
    below = (fx.absf(x) + offset).bitcast(fx.Uint32) - fx.Float32(offset).bitcast(fx.Uint32)
    return fx.Boolean(fx.absf(x) < 2.0 ** (1 - bias)).select(below, near)


def with_sign(x, bits):
    """A byte of fp8 with the sign of x."""
    return fx.Uint8((x.bitcast(fx.Uint32) >> 24) & 0x80 | bits)


def to_e4m3_ocp(x):
    """The float8_e4m3fn byte of x, saturated at 448."""
    bits = rounded_to_fp8(fx.min(fx.absf(x), fx.Float32(448.0)), 3, 7)
    return with_sign(x, fx.Boolean(x != x).select(fx.Uint32(0x7F), bits))


def to_e5m2_ocp(x):
    """The float8_e5m2 byte of x, infinity beyond its range."""
    bits = fx.min(rounded_to_fp8(x, 2, 15), fx.Uint32(0x7C))
    return with_sign(x, fx.Boolean(x != x).select(fx.Uint32(0x7F), bits))


def to_fnuz(x, bits):
    """A byte of a format with one NaN, for what is none and for what is beyond its range, and one zero."""
    is_number = (x == x) & (bits <= 0x7F)
    signed = fx.Boolean(bits == 0).select(fx.Uint8(0), with_sign(x, bits))
    return fx.Boolean(is_number).select(signed, fx.Uint8(0x80))


def to_e4m3_fnuz(x):
    """The float8_e4m3fnuz byte of x."""
    return to_fnuz(x, rounded_to_fp8(x, 3, 8))


def to_e5m2_fnuz(x):
    """The float8_e5m2fnuz byte of x."""
    return to_fnuz(x, rounded_to_fp8(x, 2, 16))


def from_fp8(byte, shift, scale):
    """The value of a byte: its bits as those of fp16, whose exponent has another bias."""
    bits = fx.Int32(byte)
    half = fx.Uint16(((bits & 0x80) << 8) | ((bits & 0x7F) << shift))
    return half.bitcast(fx.Float16).to(fx.Float32) * scale


def from_e4m3_ocp(byte):
    """The value of a float8_e4m3fn byte."""
    return fx.Boolean((byte & 0x7F) == 0x7F).select(fx.Float32(float("nan")), from_fp8(byte, 7, 256.0))


def from_e5m2_ocp(byte):
    """The value of a float8_e5m2 byte: the upper half of an fp16."""
    return from_fp8(byte, 8, 1.0)


def from_e4m3_fnuz(byte):
    """The value of a float8_e4m3fnuz byte."""
    return fx.Boolean(fx.Uint8(byte) == 0x80).select(fx.Float32(float("nan")), from_fp8(byte, 7, 128.0))


def from_e5m2_fnuz(byte):
    """The value of a float8_e5m2fnuz byte; its largest exponent is 2 ** 15, that of infinity in fp16."""
    is_large = (byte & 0x7C) == 0x7C
    value = fx.Boolean(is_large).select(from_fp8(byte - 4, 8, 1.0), from_fp8(byte, 8, 0.5))
    return fx.Boolean(fx.Uint8(byte) == 0x80).select(fx.Float32(float("nan")), value)
