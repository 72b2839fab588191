"""Pointwise ops on integers of any width in FlyDSL; a kernel.py takes over those that it uses, as they stand here.

Both operands have one type, `kind` where it is named. The DSL's `//` rounds down and its `%` towards zero, `/` gives
fp32, and arithmetic of two widths widens.
"""

import flydsl.expr as fx
import shared


def choose(kind, condition, if_true, if_false):
    """One of two values of a type; both are evaluated."""
    return fx.Boolean(condition).select(kind(if_true), kind(if_false))


sign_int = shared.sign_int
trunc_divide_int = shared.trunc_divide_int
remainder_int = shared.remainder_int
shift_left = shared.shift_left
shift_right = shared.shift_right
shift_right_unsigned = shared.shift_right_unsigned
