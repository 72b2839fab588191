"""Pointwise ops on one fp32 value in CuTe DSL; a kernel.py takes over those that it uses, as they stand here.

Each means what torch's op of that name means: NaN goes through min, max, relu and clamp, and no form overflows where
the result is finite. The DSL's own fmax and fmin drop NaN unless told otherwise.
"""

import cutlass
import cutlass.cute as cute
import shared


def select(condition, if_true, if_false):
    """One of two fp32 values; both are evaluated."""
    return cutlass.Float32(cutlass.select_(condition, cutlass.Float32(if_true), cutlass.Float32(if_false)))


def maximum(x, y):
    """The larger value; NaN if either is NaN."""
    return cute.arch.fmax(cutlass.Float32(x), cutlass.Float32(y), nan=True)


def minimum(x, y):
    """The smaller value; NaN if either is NaN."""
    return cute.arch.fmin(cutlass.Float32(x), cutlass.Float32(y), nan=True)


relu = shared.relu
sign = shared.sign
reciprocal = shared.reciprocal


def sigmoid(x):
    """1 / (1 + exp(-x)); exp(-x) may overflow to infinity, which gives 0."""
    return 1.0 / (1.0 + cute.math.exp(-x))


def silu(x):
    """x * sigmoid(x)."""
    return x / (1.0 + cute.math.exp(-x))


def gelu_erf(x):
    """x * Phi(x), with the normal distribution function Phi from erf."""
    return 0.5 * x * (1.0 + cute.math.erf(x * 0.7071067811865476))


def gelu_tanh(x):
    """The tanh form of gelu."""
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1.0 + cute.math.tanh(inner))


def softplus(x, beta, threshold):
    """log(1 + exp(beta * x)) / beta, and x itself where beta * x passes the threshold."""
    scaled = x * beta
    return select(scaled > threshold, x, cute.math.log1p(cute.math.exp(minimum(scaled, threshold))) / beta)


def softsign(x):
    """x / (1 + |x|)."""
    return x / (1.0 + cute.math.abs(x))


def mish(x):
    """x * tanh(softplus(x))."""
    return x * cute.math.tanh(softplus(x, 1.0, 20.0))


leaky_relu = shared.leaky_relu


def elu(x, alpha, scale, input_scale):
    """scale * x where positive, scale * alpha * (exp(input_scale * x) - 1) elsewhere."""
    return select(x > 0.0, x * scale, cute.math.expm1(x * input_scale) * (alpha * scale))


selu = shared.selu
hardsigmoid = shared.hardsigmoid
hardswish = shared.hardswish


def logsigmoid(x):
    """log(sigmoid(x)), without overflow for large negative x."""
    return minimum(x, 0.0) - cute.math.log1p(cute.math.exp(-cute.math.abs(x)))


def power(x, y):
    """x ** y."""
    return cute.math.pow(cutlass.Float32(x), cutlass.Float32(y))


def atan2(y, x):
    """The angle of the point (x, y)."""
    return cute.math.atan2(cutlass.Float32(y), cutlass.Float32(x))


def copysign(x, y):
    """|x| with the sign of y."""
    return cute.math.copysign(cutlass.Float32(x), cutlass.Float32(y))


def fmod(x, y):
    """What x / y leaves, rounded towards zero; exact, with the sign of x."""
    return cute.math.rem(cutlass.Float32(x), cutlass.Float32(y))


def remainder(x, y):
    """What x / y leaves, rounded down; it has the sign of y."""
    x, y = cutlass.Float32(x), cutlass.Float32(y)
    rest = fmod(x, y)
    return select((rest != 0.0) & ((rest < 0.0) != (y < 0.0)), rest + y, rest)


def floor_divide(x, y):
    """floor(x / y) by way of the exact remainder, as torch has it; x / y where y is 0."""
    x, y = cutlass.Float32(x), cutlass.Float32(y)
    rest = fmod(x, y)
    quotient = (x - rest) / y
    quotient = select((rest != 0.0) & ((rest < 0.0) != (y < 0.0)), quotient - 1.0, quotient)
    down = cute.math.floor(quotient)
    down = select(quotient - down > 0.5, down + 1.0, down)
    down = select(quotient != 0.0, down, copysign(0.0, x / y))
    return select(y == 0.0, x / y, down)


def erfinv_step(y, size):
    """One step of Halley's method on what erf(y) misses of 1 or of 0."""
    miss = select(size < 0.5, cute.math.erf(y) - size, (1.0 - size) - cute.math.erfc(y))
    step = miss * 0.886226925452758 * cute.math.exp(y * y)
    return y - step / (1.0 + y * step)


def erfinv(x):
    """The inverse of erf: a closed form, and two steps towards the solution."""
    size = cute.math.abs(x)
    logarithm = cute.math.log((1.0 - size) * (1.0 + size))
    half = 4.330746750799873 + 0.5 * logarithm
    root = cute.math.sqrt(half * half - logarithm * 6.802721088435374)
    y = cute.math.sqrt(logarithm * -6.802721088435374 / (root + half))
    y = erfinv_step(erfinv_step(y, size), size)
    return cute.math.copysign(select(size == 1.0, float("inf"), y), x)


def to_e4m3(x):
    """The float8_e4m3fn element of x, saturated at 448; NaN stays NaN. `.to` fails on values that were integers."""
    pair = cute.arch.inline_ptx(
        "cvt.rn.satfinite.e4m3x2.f32 {$w0}, {$r0}, {$r1};",
        write_only_types=[cutlass.Uint16],
        read_only_args=[cutlass.Float32(0.0), x],
    )
    return cutlass.Uint8(pair).bitcast(cutlass.Float8E4M3FN)


def to_e5m2(x):
    """The float8_e5m2 element of x, and infinity beyond its range; the hardware's conversion saturates."""
    pair = cute.arch.inline_ptx(
        "cvt.rn.satfinite.e5m2x2.f32 {$w0}, {$r0}, {$r1};",
        write_only_types=[cutlass.Uint16],
        read_only_args=[cutlass.Float32(0.0), x],
    )
    # infinity is one step above the largest value, 57344; from 61440 on, rounding reaches it
    step = cutlass.select_(cute.math.abs(x) >= 61440.0, cutlass.Uint16(1), cutlass.Uint16(0))
    return cutlass.Uint8(pair + cutlass.Uint16(step)).bitcast(cutlass.Float8E5M2)
