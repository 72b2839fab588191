"""The parse tree of a rules file: frozen statements and expressions, each with its place in the text.

Positions do not take part in equality, so `parse(print(rule)) == rule`. Numbers and conditions share one union;
`kgen.rules.symbolic` tells them apart when it resolves names.
"""

from dataclasses import dataclass, field

Value = int | str
Number = int | float


@dataclass(frozen=True, slots=True)
class Span:
    """1-based line and column of a construct in its file."""

    line: int = 0
    column: int = 0


_NOWHERE = Span()


@dataclass(frozen=True, slots=True)
class Literal:
    """A non-negative integer."""

    value: int
    span: Span = field(default=_NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Name:
    """An axis, let, fact, field, or a member of an enumeration."""

    name: str
    span: Span = field(default=_NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Negate:
    """Arithmetic minus."""

    operand: "Expr"
    span: Span = field(default=_NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`+ - * / %`; division is exact."""

    op: str
    left: "Expr"
    right: "Expr"
    span: Span = field(default=_NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Call:
    """One of `min max ceil_div floor gcd pow2`."""

    function: str
    arguments: tuple["Expr", ...]
    span: Span = field(default=_NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Compare:
    """`<= >= == != < >`."""

    op: str
    left: "Expr"
    right: "Expr"
    span: Span = field(default=_NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Member:
    """`operand in {...}`."""

    operand: "Expr"
    choices: tuple["Expr", ...]
    span: Span = field(default=_NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Divides:
    """`divisor divides operand`."""

    divisor: "Expr"
    operand: "Expr"
    span: Span = field(default=_NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Every:
    """Conjunction."""

    terms: tuple["Expr", ...]
    span: Span = field(default=_NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Either:
    """Disjunction."""

    terms: tuple["Expr", ...]
    span: Span = field(default=_NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Invert:
    """Logical not."""

    operand: "Expr"
    span: Span = field(default=_NOWHERE, compare=False, repr=False)


Expr = Literal | Name | Negate | Arithmetic | Call | Compare | Member | Divides | Every | Either | Invert


@dataclass(frozen=True, slots=True)
class RangeDomain:
    """`lo..hi step n`, both ends included."""

    lo: int
    hi: int
    step: int = 1

    @property
    def values(self) -> tuple[Value, ...]:
        """The members in ascending order."""
        return tuple(range(self.lo, self.hi + 1, self.step))


@dataclass(frozen=True, slots=True)
class ChoiceDomain:
    """`{...}` of integers or of names; the order is the order of preference in ties."""

    values: tuple[Value, ...]


Domain = RangeDomain | ChoiceDomain


@dataclass(frozen=True, slots=True)
class Axis:
    """A free choice of the kernel."""

    name: str
    domain: Domain
    because: str = ""
    source: str = ""
    span: Span = field(default=_NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Let:
    """A derived number; several lets of one name are its cases, the last one without `when`."""

    name: str
    value: Expr
    when: Expr | None = None
    because: str = ""
    source: str = ""
    span: Span = field(default=_NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition every candidate meets (where `when` holds)."""

    name: str
    condition: Expr
    because: str
    when: Expr | None = None
    source: str = ""
    span: Span = field(default=_NOWHERE, compare=False, repr=False)


Statement = Axis | Let | Rule


@dataclass(frozen=True, slots=True)
class RulesFile:
    """The statements of one file, in order; `lines` are its text for error messages."""

    name: str
    statements: tuple[Statement, ...]
    lines: tuple[str, ...] = field(default=(), compare=False, repr=False)


def parts_of(expr: Expr) -> tuple[Expr, ...]:
    """Return the expressions that an expression is directly made of, in order of appearance."""
    match expr:
        case Literal() | Name():
            return ()
        case Negate(operand) | Invert(operand):
            return (operand,)
        case Arithmetic(_, left, right) | Compare(_, left, right) | Divides(left, right):
            return (left, right)
        case Call(_, parts) | Every(parts) | Either(parts):
            return parts
        case Member(operand, choices):
            return (operand, *choices)


def names_of(expr: Expr | None) -> tuple[Name, ...]:
    """Return every name in an expression, in order of appearance."""
    if isinstance(expr, Name):
        return (expr,)
    return () if expr is None else tuple(name for part in parts_of(expr) for name in names_of(part))
