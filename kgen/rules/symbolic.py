"""Parse tree to sympy to a numpy function: the one place where names get their meaning.

Every sympy symbol is made by `symbol()`, so that one name is one symbol; text is never sympified. Functions that sympy
would rewrite slowly or print for scalars only (min, mod, and, ...) stay opaque and are bound to numpy here. A value of
an enumeration is the index of its member, so columns hold integers only.
"""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any, assert_never

import numpy as np
import sympy
import sympy.tensor.tensor  # the first sum imports it anyway; here it counts as an import and not as solving
from sympy.core.function import UndefinedFunction
from sympy.printing.numpy import NumPyPrinter

from kgen.errors.base import Where
from kgen.errors.rules import RuleKindError, UnknownNameError
from kgen.rules.arithmetic import ceil_div
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
    Span,
    Value,
)
from kgen.rules.nearest import nearest_name
from kgen.rules.printer import print_expr

Column = Any  # an int64 array, or a scalar that broadcasts


@dataclass(frozen=True, slots=True)
class Numeric:
    """Kind of an expression: a number."""

    def __str__(self) -> str:
        return "a number"


@dataclass(frozen=True, slots=True)
class Boolean:
    """Kind of an expression: a condition."""

    def __str__(self) -> str:
        return "a condition"


@dataclass(frozen=True, slots=True)
class Enumeration:
    """Kind of an expression: one of named members."""

    members: tuple[str, ...]

    def __str__(self) -> str:
        return f"one of {{{', '.join(self.members)}}}"


Kind = Numeric | Boolean | Enumeration


def kind_of(choices: tuple[Value, ...]) -> Kind:
    """Return the kind of a name that takes these values (no values: any number)."""
    names = tuple(c for c in choices if isinstance(c, str))
    return Enumeration(names) if names else Numeric()


def encode(kind: Kind, value: Value | float) -> int | float:
    """Return a value as it stands in a column."""
    if isinstance(kind, Enumeration):
        return kind.members.index(str(value))
    assert not isinstance(value, str)
    return value


def decode(kind: Kind, stored: int | float) -> Value | float:
    """Return the value a column entry stands for; whole floats become integers."""
    if isinstance(kind, Enumeration):
        return kind.members[int(stored)]
    return int(stored) if float(stored).is_integer() else float(stored)


@dataclass(frozen=True, slots=True)
class Formula:
    """A compiled expression: the names it reads and the function over their columns."""

    names: tuple[str, ...]
    call: Callable[..., Column]

    def __call__(self, columns: Mapping[str, Column]) -> Column:
        """Evaluate over columns or scalars."""
        return self.call(*[columns[name] for name in self.names])


def symbol(name: str) -> sympy.Symbol:
    """Return the symbol of a name: always without assumptions, so that equal names are equal symbols."""
    return sympy.Symbol(name)


def _is_power_of_two(value: Column) -> Column:
    whole = np.asarray(value).astype(np.int64)
    return (whole > 0) & (whole & (whole - 1) == 0) & (whole == value)


def _fold(function: Callable[[Column, Column], Column]) -> Callable[..., Column]:
    return lambda *columns: reduce(function, columns)


# name in generated code -> numpy meaning
_MEANING: dict[str, Callable[..., Column]] = {
    "least": _fold(np.minimum),
    "greatest": _fold(np.maximum),
    "ceil_div": ceil_div,
    "round_down": np.floor,
    "common_divisor": np.gcd,
    "is_power_of_two": _is_power_of_two,
    "modulo": np.mod,
    "every_of": _fold(np.logical_and),
    "any_of": _fold(np.logical_or),
    "is_not": np.logical_not,
    "pick": np.where,
}
_OPAQUE: dict[str, UndefinedFunction] = {name: sympy.Function(name) for name in _MEANING}
_COMPARISONS = {
    "<=": ("less_equal", sympy.Le),
    "<": ("less", sympy.Lt),
    ">=": ("greater_equal", sympy.Ge),
    ">": ("greater", sympy.Gt),
    "==": ("equal", sympy.Eq),
    "!=": ("not_equal", sympy.Ne),
}
_NAMESPACE: dict[str, Callable[..., Column]] = {
    **_MEANING,
    **{name: getattr(np, name) for name, _ in _COMPARISONS.values()},
}
_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": _OPAQUE["modulo"],
}
# language function -> (opaque function, least and most arguments, kind of the result)
FUNCTIONS: dict[str, tuple[str, int, int, Kind]] = {
    "min": ("least", 2, 9, Numeric()),
    "max": ("greatest", 2, 9, Numeric()),
    "ceil_div": ("ceil_div", 2, 2, Numeric()),
    "floor": ("round_down", 1, 1, Numeric()),
    "gcd": ("common_divisor", 2, 2, Numeric()),
    "pow2": ("is_power_of_two", 1, 1, Boolean()),
}


@dataclass(frozen=True, slots=True)
class Scope:
    """Names that an expression may use, with their kinds; `file` and `lines` place its errors."""

    kinds: Mapping[str, Kind]
    file: str
    lines: tuple[str, ...]

    def where(self, span: Span) -> Where:
        """Return a place in this file."""
        known = 0 < span.line <= len(self.lines)
        return Where(self.file, span.line, span.column, self.lines[span.line - 1] if known else "")

    def number(self, expr: Expr) -> sympy.Basic:
        """Return a number as a sympy expression."""
        return self._as(expr, Numeric())

    def condition(self, expr: Expr) -> sympy.Basic:
        """Return a condition as a sympy expression."""
        return self._as(expr, Boolean())

    def _as(self, expr: Expr, wanted: Kind) -> sympy.Basic:
        built, kind = self._build(expr, None)
        if kind != wanted:
            raise RuleKindError(where=self.where(expr.span), text=print_expr(expr), found=kind, wanted=wanted)
        return built

    def _build(self, expr: Expr, partner: Enumeration | None) -> tuple[sympy.Basic, Kind]:
        """Return expression and kind; `partner` is the enumeration that the other side of a comparison has."""
        match expr:
            case Literal(value):
                return sympy.Integer(value), Numeric()
            case Name():
                return self._name(expr, partner)
            case Negate(operand):
                return -self.number(operand), Numeric()
            case Arithmetic(op, left, right):
                return _ARITHMETIC[op](self.number(left), self.number(right)), Numeric()
            case Call():
                return self._call(expr)
            case Compare(op, left, right):
                sides = self._alike(left, (right,))
                return _COMPARISONS[op][1](*sides, evaluate=False), Boolean()
            case Member(operand, choices):
                first, *others = self._alike(operand, choices)
                tests = [sympy.Eq(first, other, evaluate=False) for other in others]
                return (_OPAQUE["any_of"](*tests) if len(tests) > 1 else tests[0]), Boolean()
            case Divides(divisor, operand):
                rest = _OPAQUE["modulo"](self.number(operand), self.number(divisor))
                return sympy.Eq(rest, 0, evaluate=False), Boolean()
            case Every(terms):
                return _OPAQUE["every_of"](*[self.condition(t) for t in terms]), Boolean()
            case Either(terms):
                return _OPAQUE["any_of"](*[self.condition(t) for t in terms]), Boolean()
            case Invert(operand):
                return _OPAQUE["is_not"](self.condition(operand)), Boolean()
            case _:
                assert_never(expr)

    def _name(self, expr: Name, partner: Enumeration | None) -> tuple[sympy.Basic, Kind]:
        if partner and expr.name in partner.members:
            return sympy.Integer(partner.members.index(expr.name)), partner
        if expr.name in self.kinds:
            return symbol(expr.name), self.kinds[expr.name]
        known = partner.members if partner else (*self.kinds, *FUNCTIONS)
        raise UnknownNameError(where=self.where(expr.span), name=expr.name, nearest=nearest_name(expr.name, known))

    def _call(self, expr: Call) -> tuple[sympy.Basic, Kind]:
        if expr.function not in FUNCTIONS:
            near = nearest_name(expr.function, tuple(FUNCTIONS))
            raise UnknownNameError(where=self.where(expr.span), name=expr.function, nearest=near)
        name, least, most, kind = FUNCTIONS[expr.function]
        if not least <= len(expr.arguments) <= most:
            found, wanted = f"a call with {len(expr.arguments)} arguments", f"{least} to {most}"
            raise RuleKindError(where=self.where(expr.span), text=print_expr(expr), found=found, wanted=wanted)
        return _OPAQUE[name](*[self.number(a) for a in expr.arguments]), kind

    def _alike(self, first: Expr, others: tuple[Expr, ...]) -> list[sympy.Basic]:
        """Return operands of one kind: all numbers, or all of one enumeration."""
        exprs = (first, *others)
        kinds = [self.kinds.get(e.name) for e in exprs if isinstance(e, Name)]
        partner = next((k for k in kinds if isinstance(k, Enumeration)), None)
        built = [self._build(e, partner) for e in exprs]
        wanted = partner or Numeric()
        for expr, (_, kind) in zip(exprs, built, strict=True):
            if kind != wanted:
                raise RuleKindError(where=self.where(expr.span), text=print_expr(expr), found=kind, wanted=wanted)
        return [b for b, _ in built]


def pick(condition: sympy.Basic, chosen: sympy.Basic, otherwise: sympy.Basic) -> sympy.Basic:
    """Return the choice between two numbers, the piecewise form that several lets of one name take."""
    return _OPAQUE["pick"](condition, chosen, otherwise)


@cache
def compile_formula(expr: sympy.Basic) -> Formula:
    """Return an expression as a function over numpy columns."""
    symbols = sorted(expr.atoms(sympy.Symbol), key=lambda s: s.name)
    printer = NumPyPrinter(
        {
            "fully_qualified_modules": False,
            "allow_unknown_functions": True,
            "user_functions": {name: name for name in _MEANING},
        }
    )
    call = sympy.lambdify(symbols, expr, modules=[_NAMESPACE], printer=printer, docstring_limit=0)
    return Formula(tuple(s.name for s in symbols), call)
