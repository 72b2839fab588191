"""Pointwise ops on one fp32 value in CuTe DSL by the hardware's approximations, for kernels that memory bounds.

A kernel.py takes over those that it uses, as they stand here. Relative errors are below 1e-6, and below 6e-6 where an
exponential of a value beyond 10 is involved (x * log2(e) is rounded to fp32); results below 1.2e-38 are 0. Each spends
at most two of the special functions that a quarter of the lanes share. NaN and infinities are as in torch.
"""

import cutlass
import cutlass.cute as cute
import shared


def sigmoid_approximate(x):
    """1 / (1 + exp(-x)); the reciprocal is of a quarter, for one that is a subnormal number would be 0."""
    return 0.25 * cute.math.rcp(0.25 + 0.25 * cute.math.exp(-x, fastmath=True), approx=True, ftz=True)


silu_approximate = shared.silu_approximate
gelu_tanh_approximate = shared.gelu_tanh_approximate


def gelu_erf_approximate(x):
    """x * Phi(x); Phi of -|x| is exp(-x * x / 2) by a polynomial of 1 / (1 + 0.3 * |x|), so that no digit cancels."""
    t = cute.math.rcp(1.0 + 0.3 * cute.math.abs(x), approx=True, ftz=True)
    tail = -0.15720225189756248 + 0.035674583463796365 * t
    tail = 0.20635201764502528 + tail * t
    tail = -0.05368222651573292 + tail * t
    tail = 0.12856085412295853 + tail * t
    tail = 0.09991373218812542 + tail * t
    tail = 0.1207539167345586 + tail * t
    tail = (0.11962930143820402 + tail * t) * t
    tail = tail * cute.math.exp2(x * x * -0.7213475204444817, fastmath=True)
    return x * cutlass.Float32(cutlass.select_(x > 0.0, 1.0 - tail, tail))


def log1p_exp_approximate(x):
    """log(1 + exp(-|x|)), by a polynomial of the exponential."""
    e = cute.math.exp(-cute.math.abs(x), fastmath=True)
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
    total = cute.arch.fmax(scaled, 0.0, nan=True) + log1p_exp_approximate(scaled)
    return cutlass.Float32(cutlass.select_(scaled > threshold, x, total * (1.0 / beta)))


def logsigmoid_approximate(x):
    """log(sigmoid(x))."""
    return cute.arch.fmin(x, 0.0, nan=True) - log1p_exp_approximate(x)


def mish_approximate(x):
    """x * tanh(softplus(x)), as x * n / (n + 2) with n = e * (e + 2), e = exp(x); beyond 20 the factor is 1."""
    e = cute.math.exp(cute.arch.fmin(x, 20.0, nan=True), fastmath=True)
    n = e * (e + 2.0)
    return x * (n * cute.math.rcp(n + 2.0, approx=True, ftz=True))


def softsign_approximate(x):
    """x / (1 + |x|)."""
    return divide_approximate(x, 1.0 + cute.math.abs(x))


def hardsigmoid_approximate(x):
    """clamp(x + 3, 0, 6) / 6."""
    return cute.arch.fmin(cute.arch.fmax(x + 3.0, 0.0, nan=True), 6.0, nan=True) * 0.16666666666666666


def hardswish_approximate(x):
    """x * clamp(x + 3, 0, 6) / 6."""
    return x * cute.arch.fmin(cute.arch.fmax(x + 3.0, 0.0, nan=True), 6.0, nan=True) * 0.16666666666666666


def divide_approximate(x, y):
    """x / y within two units in the last place, over the whole range."""
    return cute.math.div(cutlass.Float32(x), cutlass.Float32(y), full=True)
