"""Evaluate the parse tree at one point in plain Python: exact, and independent of the compiled formulas.

Explanations show these values; property tests hold the compiled formulas against them.
"""

import math
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import assert_never

from kgen.rules.model import (
    Arithmetic,
    Call,
    Compare,
    Divides,
    Either,
    Every,
    Expr,
    Invert,
    Literal,
    Member,
    Name,
    Negate,
    Value,
)
from kgen.rules.ruleset import CompiledLet, RuleSet
from kgen.rules.symbolic import Enumeration, Kind

Exact = int | float | Fraction | str

_COMPARE: dict[str, Callable[[Exact, Exact], bool]] = {
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
    "==": operator.eq,
    "!=": operator.ne,
}


class Evaluator:
    """Values of all names at one point; lets are evaluated in file order when it is made."""

    def __init__(self, rules: RuleSet, facts: Mapping[str, Value | float], point: Mapping[str, Value]) -> None:
        self.kinds: Mapping[str, Kind] = rules.kinds
        self.values: dict[str, Exact] = {**facts, **point}
        for let in rules.lets:
            self.values[let.name] = self._let(let)

    def _let(self, let: CompiledLet) -> Exact:
        case = next(c for c in let.cases if c.when is None or self.holds(c.when))
        return self.number(case.value)

    def holds(self, expr: Expr) -> bool:
        """Return whether a condition is met."""
        match expr:
            case Compare(op, left, right):
                return _COMPARE[op](*self.sides(left, right))
            case Member(operand, choices):
                first, *others = self.sides(operand, *choices)
                return first in others
            case Divides(divisor, operand):
                return self.number(operand) % self.number(divisor) == 0
            case Every(terms):
                return all(self.holds(t) for t in terms)
            case Either(terms):
                return any(self.holds(t) for t in terms)
            case Invert(operand):
                return not self.holds(operand)
            case Call("pow2", (operand,)):
                number = self.number(operand)
                return number > 0 and number == int(number) and int(number) & (int(number) - 1) == 0
            case _:
                raise AssertionError(f"not a condition: {expr}")

    def number(self, expr: Expr) -> int | float | Fraction:
        """Return the value of a number; whole results are integers."""
        value = self._number(expr)
        return int(value) if isinstance(value, Fraction) and value.denominator == 1 else value

    def _number(self, expr: Expr) -> int | float | Fraction:
        match expr:
            case Literal(value):
                return value
            case Name(name):
                known = self.values[name]
                assert not isinstance(known, str)
                return known
            case Negate(operand):
                return -self.number(operand)
            case Arithmetic(op, left, right):
                return _arithmetic(op, self.number(left), self.number(right))
            case Call(function, arguments):
                return _call(function, [self.number(a) for a in arguments])
            case Compare() | Member() | Divides() | Every() | Either() | Invert():
                raise AssertionError(f"not a number: {expr}")
            case _:
                assert_never(expr)

    def sides(self, *exprs: Expr) -> list[Exact]:
        """Return operands of a comparison: numbers, or members of the enumeration that one of them has."""
        kinds = [self.kinds.get(e.name) for e in exprs if isinstance(e, Name)]
        members = next((k.members for k in kinds if isinstance(k, Enumeration)), None)
        if members is None:
            return [self.number(e) for e in exprs]
        names = [e.name for e in exprs if isinstance(e, Name)]
        return [name if name in members else self.values[name] for name in names]


def _arithmetic(op: str, left: int | float | Fraction, right: int | float | Fraction) -> int | float | Fraction:
    match op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "%":
            return left % right
        case "/":
            exact = not isinstance(left, float) and not isinstance(right, float)
            return Fraction(left) / Fraction(right) if exact else float(left) / float(right)
        case _:
            raise AssertionError(f"no operator of the language: {op}")


def _call(function: str, arguments: list[int | float | Fraction]) -> int | float | Fraction:
    match function:
        case "min":
            return min(arguments)
        case "max":
            return max(arguments)
        case "floor":
            return math.floor(arguments[0])
        case "gcd":
            return math.gcd(*(int(a) for a in arguments))
        case "ceil_div":
            return -(-arguments[0] // arguments[1])
        case _:
            raise AssertionError(f"no numeric function of the language: {function}")
