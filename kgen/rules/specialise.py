"""Rules as an emitted kernel carries them: facts folded in, what always holds left out, printed as Python.

Folding works on the parse tree, so what remains keeps the words and the order of the rules file. The choices that a
kernel keeps as constants stay names; the others (which template it is) are folded like facts.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import assert_never

from kgen.rules.evaluate import Evaluator
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
    names_of,
    parts_of,
)
from kgen.rules.ruleset import CompiledLet
from kgen.rules.solve import BoundRules

Folded = Expr | bool


@dataclass(frozen=True, slots=True)
class KernelCheck:
    """A rule of one kernel: in the words of the rules file, as a Python condition over its constants, and why."""

    rule: str
    text: str
    condition: str
    because: str


@dataclass(frozen=True, slots=True)
class KernelRules:
    """The lets that the checks read (name, Python expression), in order, and the checks."""

    derived: tuple[tuple[str, str], ...]
    checks: tuple[KernelCheck, ...]


def kernel_rules(
    bound: BoundRules, point: Mapping[str, Value], constants: tuple[str, ...], rename: Callable[[str], str] = str
) -> KernelRules:
    """Return the rules that a change of `constants` could break, as Python.

    Constants are axes, and lets that the kernel keeps as numbers of their own. `rename` spells an axis or a let:
    `"v." + name`, or the variable that the let becomes.
    """
    fold = _Fold(bound, point, constants)
    checks, used = [], set[str]()
    for rule in bound.rules.rules:
        applies = True if rule.rule.when is None else fold.condition(rule.rule.when)
        condition = fold.condition(rule.rule.condition)
        whole = _either(_invert(applies), condition)
        if not isinstance(whole, bool):
            used |= {n.name for n in names_of(whole)}
            python = _Python(rename).text(whole)
            checks.append(KernelCheck(rule.name, rule.text, python, rule.rule.because))
    derived = []
    for let in reversed(bound.rules.lets):
        if let.name in used and let.name in fold.open_lets:
            cases = fold.open_lets[let.name]
            used |= {
                n.name for when, value in cases for e in (when, value) if not isinstance(e, bool) for n in names_of(e)
            }
            derived.append((let.name, _Python(rename).cases(cases)))
    return KernelRules(tuple(reversed(derived)), tuple(checks))


class _Fold:
    """Replaces what is known at a point by literals; lets that depend on the constants stay names."""

    def __init__(self, bound: BoundRules, point: Mapping[str, Value], constants: tuple[str, ...]) -> None:
        self.at = Evaluator(bound.rules, bound.facts, point)
        self.open = set(constants)
        self.open_lets: dict[str, tuple[tuple[Folded, Expr], ...]] = {}
        self.known: dict[int, bool] = {}  # by the identity of a node of the rules' trees, which outlive this
        for let in bound.rules.lets:
            if let.name not in self.open:
                self._let(let)

    def _let(self, let: CompiledLet) -> None:
        cases: list[tuple[Folded, Expr]] = []
        for case in let.cases:
            when = True if case.when is None else self.condition(case.when)
            if when is not False:
                cases.append((when, self.number(case.value)))
            if when is True:
                break
        if len(cases) > 1 or names_of(cases[0][1]):
            self.open.add(let.name)
            self.open_lets[let.name] = tuple(cases)

    def _known(self, expr: Expr) -> bool:
        """Whether no name in an expression is open; those of a let are all decided before it is read."""
        if isinstance(expr, Name):
            return expr.name not in self.open
        found = self.known.get(id(expr))
        if found is None:
            found = self.known[id(expr)] = all(self._known(part) for part in parts_of(expr))
        return found

    def number(self, expr: Expr) -> Expr:
        """Return a number with its known parts folded."""
        if self._known(expr):
            value = self.at.number(expr)
            if isinstance(value, int):
                return Literal(value) if value >= 0 else Negate(Literal(-value))
        match expr:
            case Arithmetic(op, left, right):
                return _arithmetic(op, self.number(left), self.number(right))
            case Call(function, arguments):
                return Call(function, tuple(self.number(a) for a in arguments))
            case Negate(operand):
                return Negate(self.number(operand))
            case _:
                return expr

    def condition(self, expr: Expr) -> Folded:
        """Return a condition with its known parts folded."""
        if self._known(expr):
            return self.at.holds(expr)
        match expr:
            case Compare(op, left, right):
                return Compare(op, self.number(left), self.number(right))
            case Member(operand, choices):
                return Member(self.number(operand), tuple(self.number(c) for c in choices))
            case Divides(divisor, operand):
                divisor = self.number(divisor)
                return True if divisor == Literal(1) else Divides(divisor, self.number(operand))
            case Every(terms):
                return _invert(_either(*(_invert(self.condition(t)) for t in terms)))
            case Either(terms):
                return _either(*(self.condition(t) for t in terms))
            case Invert(operand):
                return _invert(self.condition(operand))
            case _:
                return self.number(expr)


def _arithmetic(op: str, left: Expr, right: Expr) -> Expr:
    one, zero = Literal(1), Literal(0)
    if op == "*" and one in (left, right):
        return right if left == one else left
    if op == "+" and zero in (left, right):
        return right if left == zero else left
    if (op == "/" and right == one) or (op == "-" and right == zero):
        return left
    return Arithmetic(op, left, right)


def _either(*terms: Folded) -> Folded:
    if any(t is True for t in terms):
        return True
    left = tuple(t for t in terms if not isinstance(t, bool))
    return False if not left else left[0] if len(left) == 1 else Either(left)


_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def _invert(term: Folded) -> Folded:
    match term:
        case bool():
            return not term
        case Invert(operand):
            return operand
        case Compare(op, left, right):
            return Compare(_OPPOSITE[op], left, right)
        case Either(terms) if all(isinstance(t, Invert) for t in terms):
            return Every(tuple(t.operand for t in terms if isinstance(t, Invert)))
        case _:
            return Invert(term)


_COMPARE, _SUM, _TERM, _FACTOR, _ATOM = 3, 4, 5, 6, 7


@dataclass(frozen=True, slots=True)
class _Python:
    """Prints an expression as Python."""

    rename: Callable[[str], str]

    def cases(self, cases: tuple[tuple[Folded, Expr], ...]) -> str:
        """Print a let's cases as a conditional expression."""
        text = self.text(cases[-1][1])
        for when, value in reversed(cases[:-1]):
            assert not isinstance(when, bool)
            text = f"{self.text(value)} if {self.text(when)} else {text}"
        return text

    def text(self, expr: Expr, level: int = 0) -> str:
        """Print an expression; `level` is the binding strength its surroundings need."""
        own, text = self._print(expr)
        return f"({text})" if own < level else text

    def _print(self, expr: Expr) -> tuple[int, str]:
        match expr:
            case Literal(value):
                return _ATOM, str(value)
            case Name(name):
                return _ATOM, self.rename(name)
            case Negate(operand):
                return _FACTOR, f"-{self.text(operand, _FACTOR)}"
            case Arithmetic(op, left, right):
                own = _SUM if op in "+-" else _TERM
                return own, f"{self.text(left, own)} {op} {self.text(right, own + 1)}"
            case Call():
                return self._call(expr)
            case Compare(op, left, right):
                return _COMPARE, f"{self.text(left, _SUM)} {op} {self.text(right, _SUM)}"
            case Member(operand, choices):
                return _COMPARE, f"{self.text(operand, _SUM)} in {self._choices(choices)}"
            case Divides(divisor, operand):
                return _COMPARE, f"{self.text(operand, _TERM)} % {self.text(divisor, _FACTOR)} == 0"
            case Invert(Member(operand, choices)):
                return _COMPARE, f"{self.text(operand, _SUM)} not in {self._choices(choices)}"
            case Invert(Divides(divisor, operand)):
                return _COMPARE, f"{self.text(operand, _TERM)} % {self.text(divisor, _FACTOR)} != 0"
            case Invert(operand):
                return 2, f"not {self.text(operand, 2)}"
            case Every(terms):
                return 1, " and ".join(self.text(t, 2) for t in terms)
            case Either(terms):
                return 0, " or ".join(self.text(t, 1) for t in terms)
            case _:
                assert_never(expr)

    def _choices(self, choices: tuple[Expr, ...]) -> str:
        return f"({', '.join(self.text(c) for c in choices)}{',' if len(choices) == 1 else ''})"

    def _call(self, call: Call) -> tuple[int, str]:
        match call.function, call.arguments:
            case "ceil_div", (dividend, divisor):
                return _FACTOR, f"-(-{self.text(dividend, _FACTOR)} // {self.text(divisor, _FACTOR)})"
            case "floor", (Arithmetic("/", left, right),):
                return _TERM, f"{self.text(left, _TERM)} // {self.text(right, _FACTOR)}"
            case "floor", (operand,):
                return _TERM, f"{self.text(operand, _TERM)} // 1"
            case "pow2", (operand,):
                return _ATOM, f"math.log2({self.text(operand)}).is_integer()"
            case "gcd", arguments:
                return _ATOM, f"gcd({', '.join(self.text(a) for a in arguments)})"
            case function, arguments:
                return _ATOM, f"{function}({', '.join(self.text(a) for a in arguments)})"
