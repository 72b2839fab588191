"""Pointwise ops on one fp64 value in CuTe DSL, where those of pointwise.py compute in fp32.

A kernel.py takes over those that it uses, as they stand here.
"""

import cutlass
import cutlass.cute as cute
import shared


def select_f64(condition, if_true, if_false):
    """One of two fp64 values; both are evaluated."""
    chosen = cutlass.select_(cutlass.Boolean(condition), cutlass.Float64(if_true), cutlass.Float64(if_false))
    return cutlass.Float64(chosen)


def maximum_f64(x, y):
    """The larger value; NaN if either is NaN."""
    return select_f64((x > y) | (x != x), x, y)


def minimum_f64(x, y):
    """The smaller value; NaN if either is NaN."""
    return select_f64((x < y) | (x != x), x, y)


def relu_f64(x):
    """max(x, 0); NaN stays NaN."""
    return select_f64(x <= 0.0, 0.0, x)


sign_f64 = shared.sign_f64


def softplus_f64(x, beta, threshold):
    """log(1 + exp(beta * x)) / beta, and x itself where beta * x passes the threshold."""
    scaled = x * beta
    return select_f64(scaled > threshold, x, cute.math.log1p(cute.math.exp(minimum_f64(scaled, threshold))) / beta)


def mish_f64(x):
    """x * tanh(softplus(x))."""
    return x * cute.math.tanh(softplus_f64(x, cutlass.Float64(1.0), cutlass.Float64(20.0)))


leaky_relu_f64 = shared.leaky_relu_f64


def elu_f64(x, alpha, scale, input_scale):
    """scale * x where positive, scale * alpha * (exp(input_scale * x) - 1) elsewhere."""
    return select_f64(x > 0.0, x * scale, cute.math.expm1(x * input_scale) * (alpha * scale))


def selu_f64(x):
    """elu with the self-normalising constants."""
    alpha, scale = cutlass.Float64(1.6732632423543772), cutlass.Float64(1.0507009873554805)
    return elu_f64(x, alpha, scale, cutlass.Float64(1.0))


def hardsigmoid_f64(x):
    """clamp(x + 3, 0, 6) / 6."""
    return minimum_f64(relu_f64(x + 3.0), cutlass.Float64(6.0)) / 6.0


def hardswish_f64(x):
    """x * clamp(x + 3, 0, 6) / 6."""
    return x * minimum_f64(relu_f64(x + 3.0), cutlass.Float64(6.0)) / 6.0


def logsigmoid_f64(x):
    """log(sigmoid(x)), without overflow for large negative x."""
    return minimum_f64(x, cutlass.Float64(0.0)) - cute.math.log1p(cute.math.exp(-cute.math.abs(x)))


def remainder_f64(x, y):
    """What x / y leaves, rounded down; it has the sign of y."""
    rest = cute.math.rem(x, y)
    return select_f64((rest != 0.0) & ((rest < 0.0) != (y < 0.0)), rest + y, rest)


def floor_divide_f64(x, y):
    """floor(x / y) by way of the exact remainder, as torch has it; x / y where y is 0."""
    rest = cute.math.rem(x, y)
    quotient = (x - rest) / y
    quotient = select_f64((rest != 0.0) & ((rest < 0.0) != (y < 0.0)), quotient - 1.0, quotient)
    down = cute.math.floor(quotient)
    down = select_f64(quotient - down > 0.5, down + 1.0, down)
    down = select_f64(quotient != 0.0, down, cute.math.copysign(cutlass.Float64(0.0), x / y))
    return select_f64(y == 0.0, x / y, down)


def erfinv_step_f64(y, size):
    """One step of Halley's method on what erf(y) misses of 1 or of 0."""
    miss = select_f64(size < 0.5, cute.math.erf(y) - size, (1.0 - size) - cute.math.erfc(y))
    step = miss * 0.886226925452758 * cute.math.exp(y * y)
    return y - step / (1.0 + y * step)


def erfinv_f64(x):
    """The inverse of erf: a closed form, and three steps towards the solution."""
    size = cute.math.abs(x)
    logarithm = cute.math.log((1.0 - size) * (1.0 + size))
    half = 4.330746750799873 + 0.5 * logarithm
    root = cute.math.sqrt(half * half - logarithm * 6.802721088435374)
    y = cute.math.sqrt(logarithm * -6.802721088435374 / (root + half))
    y = erfinv_step_f64(erfinv_step_f64(erfinv_step_f64(y, size), size), size)
    return cute.math.copysign(select_f64(size == 1.0, float("inf"), y), x)
