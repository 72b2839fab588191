"""Print rules back as text: the words and order of the file, with the fewest parentheses that keep the tree."""

from typing import assert_never

from kgen.rules.model import (
    Arithmetic,
    Axis,
    Call,
    ChoiceDomain,
    Compare,
    Divides,
    Domain,
    Either,
    Every,
    Expr,
    Invert,
    Let,
    Literal,
    Member,
    Name,
    Negate,
    RangeDomain,
    Rule,
    RulesFile,
    Statement,
)

# Binding strength of each level of the grammar, weakest first.
_EITHER, _EVERY, _INVERT, _COMPARE, _SUM, _TERM, _FACTOR, _ATOM = range(8)


def print_file(file: RulesFile) -> str:
    """Return a rules file as text."""
    return "".join(f"{print_statement(s)}\n" for s in file.statements)


def print_statement(statement: Statement) -> str:
    """Return one statement as one line."""
    match statement:
        case Axis(name, domain):
            head = f"axis {name} in {print_domain(domain)}"
        case Let(name, value, when):
            head = f"let {name} = {print_expr(value)}{_when(when)}"
        case Rule(name, condition, _, when):
            head = f"rule {name}: {print_expr(condition)}{_when(when)}"
        case _:
            assert_never(statement)
    because = f' because "{statement.because}"' if statement.because or isinstance(statement, Rule) else ""
    return head + because + (f" source {statement.source}" if statement.source else "")


def print_condition(rule: Rule) -> str:
    """Return what a rule demands, with its `when`."""
    return print_expr(rule.condition) + _when(rule.when)


def print_domain(domain: Domain) -> str:
    """Return an axis domain."""
    match domain:
        case RangeDomain(lo, hi, step):
            return f"{lo}..{hi}" + (f" step {step}" if step != 1 else "")
        case ChoiceDomain(values):
            return "{" + ", ".join(str(v) for v in values) + "}"
        case _:
            assert_never(domain)


def print_expr(expr: Expr, level: int = _EITHER) -> str:
    """Return an expression; `level` is the binding strength its surroundings need."""
    own, text = _print(expr)
    return f"({text})" if own < level else text


def _when(expr: Expr | None) -> str:
    return f" when {print_expr(expr)}" if expr is not None else ""


def _print(expr: Expr) -> tuple[int, str]:
    match expr:
        case Literal(value):
            return _ATOM, str(value)
        case Name(name):
            return _ATOM, name
        case Call(function, arguments):
            return _ATOM, f"{function}({', '.join(print_expr(a) for a in arguments)})"
        case Negate(operand):
            return _FACTOR, f"-{print_expr(operand, _FACTOR)}"
        case Arithmetic(op, left, right):
            own = _SUM if op in "+-" else _TERM
            return own, f"{print_expr(left, own)} {op} {print_expr(right, own + 1)}"
        case Compare(op, left, right):
            return _COMPARE, f"{print_expr(left, _SUM)} {op} {print_expr(right, _SUM)}"
        case Member(operand, choices):
            shown = ", ".join(print_expr(c, _SUM) for c in choices)
            return _COMPARE, f"{print_expr(operand, _SUM)} in {{{shown}}}"
        case Divides(divisor, operand):
            return _COMPARE, f"{print_expr(divisor, _SUM)} divides {print_expr(operand, _SUM)}"
        case Invert(operand):
            return _INVERT, f"not {print_expr(operand, _INVERT)}"
        case Every(terms):
            return _EVERY, " and ".join(print_expr(t, _INVERT) for t in terms)
        case Either(terms):
            return _EITHER, " or ".join(print_expr(t, _EVERY) for t in terms)
        case _:
            assert_never(expr)
