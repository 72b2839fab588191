"""A checked, compiled set of rules: one or several files over one closed vocabulary.

`compile_rules` resolves every name, checks every kind and compiles each let and each rule once, with the facts of the
problem as arguments. So a set is compiled once per process and solves any number of problems.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import assert_never

import numpy as np

from kgen.errors.base import Where
from kgen.errors.rules import MissingLetError, NameDefinedTwiceError, RuleKindError
from kgen.rules.model import Axis, Domain, Expr, Let, Rule, RulesFile, Span, Value, names_of
from kgen.rules.printer import print_condition
from kgen.rules.symbolic import Column, Formula, Kind, Numeric, Scope, compile_formula, encode, kind_of, pick

_RESERVED = frozenset({"axis", "let", "rule", "in", "step", "when", "because", "source", "and", "or", "not", "divides"})


@dataclass(frozen=True, slots=True)
class Fact:
    """A number or a choice that the problem, the arch or the device brings; no `choices` means any number.

    `implied` returns the other facts that one of its choices decides, as a type decides the bytes of an element.
    """

    name: str
    choices: tuple[Value, ...] = ()
    implied: Callable[[Value], Mapping[str, Value]] | None = None

    @property
    def kind(self) -> Kind:
        """Kind of its value."""
        return kind_of(self.choices)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The closed set of names that a family's rules may use, and the lets they must define."""

    family: str
    facts: tuple[Fact, ...]
    required_lets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class CompiledAxis:
    """An axis with the kind of its values; `codes` are its domain as it stands in a column."""

    axis: Axis
    file: str
    kind: Kind
    codes: np.ndarray

    @property
    def name(self) -> str:
        """Name of the axis."""
        return self.axis.name

    @property
    def domain(self) -> Domain:
        """Domain of the axis."""
        return self.axis.domain


@dataclass(frozen=True, slots=True)
class CompiledLet:
    """A derived number with its cases folded into one formula; `axes` are the axes it depends on, through lets too."""

    name: str
    cases: tuple[Let, ...]
    file: str
    formula: Formula
    axes: frozenset[str]


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A rule with its guard and condition as formulas; `axes` as for a let, `text` is what it demands."""

    rule: Rule
    file: str
    text: str
    guard: Formula | None
    condition: Formula
    axes: frozenset[str]

    @property
    def name(self) -> str:
        """Name of the rule."""
        return self.rule.name

    @property
    def place(self) -> str:
        """`file:line` of the rule."""
        return f"{self.file}:{self.rule.span.line}"

    def holds(self, columns: Mapping[str, Column]) -> Column:
        """Return whether the rule is met: an array, or one truth for every row."""
        if self.guard is None:
            return self.condition(columns)
        applies = self.guard(columns)
        return self.condition(columns) | ~applies if applies.any() else ~applies


@dataclass(frozen=True, slots=True)
class Turn:
    """What can be computed and decided once an axis joins those before it; with no axis, from facts alone."""

    axis: CompiledAxis | None
    lets: tuple[CompiledLet, ...]
    rules: tuple[CompiledRule, ...]  # those of the fewest axes first


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Axes, lets and rules in file order; `turns` are the same in the order of the solver."""

    vocabulary: Vocabulary
    axes: tuple[CompiledAxis, ...]
    lets: tuple[CompiledLet, ...]
    rules: tuple[CompiledRule, ...]
    kinds: Mapping[str, Kind]  # of every name
    turns: tuple[Turn, ...]
    named_facts: frozenset[str]  # that lets and rules name; the vocabulary has those of every target

    def axis(self, name: str) -> CompiledAxis | None:
        """Return the axis of that name."""
        return next((a for a in self.axes if a.name == name), None)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names that a point has a value for: axes, then lets."""
        return (*(axis.name for axis in self.axes), *(let.name for let in self.lets))

    def rule(self, name: str) -> CompiledRule | None:
        """Return the rule of that name."""
        return next((r for r in self.rules if r.name == name), None)


def turns_of(
    axes: tuple[CompiledAxis, ...], lets: tuple[CompiledLet, ...], rules: tuple[CompiledRule, ...]
) -> tuple[Turn, ...]:
    """Return what can be decided before any axis, and as each of `axes` joins; what needs others is left out."""
    turns, bound = [], set[str]()
    for axis in (None, *axes):
        bound |= {axis.name} if axis else set()
        new = frozenset({axis.name}) if axis else frozenset()
        found = [rule for rule in rules if rule.axes <= bound and new <= rule.axes and bool(axis) == bool(rule.axes)]
        made = [let for let in lets if let.axes <= bound and new <= let.axes and bool(axis) == bool(let.axes)]
        turns.append(Turn(axis, tuple(made), tuple(sorted(found, key=lambda rule: len(rule.axes)))))
    return tuple(turns)


def compile_rules(files: tuple[RulesFile, ...], vocabulary: Vocabulary) -> RuleSet:
    """Return the rules of all files as one set; a later file may use the names of an earlier one."""
    return _Compilation(vocabulary).run(files)


class _Compilation:
    """Walks the statements in order; what it holds is the scope so far."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.kinds: dict[str, Kind] = {f.name: f.kind for f in vocabulary.facts}
        self.defined: dict[str, str] = {f.name: "the vocabulary" for f in vocabulary.facts}
        self.depends: dict[str, frozenset[str]] = {}  # axis or let -> axes it depends on
        self.open_lets: dict[str, list[Let]] = {}  # cases that still wait for the one without `when`
        self.axes: list[CompiledAxis] = []
        self.lets: list[CompiledLet] = []
        self.rules: list[CompiledRule] = []

    def run(self, files: tuple[RulesFile, ...]) -> RuleSet:
        for file in files:
            scope = Scope(self.kinds, file.name, file.lines)
            for statement in file.statements:
                match statement:
                    case Axis():
                        self._axis(statement, scope)
                    case Let():
                        self._let(statement, scope)
                    case Rule():
                        self._rule(statement, scope)
                    case _:
                        assert_never(statement)
            for name, cases in self.open_lets.items():
                where = scope.where(cases[-1].span)
                raise RuleKindError(
                    where=where, text=name, found="a let whose last case has a `when`", wanted="a case without"
                )
        for name in self.vocabulary.required_lets:
            if name not in {let.name for let in self.lets}:
                raise MissingLetError(
                    where=Where(files[0].name),
                    family=self.vocabulary.family,
                    name=name,
                    names=", ".join(self.vocabulary.required_lets),
                )
        axes, lets, rules = tuple(self.axes), tuple(self.lets), tuple(self.rules)
        return RuleSet(self.vocabulary, axes, lets, rules, self.kinds, turns_of(axes, lets, rules), self._named_facts())

    def _define(self, name: str, span: Span, scope: Scope) -> None:
        where = scope.where(span)
        if name in _RESERVED:
            raise RuleKindError(where=where, text=name, found="a word of the language", wanted="a name")
        if name in self.defined:
            raise NameDefinedTwiceError(where=where, name=name, previous=self.defined[name])
        self.defined[name] = f"{where.file}:{where.line}"

    def _axis(self, axis: Axis, scope: Scope) -> None:
        self._define(axis.name, axis.span, scope)
        values = axis.domain.values
        if not values or len(set(values)) != len(values) or len({type(v) for v in values}) != 1:
            found = "an empty, repeating or mixed domain"
            raise RuleKindError(where=scope.where(axis.span), text=axis.name, found=found, wanted="distinct values")
        kind = self.kinds[axis.name] = kind_of(values)
        self.depends[axis.name] = frozenset({axis.name})
        codes = np.array([encode(kind, value) for value in values], np.int64)
        self.axes.append(CompiledAxis(axis, scope.file, kind, codes))

    def _let(self, let: Let, scope: Scope) -> None:
        cases = self.open_lets.pop(let.name, [])
        if not cases:
            self._define(let.name, let.span, scope)
        cases.append(let)
        if let.when is not None:
            self.open_lets[let.name] = cases
            return
        expr = scope.number(let.value)
        for case in reversed(cases[:-1]):
            assert case.when is not None
            expr = pick(scope.condition(case.when), scope.number(case.value), expr)
        used = [e for case in cases for e in (case.value, case.when)]
        axes = self._axes_of(*used)
        self.kinds[let.name] = Numeric()
        self.depends[let.name] = axes
        self.lets.append(CompiledLet(let.name, tuple(cases), scope.file, compile_formula(expr), axes))

    def _rule(self, rule: Rule, scope: Scope) -> None:
        name = f"rule {rule.name}"
        if name in self.defined:
            raise NameDefinedTwiceError(where=scope.where(rule.span), name=rule.name, previous=self.defined[name])
        self.defined[name] = f"{scope.file}:{rule.span.line}"
        guard = compile_formula(scope.condition(rule.when)) if rule.when is not None else None
        condition = compile_formula(scope.condition(rule.condition))
        axes, text = self._axes_of(rule.condition, rule.when), print_condition(rule)
        self.rules.append(CompiledRule(rule, scope.file, text, guard, condition, axes))

    def _named_facts(self) -> frozenset[str]:
        lets = [expr for let in self.lets for case in let.cases for expr in (case.value, case.when)]
        rules = [expr for compiled in self.rules for expr in (compiled.rule.condition, compiled.rule.when)]
        named = {name.name for expr in (*lets, *rules) for name in names_of(expr)}
        return frozenset(fact.name for fact in self.vocabulary.facts if fact.name in named)

    def _axes_of(self, *exprs: Expr | None) -> frozenset[str]:
        used = {name.name for expr in exprs for name in names_of(expr)}
        return frozenset().union(*(self.depends.get(name, frozenset()) for name in used))
