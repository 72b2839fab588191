"""Pointwise ops on one fp32 value in FlyDSL by the hardware's approximations, for kernels that memory bounds.

A kernel.py takes over those that it uses, as they stand here; errors are those of hardware.py.
"""

import flydsl.expr as fx
import shared
from hardware import exp_approximate, maximum, minimum, normal_tail_approximate, reciprocal_approximate, select


def divide_approximate(x, y):
    """x / y within two units in the last place; a divisor whose inverse would be too small is scaled."""
    scale = select(fx.absf(fx.Float32(y)) > 7.9e28, 2.3283064365386963e-10, 1.0)
    return x * reciprocal_approximate(y * scale) * scale


def sigmoid_approximate(x):
    """1 / (1 + exp(-x))."""
    return reciprocal_approximate(1.0 + exp_approximate(-x))


silu_approximate = shared.silu_approximate
gelu_tanh_approximate = shared.gelu_tanh_approximate


def gelu_erf_approximate(x):
    """x * Phi(x), by the tail of -|x|, so that no digit cancels."""
    tail = normal_tail_approximate(fx.absf(x))
    return x * select(x > 0.0, 1.0 - tail, tail)


def log1p_exp_approximate(x):
    """log(1 + exp(-|x|)), by a polynomial of the exponential."""
    e = exp_approximate(-fx.absf(x))
    total = -0.02950524330238103 + 0.005232694622917235 * e
    total = 0.07822596516444183 + total * e
    total = -0.13663247540273277 + total * e
    total = 0.19106007963313326 + total * e
    total = -0.24842982661708457 + total * e
    total = 0.33319096893421907 + total * e
    total = -0.4999949314772597 + total * e
    return (0.9999999698813232 + total * e) * e


def softplus_approximate(x, beta, threshold):
    """log(1 + exp(beta * x)) / beta, and x itself where beta * x passes the threshold."""
    scaled = x * beta
    total = maximum(scaled, 0.0) + log1p_exp_approximate(scaled)
    return select(scaled > threshold, x, total * (1.0 / beta))


def logsigmoid_approximate(x):
    """log(sigmoid(x))."""
    return minimum(x, 0.0) - log1p_exp_approximate(x)


def mish_approximate(x):
    """x * tanh(softplus(x)), as x * n / (n + 2) with n = e * (e + 2), e = exp(x); beyond 20 the factor is 1."""
    e = exp_approximate(minimum(x, 20.0))
    n = e * (e + 2.0)
    return x * (n * reciprocal_approximate(n + 2.0))


def softsign_approximate(x):
    """x / (1 + |x|)."""
    return divide_approximate(x, 1.0 + fx.absf(x))


def hardsigmoid_approximate(x):
    """clamp(x + 3, 0, 6) / 6."""
    return minimum(maximum(x + 3.0, 0.0), 6.0) * 0.16666666666666666


def hardswish_approximate(x):
    """x * clamp(x + 3, 0, 6) / 6."""
    return x * minimum(maximum(x + 3.0, 0.0), 6.0) * 0.16666666666666666
