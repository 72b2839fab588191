"""What other functions of this folder are made of, in FlyDSL: a choice, and the hardware's approximations in fp32.

A kernel.py takes over those that it uses, as they stand here. Relative errors are below 1e-6, and below 6e-6 where an
exponential of a value beyond 10 is involved (x * log2(e) is rounded to fp32); results below 1.2e-38 may be 0. NaN and
infinities are as in torch: `afn` allows approximations, and nothing else of what "fast" allows.
"""

import flydsl.expr as fx


def select(condition, if_true, if_false):
    """One of two fp32 values; both are evaluated."""
    return fx.Boolean(condition).select(fx.Float32(if_true), fx.Float32(if_false))


def maximum(x, y):
    """The larger value; NaN if either is NaN."""
    return fx.max(fx.Float32(x), fx.Float32(y))


def minimum(x, y):
    """The smaller value; NaN if either is NaN."""
    return fx.min(fx.Float32(x), fx.Float32(y))


def exp2_approximate(x):
    """2 ** x."""
    return fx.exp2(fx.Float32(x), fastmath=fx.FastMathFlags.afn)


def exp_approximate(x):
    """e ** x."""
    return exp2_approximate(x * 1.4426950408889634)


def sqrt_approximate(x):
    """The square root."""
    return fx.sqrt(x, fastmath=fx.FastMathFlags.afn)


def rsqrt_approximate(x):
    """1 / sqrt(x)."""
    return fx.rsqrt(x, fastmath=fx.FastMathFlags.afn | fx.FastMathFlags.arcp | fx.FastMathFlags.contract)


def reciprocal_approximate(x):
    """1 / x."""
    with fx.fastmath(fx.FastMathFlags.afn | fx.FastMathFlags.arcp):
        return 1.0 / x


def normal_tail_approximate(size):
    """Phi(-size) of a size that is not negative: exp(-size * size / 2) by a polynomial of 1 / (1 + 0.3 * size)."""
    t = reciprocal_approximate(1.0 + 0.3 * size)
    tail = -0.15720225189756248 + 0.035674583463796365 * t
    tail = 0.20635201764502528 + tail * t
    tail = -0.05368222651573292 + tail * t
    tail = 0.12856085412295853 + tail * t
    tail = 0.09991373218812542 + tail * t
    tail = 0.1207539167345586 + tail * t
    return (0.11962930143820402 + tail * t) * t * exp2_approximate(size * size * -0.7213475204444817)


def rounded(x, kind):
    """x rounded to a narrower type, in fp32. Products and sums may contract; two conversions would then vanish."""
    with fx.fastmath(fx.FastMathFlags.none):
        return x.to(kind).to(fx.Float32)
