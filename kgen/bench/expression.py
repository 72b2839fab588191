"""Amounts of work written as arithmetic on numbers, e.g. 2*4096*4096*4096: parsed, never evaluated as Python."""

import ast
import math
import operator
from collections.abc import Callable, Mapping

from kgen.errors.bench import ExpressionError

_LONGEST = 500  # characters
_GREATEST = 1e30  # of any value on the way: far beyond any work, and no power takes long
_BINARY: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def amount(text: str, option: str) -> float:
    """Return the value of an expression, not negative; whole numbers stay exact. `option` names it in a refusal."""
    if len(text) > _LONGEST:
        raise ExpressionError(option=option, text=f"{text[:40]}...", reason=f"longer than {_LONGEST} characters")
    try:
        value = _value(ast.parse(text.strip(), mode="eval").body)
    except SyntaxError as error:
        raise ExpressionError(option=option, text=text, reason=error.msg) from None
    except (ArithmeticError, ValueError, RecursionError, MemoryError) as error:
        raise ExpressionError(option=option, text=text, reason=str(error) or "nested too deeply") from None
    if value < 0:
        raise ExpressionError(option=option, text=text, reason=f"it is {value}, and an amount is not negative")
    return value


def _value(node: ast.expr) -> float:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return _bounded(number)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _power(_value(left), _value(right))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _bounded(_BINARY[type(op)](_value(left), _value(right)))
    raise ValueError(f"{ast.unparse(node)!r} is no number")


def _power(base: float, exponent: float) -> float:
    if base < 0 and exponent != int(exponent):
        raise ValueError("a root of a negative number")
    if base and abs(exponent) * abs(math.log(abs(base))) > math.log(_GREATEST):
        raise ValueError(f"a power beyond {_GREATEST:g}")
    return _bounded(base**exponent)


def _bounded(number: float) -> float:
    if not abs(number) <= _GREATEST:  # NaN, too
        raise ValueError(f"a number beyond {_GREATEST:g}")
    return number
