"""Pointwise ops on integers of any width in CuTe DSL; a kernel.py takes over those that it uses, as they stand here.

Both operands have one type, `kind` where it is named. The DSL's `//` rounds down and its `%` towards zero, `/` gives
fp32, and arithmetic of two widths widens.
"""

import cutlass
import shared


def choose(kind, condition, if_true, if_false):
    """One of two values of a type; both are evaluated."""
    return kind(cutlass.select_(cutlass.Boolean(condition), kind(if_true), kind(if_false)))


def maximum_int(kind, x, y):
    """The larger value."""
    return choose(kind, x > y, x, y)


def minimum_int(kind, x, y):
    """The smaller value."""
    return choose(kind, x < y, x, y)


sign_int = shared.sign_int
trunc_divide_int = shared.trunc_divide_int
remainder_int = shared.remainder_int
shift_left = shared.shift_left
shift_right = shared.shift_right
shift_right_unsigned = shared.shift_right_unsigned
