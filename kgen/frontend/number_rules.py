"""Rules of torch's operations on numbers of any type: division, powers, bits, shifts, extrema, copies of a sign."""

from collections.abc import Callable
from math import log

import torch

from kgen.errors.frontend import UnsupportedOpError
from kgen.frontend.dtypes import TORCH_DTYPES
from kgen.frontend.pointwise import PointwiseCall
from kgen.ir.dtype import DType
from kgen.ir.pointwise import PointwiseOp as Op
from kgen.ir.problem import Const, Operand

Rule = Callable[[PointwiseCall], Operand]
INFINITY = Const(float("inf"))


def unary(op: Op) -> Rule:
    return lambda c: c.map(op, c.get("self"))


def binary(op: Op, first: str = "self", second: str = "other") -> Rule:
    return lambda c: c.map(op, c.get(first), c.get(second))


def rounding(op: Op) -> Rule:
    """Integers are whole already."""
    return lambda c: c.map(op, c.get("self")) if c.dtype.is_float else c.get("self")


def divide(c: PointwiseCall) -> Operand:
    x, y = c.get("self"), c.get("other")
    match c.call.args["rounding_mode"]:
        case None:
            return c.map(Op.DIV, x, y)
        case "floor":
            return c.map(Op.FLOOR_DIVIDE, x, y)
    if c.dtype.is_float:
        return c.map(Op.TRUNC, c.map(Op.DIV, x, y))
    return c.map(Op.TRUNC_DIVIDE, x, y)


def power(c: PointwiseCall) -> Operand:
    """Whole and half powers become products and roots, as torch computes them."""
    exponent = c.call.args["exponent"]
    if not c.dtype.is_float:
        return _integer_power(c)
    x = c.get("self")
    match exponent:
        case bool():
            pass
        case 1:
            return x
        case 2:
            return c.map(Op.MUL, x, x)
        case 3:
            return c.map(Op.MUL, c.map(Op.MUL, x, x), x)
        case 0.5:
            return c.map(Op.SQRT, x)
        case -0.5:
            return c.map(Op.RSQRT, x)
        case -1:
            return c.map(Op.RECIPROCAL, x)
        case -2:
            return c.map(Op.RECIPROCAL, c.map(Op.MUL, x, x))
    return c.map(Op.POW, x, c.get("exponent"))


def _integer_power(c: PointwiseCall) -> Operand:
    """A power by a number is a product of squares; 2 ** x is a shift, which is 0 for negative x as the power is."""
    exponent = c.call.args["exponent"]
    if c.call.args["self"] == 2:
        return c.map(Op.SHIFT_LEFT, c.number(1), c.get("exponent"))
    if not isinstance(exponent, bool | int) or exponent < 0:
        covered = "covered: a number that is not negative as the exponent, or 2 as the base"
        raise UnsupportedOpError(where=c.node.where, op=c.node.op, place=f"on {c.dtype} values", covered=covered)
    square, result, rest = c.get("self"), None, int(exponent)
    while rest:
        if rest & 1:
            result = square if result is None else c.map(Op.MUL, result, square)
        rest >>= 1
        square = c.map(Op.MUL, square, square) if rest else square
    return c.number(1) if result is None else result


def square(c: PointwiseCall) -> Operand:
    return c.map(Op.MUL, c.get("self"), c.get("self"))


def relu(c: PointwiseCall) -> Operand:
    x = c.get("self")
    return c.map(Op.RELU, x) if c.dtype.is_float else c.map(Op.MAXIMUM, x, c.number(0))


def sign(c: PointwiseCall) -> Operand:
    return c.get("self") if c.dtype is DType.BOOL else c.map(Op.SIGN, c.get("self"))


def bitwise(on_integers: Op, on_bools: Op) -> Rule:
    """On bools these are the logical operations."""

    def rule(c: PointwiseCall) -> Operand:
        operands = [c.get(name) for name in ("self", "other") if name in c.call.args]
        if c.dtype is DType.BOOL:
            return c.test(on_bools, *operands)
        return c.map(on_integers, *operands)

    return rule


def clamp(c: PointwiseCall) -> Operand:
    value = c.get("self")
    if c.call.args["min"] is not None:
        value = c.map(Op.MAXIMUM, value, bound(c, "min"))
    if c.call.args["max"] is not None:
        value = c.map(Op.MINIMUM, value, bound(c, "max"))
    return value


def bound(c: PointwiseCall, name: str) -> Operand:
    """Return a limit; on integers it must fit, as in torch."""
    return c.get(name) if c.dtype.is_float else c.fill(name)


def extremum(op: Op, other: str) -> Rule:
    return lambda c: c.map(op, c.get("self"), bound(c, other))


def quiet_extremum(op: Op) -> Rule:
    """fmax and fmin: NaN only where both are."""

    def rule(c: PointwiseCall) -> Operand:
        x, y = c.get("self"), c.get("other")
        extreme = c.map(op, x, y)
        if not c.dtype.is_float:
            return extreme
        return where(c, c.test(Op.NE, y, y), x, where(c, c.test(Op.NE, x, x), y, extreme))

    return rule


def where(c: PointwiseCall, condition: Operand, yes: Operand, no: Operand) -> Operand:
    return c.map(Op.WHERE, condition, yes, no)


def signbit(c: PointwiseCall) -> Operand:
    source = c.body.graph.type_of(c.call.ref("self")).dtype
    x = c.raw(c.call.ref("self"))
    if not source.is_float:
        return c.test(Op.LT, x, Const(0))
    wide = DType.FP64 if source is DType.FP64 else DType.FP32
    return c.test(Op.LT, c.body.map(Op.COPYSIGN, (Const(1.0), x), wide), Const(0.0))


def isnan(c: PointwiseCall) -> Operand:
    x = c.raw(c.call.ref("self"))
    return c.test(Op.NE, x, x)


def magnitude_test(op: Op, *, on_integers: bool) -> Rule:
    """isinf and isfinite: |x| against infinity."""

    def rule(c: PointwiseCall) -> Operand:
        dtype = c.body.graph.type_of(c.call.ref("self")).dtype
        if not dtype.is_float:
            return Const(on_integers)
        wide = DType.FP64 if dtype is DType.FP64 else DType.FP32
        x = c.raw(c.call.ref("self"))
        size = Const(abs(x.value)) if isinstance(x, Const) else c.body.map(Op.ABS, (x,), wide)
        return c.test(op, size, INFINITY)

    return rule


def infinity_test(value: float) -> Rule:
    """isposinf and isneginf."""

    def rule(c: PointwiseCall) -> Operand:
        if not c.body.graph.type_of(c.call.ref("self")).dtype.is_float:
            return Const(False)
        return c.test(Op.EQ, c.raw(c.call.ref("self")), Const(value))

    return rule


def heaviside(c: PointwiseCall) -> Operand:
    x = c.get("self")
    step = where(c, c.test(Op.GT, x, c.number(0)), c.number(1), c.number(0))
    return where(c, c.test(Op.EQ, x, c.number(0)), c.get("values"), step)


def nan_to_num(c: PointwiseCall) -> Operand:
    x = c.get("self")
    if not c.dtype.is_float:
        return x
    x = where(c, c.test(Op.NE, x, x), _replacement(c, "nan", 0.0), x)
    largest = torch.finfo(TORCH_DTYPES[c.dtype]).max
    x = where(c, c.test(Op.EQ, x, INFINITY), _replacement(c, "posinf", largest), x)
    return where(c, c.test(Op.EQ, x, Const(-INFINITY.value)), _replacement(c, "neginf", -largest), x)


def _replacement(c: PointwiseCall, name: str, default: float) -> Operand:
    value = c.call.args[name]
    return Const(default) if value is None else c.number(c.call.number(name), exact=False)


def scaled_by(factor: float) -> Rule:
    return lambda c: c.map(Op.MUL, c.get("self"), c.number(factor))


LOG2_E = 1.0 / log(2.0)
