"""Pointwise ops on one fp64 value in FlyDSL, where those of pointwise.py compute in fp32.

A kernel.py takes over those that it uses, as they stand here.
"""

import flydsl.expr as fx
import shared


def select_f64(condition, if_true, if_false):
    """One of two fp64 values; both are evaluated."""
    return fx.Boolean(condition).select(fx.Float64(if_true), fx.Float64(if_false))


def floor_f64(x):
    """The largest whole number that is not above x."""
    near = fx.roundeven(x)
    return near - select_f64(near > x, 1.0, 0.0)


def ceil_f64(x):
    """The smallest whole number that is not below x."""
    near = fx.roundeven(x)
    return fx.copysign(near + select_f64(near < x, 1.0, 0.0), x)


def relu_f64(x):
    """max(x, 0); NaN stays NaN."""
    return fx.max(x, fx.Float64(0.0))


sign_f64 = shared.sign_f64
leaky_relu_f64 = shared.leaky_relu_f64


def hardsigmoid_f64(x):
    """clamp(x + 3, 0, 6) / 6."""
    return fx.min(fx.max(x + 3.0, fx.Float64(0.0)), fx.Float64(6.0)) / 6.0


def hardswish_f64(x):
    """x * clamp(x + 3, 0, 6) / 6."""
    return x * hardsigmoid_f64(x)
