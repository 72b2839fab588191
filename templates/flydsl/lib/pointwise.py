"""Pointwise ops on one fp32 value in FlyDSL; a kernel.py takes over those that it uses, as they stand here.

Each means what torch's op of that name means: NaN goes through min, max, relu and clamp, and no form overflows where
the result is finite. What LLVM has for the hardware alone is used (exp, log, sqrt, roundeven, trunc); the rest is
written out, because it would be a call into ROCm's device library, which a compiler without ROCm does not have.
Relative errors are below 1e-6 unless a function says otherwise.
"""

import flydsl.expr as fx
import shared
from hardware import (
    exp2_approximate,
    exp_approximate,
    maximum,
    minimum,
    normal_tail_approximate,
    reciprocal_approximate,
    select,
)

relu = shared.relu
sign = shared.sign
reciprocal = shared.reciprocal


def copysign(x, y):
    """|x| with the sign of y."""
    return fx.copysign(fx.Float32(x), fx.Float32(y))


def floor(x):
    """The largest whole number that is not above x."""
    near = fx.roundeven(x)
    return near - select(near > x, 1.0, 0.0)


def ceil(x):
    """The smallest whole number that is not below x."""
    near = fx.roundeven(x)
    return fx.copysign(near + select(near < x, 1.0, 0.0), x)


def exp2(x):
    """2 ** x, with results below the normal numbers."""
    is_small = x < -125.0
    power = fx.exp2(select(is_small, x + 64.0, x), fastmath=fx.FastMathFlags.afn)
    return power * select(is_small, 5.421010862427522e-20, 1.0)


def expm1(x):
    """exp(x) - 1, by its series near 0."""
    near = 0.001388888888888889 + 0.0001984126984126984 * x
    near = 0.008333333333333333 + near * x
    near = 0.041666666666666664 + near * x
    near = 0.16666666666666666 + near * x
    near = 1.0 + (0.5 + near * x) * x
    return select(fx.absf(x) < 0.4, x * near, fx.exp(x) - 1.0)


def log1p(x):
    """log(1 + x), with what 1 + x rounds off."""
    total = 1.0 + x
    rest = select(x < 1e30, x - (total - 1.0), 0.0)
    return fx.log(total) + rest * reciprocal_approximate(select(total > 0.0, total, 1.0))


def log2(x):
    """The logarithm to base 2."""
    return fx.log(x) * 1.4426950408889634


def log10(x):
    """The logarithm to base 10."""
    return fx.log(x) * 0.4342944819032518


def sigmoid(x):
    """1 / (1 + exp(-x)); exp(-x) may overflow to infinity, which gives 0."""
    return 1.0 / (1.0 + fx.exp(-x))


def silu(x):
    """x * sigmoid(x)."""
    return x / (1.0 + fx.exp(-x))


def tanh(x):
    """tanh(x): 1 - 2 / (1 + exp(2 * |x|)) with the sign of x, and a polynomial near 0, where that would cancel."""
    size, square = fx.absf(x), x * x
    far = 1.0 - 2.0 * reciprocal_approximate(1.0 + exp_approximate(size + size))
    near = 0.0206390887954 + -0.00570498872745 * square
    near = -0.0537397155531 + near * square
    near = 0.133314422036 + near * square
    near = 1.0 + (-0.333332819422 + near * square) * square
    return select(size < 0.625, x * near, fx.copysign(far, x))


def sinh(x):
    """(exp(x) - exp(-x)) / 2, of half the angle, so that it overflows where the result does; its series near 0."""
    half, square = fx.exp(0.5 * fx.absf(x)), x * x
    far = 0.5 * half * half - 0.5 / half / half
    near = 0.0001984126984126984 + 2.7557319223985893e-06 * square
    near = 0.008333333333333333 + near * square
    near = 1.0 + (0.16666666666666666 + near * square) * square
    return select(fx.absf(x) < 1.0, x * near, fx.copysign(far, x))


def cosh(x):
    """(exp(x) + exp(-x)) / 2, of half the angle, so that it overflows where the result does."""
    half = fx.exp(0.5 * fx.absf(x))
    return 0.5 * half * half + 0.5 / half / half


def arc_tangent(t):
    """atan(t) of t in 0..1."""
    square = t * t
    total = -0.030351865114653258 + (0.010487649399874501 + -0.0017011700903822203 * square) * square
    total = 0.05708955633078856 + total * square
    total = -0.08349724996759872 + total * square
    total = 0.1093234151327955 + total * square
    total = -0.1426001608570026 + total * square
    total = 0.19998075281505315 + total * square
    total = -0.3333327629200022 + total * square
    return t + t * square * total


def atan(x):
    """The angle whose tangent is x."""
    size = fx.absf(x)
    angle = arc_tangent(select(size > 1.0, 1.0 / size, size))
    return fx.copysign(select(size > 1.0, 1.5707963267948966 - angle, angle), x)


def atan2(y, x):
    """The angle of the point (x, y)."""
    y, x = fx.Float32(y), fx.Float32(x)
    rise, run = fx.absf(y), fx.absf(x)
    most, least = maximum(rise, run), minimum(rise, run)
    slope = select(least == most, select(most == 0.0, 0.0, 1.0), least / select(most == 0.0, 1.0, most))
    angle = arc_tangent(select(least != least, least, slope))
    angle = select(rise > run, 1.5707963267948966 - angle, angle)
    angle = select(fx.copysign(fx.Float32(1.0), x) < 0.0, 3.141592653589793 - angle, angle)
    return fx.copysign(angle, y)


def arc_sine(x):
    """asin(x) of x in -0.5..0.5."""
    square = x * x
    total = 0.02399399963663503 + 0.04241737376044815 * square
    total = 0.045520635640071326 + total * square
    total = 0.07494696687290091 + total * square
    total = 0.1666678200578292 + total * square
    return x + x * square * total


def asin(x):
    """The angle whose sine is x; beyond 0.5 by that of half its complement."""
    size = fx.absf(x)
    half = fx.sqrt(0.5 - 0.5 * size)
    angle = select(size > 0.5, 1.5707963267948966 - 2.0 * arc_sine(half), arc_sine(size))
    return fx.copysign(select(size <= 1.0, angle, float("nan")), x)


def acos(x):
    """The angle whose cosine is x."""
    size = fx.absf(x)
    outer = 2.0 * arc_sine(fx.sqrt(0.5 - 0.5 * size))
    angle = select(size > 0.5, select(x > 0.0, outer, 3.141592653589793 - outer), 1.5707963267948966 - arc_sine(x))
    return select(size <= 1.0, angle, float("nan"))


def asinh(x):
    """log(x + sqrt(x * x + 1)), with the sign of x."""
    size = fx.absf(x)
    square = size * size
    near = log1p(size + square / (1.0 + fx.sqrt(1.0 + square)))
    return fx.copysign(select(size < 1e10, near, fx.log(size) + 0.6931471805599453), x)


def acosh(x):
    """log(x + sqrt(x * x - 1))."""
    above = x - 1.0
    near = log1p(above + fx.sqrt(above * (x + 1.0)))
    return select((x >= 1.0) & (x < 1e10), near, fx.log(select(x < 1.0, -1.0, x)) + 0.6931471805599453)


def atanh(x):
    """log((1 + x) / (1 - x)) / 2."""
    size = fx.absf(x)
    return fx.copysign(0.5 * log1p(2.0 * size / (1.0 - size)), x)


def turn_of(x):
    """The part of x / (2 * pi) that is no whole turn, in fp64, -0.5..0.5: each term is exact before whole turns go."""
    wide, turn = fx.Float64(x), fx.Float64(0.0)
    for digits in (
        0.15915489196777344,
        5.1124121824841495e-08,
        7.342738037334397e-17,
        8.135945344989493e-24,
        6.1778468600120854e-30,
        3.2976799360429236e-37,
        2.8971783207221377e-44,
    ):
        term = wide * digits
        turn = turn + (term - fx.roundeven(term))
    return turn - fx.roundeven(turn)


def sine_of_turn(turn):
    """The sine of a part of a turn in fp64; its absolute error is below 1e-7."""
    quarter = fx.roundeven(turn * 4.0)
    angle = ((turn - quarter * 0.25) * 6.283185307179586).to(fx.Float32)
    square, number = angle * angle, quarter.to(fx.Int32)
    sine = angle + angle * square * (-0.16666654611 + (0.0083321608736 + -0.00019515295891 * square) * square)
    cosine = 0.04166664568298827 + (-0.001388731625493765 + 2.443315711809948e-05 * square) * square
    cosine = 1.0 - 0.5 * square + square * square * cosine
    found = select((number & 1) == 0, sine, cosine)
    return select((number & 2) == 0, found, -found)


def sin(x):
    """The sine; its absolute error is below 1e-7."""
    return sine_of_turn(turn_of(x))


def cos(x):
    """The cosine; its absolute error is below 1e-7."""
    return sine_of_turn(turn_of(x) + 0.25)


def tan(x):
    """The tangent."""
    turn = turn_of(x)
    return sine_of_turn(turn) / sine_of_turn(turn + 0.25)


def erfc(x):
    """1 - erf(x)."""
    tail = 2.0 * normal_tail_approximate(1.4142135623730951 * fx.absf(x))
    return select(x > 0.0, tail, 2.0 - tail)


def erf(x):
    """The error function, by a polynomial near 0, where 1 - erfc(x) would cancel."""
    square = x * x
    near = -0.000830623469703836 + 9.164212292756288e-05 * square
    near = 0.005213663507286723 + near * square
    near = -0.026863890655828112 + near * square
    near = 0.11283767533176414 + near * square
    near = 1.1283791670327428 + (-0.37612637941311017 + near * square) * square
    far = 1.0 - 2.0 * normal_tail_approximate(1.4142135623730951 * fx.absf(x))
    return select(square < 0.64, x * near, fx.copysign(far, x))


def erfinv_step(y, size):
    """One step of Halley's method on what erf(y) misses of 1 or of 0."""
    miss = select(size < 0.5, erf(y) - size, (1.0 - size) - erfc(y))
    step = miss * 0.886226925452758 * fx.exp(y * y)
    return y - step / (1.0 + y * step)


def erfinv(x):
    """The inverse of erf: a closed form, and two steps towards the solution."""
    size = fx.absf(x)
    logarithm = fx.log((1.0 - size) * (1.0 + size))
    half = 4.330746750799873 + 0.5 * logarithm
    root = fx.sqrt(half * half - logarithm * 6.802721088435374)
    y = fx.sqrt(logarithm * -6.802721088435374 / (root + half))
    y = erfinv_step(erfinv_step(y, size), size)
    return fx.copysign(select(size == 1.0, float("inf"), y), x)


def gelu_erf(x):
    """x * Phi(x), with the normal distribution function Phi from erf."""
    return 0.5 * x * (1.0 + erf(x * 0.7071067811865476))


def gelu_tanh(x):
    """The tanh form of gelu."""
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1.0 + tanh(inner))


def softplus(x, beta, threshold):
    """log(1 + exp(beta * x)) / beta, and x itself where beta * x passes the threshold."""
    scaled = x * beta
    return select(scaled > threshold, x, log1p(fx.exp(minimum(scaled, threshold))) / beta)


def softsign(x):
    """x / (1 + |x|)."""
    return x / (1.0 + fx.absf(x))


def mish(x):
    """x * tanh(softplus(x))."""
    return x * tanh(softplus(x, 1.0, 20.0))


leaky_relu = shared.leaky_relu


def elu(x, alpha, scale, input_scale):
    """scale * x where positive, scale * alpha * (exp(input_scale * x) - 1) elsewhere."""
    return select(x > 0.0, x * scale, expm1(x * input_scale) * (alpha * scale))


selu = shared.selu
hardsigmoid = shared.hardsigmoid
hardswish = shared.hardswish


def logsigmoid(x):
    """log(sigmoid(x)), without overflow for large negative x."""
    return minimum(x, 0.0) - log1p(fx.exp(-fx.absf(x)))


def logarithm_f64(x):
    """The logarithm to base 2 of a positive fp32 value, in fp64 to some 38 bits: of its exponent and its mantissa."""
    is_small = x < 1.1754943508222875e-38
    bits = select(is_small, x * 16777216.0, x).bitcast(fx.Int32)
    whole = (bits - 1060439283) >> 23  # of x / sqrt(0.5): the mantissa is 0.7..1.41
    mantissa = fx.Float64((bits - (whole << 23)).bitcast(fx.Float32))
    ratio = (mantissa - 1.0) / (mantissa + 1.0)
    square = ratio * ratio
    total = 0.22195308321368 + 0.19235933878519513 * square
    for coefficient in (0.2623081892525309, 0.3205988979753155, 0.41219858311113236, 0.5770780163555853):
        total = coefficient + total * square
    total = 2.8853900817779268 + (0.9617966939259756 + total * square) * square
    return ratio * total + fx.Float64(whole - fx.Boolean(is_small).select(fx.Int32(24), fx.Int32(0)))


def power_of(x, y):
    """x ** y of a positive x, neither of them infinite: 2 ** (y * log2(x)), whole and broken part by themselves."""
    exponent = fx.max(fx.min(fx.Float64(y) * logarithm_f64(x), fx.Float64(400.0)), fx.Float64(-400.0))
    whole = fx.roundeven(exponent)
    broken, half = (exponent - whole).to(fx.Float32), fx.roundeven(whole * 0.5)
    first, second = half.to(fx.Float32), (whole - half).to(fx.Float32)
    return exp2_approximate(broken) * exp2_approximate(first) * exp2_approximate(second)


def power(x, y):
    """x ** y, with C's results for zeros, infinities, and negative x."""
    x, y = fx.Float32(x), fx.Float32(y)
    size, infinity = fx.absf(x), float("inf")
    is_whole = fx.trunc(y) == y
    half = y * 0.5
    is_odd = is_whole & (fx.trunc(half) != half)
    is_ordinary = (size > 0.0) & (size < infinity) & (fx.absf(y) < infinity)
    found = power_of(select(is_ordinary, size, 1.0), select(is_ordinary, y, 1.0))
    grows = (size > 1.0) == (y > 0.0)  # of the rest: infinite or 0
    found = select(is_ordinary, found, select(size == 1.0, 1.0, select(grows, infinity, 0.0)))
    found = select((x < 0.0) & ~is_whole & (size < infinity), float("nan"), found)
    found = select(is_odd & (fx.copysign(fx.Float32(1.0), x) < 0.0), -found, found)
    found = select((x != x) | (y != y), float("nan"), found)
    return select((x == 1.0) | (y == 0.0), 1.0, found)


def fmod(x, y):
    """What x / y leaves, rounded towards zero; exact, with the sign of x. Each step takes 50 bits of the quotient."""
    rest, divisor = fx.Float64(x), fx.Float64(y)
    inverse = 1.0 / divisor
    for _ in range(6):
        rest = fx.fma(-fx.trunc(rest * inverse), divisor, rest)
    size, sign = fx.absf(divisor), fx.copysign(fx.Float64(1.0), fx.Float64(x))
    rest = rest * sign
    rest = fx.Boolean(rest < 0.0).select(rest + size, rest)
    rest = fx.Boolean(rest >= size).select(rest - size, rest)
    is_whole = (size == float("inf")) & (fx.absf(fx.Float64(x)) < float("inf"))  # x itself is left
    return is_whole.select(fx.Float64(x), rest * sign).to(fx.Float32)


def remainder(x, y):
    """What x / y leaves, rounded down; it has the sign of y."""
    x, y = fx.Float32(x), fx.Float32(y)
    rest = fmod(x, y)
    return select((rest != 0.0) & ((rest < 0.0) != (y < 0.0)), rest + y, rest)


def floor_divide(x, y):
    """floor(x / y) by way of the exact remainder, as torch has it; x / y where y is 0."""
    x, y = fx.Float32(x), fx.Float32(y)
    rest = fmod(x, y)
    quotient = (x - rest) / y
    quotient = select((rest != 0.0) & ((rest < 0.0) != (y < 0.0)), quotient - 1.0, quotient)
    down = floor(quotient)
    down = select(quotient - down > 0.5, down + 1.0, down)
    down = select(quotient != 0.0, down, copysign(0.0, x / y))
    return select(y == 0.0, x / y, down)
