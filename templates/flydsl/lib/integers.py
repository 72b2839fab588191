"""Pointwise ops on integers of any width in FlyDSL; a kernel.py takes over those that it uses, as they stand here.

Both operands have one type, `kind` where it is named. The DSL's `//` rounds down and its `%` towards zero, `/` gives
fp32, and arithmetic of two widths widens.
"""

import flydsl.expr as fx


def choose(kind, condition, if_true, if_false):
    """One of two values of a type; both are evaluated."""
    return fx.Boolean(condition).select(kind(if_true), kind(if_false))


def sign_int(kind, x):
    """-1, 0 or 1."""
    return choose(kind, x > kind(0), kind(1), choose(kind, x < kind(0), kind(-1), kind(0)))


def trunc_divide_int(x, y):
    """x / y, rounded towards zero."""
    return (x - x % y) // y


def remainder_int(kind, x, y):
    """What floor division leaves; it has the sign of y."""
    rest = x % y
    return choose(kind, (rest != kind(0)) & ((rest ^ y) < kind(0)), rest + y, rest)


def shift_left(kind, x, bits):
    """x << bits, and 0 where the type has no such bit."""
    inside = (bits >= kind(0)) & (bits < kind(kind.width))
    return choose(kind, inside, x << choose(kind, inside, bits, kind(0)), kind(0))


def shift_right(kind, x, bits):
    """x >> bits, filled with the sign; a shift that is negative or too wide leaves nothing else."""
    most = kind(kind.width - 1)
    inside = (bits >= kind(0)) & (bits < most)
    return x >> choose(kind, inside, bits, most)


def shift_right_unsigned(kind, x, bits):
    """x >> bits, and 0 where the type has no such bit."""
    inside = bits < kind(kind.width)
    return choose(kind, inside, x >> choose(kind, inside, bits, kind(0)), kind(0))
