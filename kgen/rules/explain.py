"""Why a point is legal or not: every rule with both sides' values, and the nearest value that would do."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

import numpy as np

from kgen.rules.evaluate import Evaluator
from kgen.rules.model import Compare, Divides, Either, Every, Expr, Invert, Member, Value
from kgen.rules.nearest import nearest_first
from kgen.rules.printer import print_expr
from kgen.rules.ruleset import CompiledRule
from kgen.rules.solve import BoundRules, Grid, LegalSet, Point, check_point, solve


class Verdict(StrEnum):
    """What a rule says about a point."""

    MET = "met"
    BROKEN = "broken"
    NOT_APPLICABLE = "not applicable"  # its `when` does not hold


@dataclass(frozen=True, slots=True)
class Sides:
    """One comparison inside a rule, with the values of both sides."""

    text: str
    left: str
    right: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Nearest:
    """A change of one axis that meets the rule; `legal` says that it meets all other rules as well."""

    axis: str
    value: Value
    legal: bool


@dataclass(frozen=True, slots=True)
class RuleCheck:
    """One rule at one point."""

    rule: str
    place: str
    text: str
    because: str
    verdict: Verdict
    sides: tuple[Sides, ...]
    nearest: tuple[Nearest, ...]

    def __str__(self) -> str:
        lines = [f"{self.rule}: {self.verdict}  {self.text}  ({self.because}; {self.place})"]
        if self.verdict is Verdict.BROKEN:
            lines += [f"    {s.text}: {s.left} against {s.right}" for s in self.sides if not s.holds]
            for near in self.nearest[:1]:
                lines.append(f"    nearest {'legal' if near.legal else 'for this rule'}: {near.axis} = {near.value}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        return {
            "rule": self.rule,
            "place": self.place,
            "text": self.text,
            "because": self.because,
            "verdict": str(self.verdict),
            "sides": [{"text": s.text, "left": s.left, "right": s.right, "holds": s.holds} for s in self.sides],
            "nearest": [{"axis": n.axis, "value": n.value, "legal": n.legal} for n in self.nearest],
        }


@dataclass(frozen=True, slots=True)
class Explanation:
    """Every rule at one point, in file order."""

    point: Point
    derived: tuple[tuple[str, str], ...]
    checks: tuple[RuleCheck, ...]

    @property
    def legal(self) -> bool:
        """Whether the point breaks no rule."""
        return not self.broken

    @property
    def broken(self) -> tuple[RuleCheck, ...]:
        """The rules that the point breaks."""
        return tuple(c for c in self.checks if c.verdict is Verdict.BROKEN)

    def __str__(self) -> str:
        head = ", ".join(f"{name} = {value}" for name, value in self.point)
        lines = [f"{'legal' if self.legal else 'not legal'}: {head}"]
        return "\n".join(lines + [str(c) for c in (self.broken or self.checks)])

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        return {
            "point": dict(self.point),
            "legal": self.legal,
            "derived": dict(self.derived),
            "checks": [c.to_json() for c in self.checks],
        }


def explain(bound: BoundRules, point: Mapping[str, Value]) -> Explanation:
    """Evaluate every rule at a point that gives every axis a value."""
    check_point(bound.rules, point)
    at = Evaluator(bound.rules, bound.facts, point)
    verdicts = {rule.name: _verdict(rule, at) for rule in bound.rules.rules}
    broken = [rule for rule in bound.rules.rules if verdicts[rule.name] is Verdict.BROKEN]
    nearby = _nearby(bound, point, broken)
    checks = tuple(
        RuleCheck(
            rule=rule.name,
            place=rule.place,
            text=rule.text,
            because=rule.rule.because,
            verdict=verdicts[rule.name],
            sides=() if verdicts[rule.name] is Verdict.NOT_APPLICABLE else _sides(rule.rule.condition, at),
            nearest=nearby.get(rule.name, ()),
        )
        for rule in bound.rules.rules
    )
    derived = tuple((let.name, _shown(at.values[let.name])) for let in bound.rules.lets)
    return Explanation(tuple((a.name, point[a.name]) for a in bound.rules.axes), derived, checks)


def explain_best(bound: BoundRules, point: Mapping[str, Value], order: Callable[[LegalSet], np.ndarray]) -> Explanation:
    """Explain a point that may leave axes open: the best legal completion, else the one that breaks fewest rules.

    `order` returns the rows of a legal set, best first.
    """
    legal = solve(bound, point)
    if not legal.count:
        return explain(bound, complete(bound, point))
    return explain(bound, dict(legal.point(int(order(legal)[0]))))


def _verdict(rule: CompiledRule, at: Evaluator) -> Verdict:
    if rule.rule.when is not None and not at.holds(rule.rule.when):
        return Verdict.NOT_APPLICABLE
    return Verdict.MET if at.holds(rule.rule.condition) else Verdict.BROKEN


def _sides(expr: Expr, at: Evaluator) -> tuple[Sides, ...]:
    match expr:
        case Compare(_, left, right):
            values = at.sides(left, right)
            return (Sides(print_expr(expr), _shown(values[0]), _shown(values[1]), at.holds(expr)),)
        case Member(operand, choices):
            first, *others = at.sides(operand, *choices)
            members = "{" + ", ".join(_shown(o) for o in others) + "}"
            return (Sides(print_expr(expr), _shown(first), members, at.holds(expr)),)
        case Divides(divisor, operand):
            shown = (_shown(at.number(divisor)), _shown(at.number(operand)))
            return (Sides(print_expr(expr), *shown, at.holds(expr)),)
        case Every(terms) | Either(terms):
            return tuple(side for term in terms for side in _sides(term, at))
        case Invert(operand):
            return _sides(operand, at)
        case _:
            return ()


def _shown(value: int | float | Fraction | str) -> str:
    return value if isinstance(value, str) else f"{float(value):.10g}"


def _nearby(
    bound: BoundRules, point: Mapping[str, Value], broken: list[CompiledRule]
) -> dict[str, tuple[Nearest, ...]]:
    """Return, per broken rule, the nearest value of each of its axes that meets it; fully legal ones first."""
    found: dict[str, list[Nearest]] = {rule.name: [] for rule in broken}
    for axis in bound.rules.axes:
        concerned = [rule for rule in broken if axis.name in rule.axes]
        if not concerned:
            continue
        met = _along(bound, {name: v for name, v in point.items() if name != axis.name})
        values = axis.domain.values
        for rule in concerned:
            all_met = np.logical_and.reduce([np.broadcast_to(m, (len(values),)) for m in met.values()])
            rule_met = np.broadcast_to(met[rule.name], (len(values),))
            for legal, mask in ((True, all_met), (False, rule_met)):
                near = next((v for v in nearest_first(point[axis.name], values) if mask[values.index(v)]), None)
                if near is not None:
                    found[rule.name].append(Nearest(axis.name, near, legal))
                    break
    domains = {axis.name: axis.domain.values for axis in bound.rules.axes}

    def preference(near: Nearest) -> tuple[bool, bool, int]:
        """Legal first, numbers before names (another name is another kind of kernel), then by steps in the domain."""
        values = domains[near.axis]
        steps = abs(values.index(near.value) - values.index(point[near.axis]))
        return not near.legal, isinstance(near.value, str), steps

    return {name: tuple(sorted(nears, key=preference)) for name, nears in found.items()}


def _along(bound: BoundRules, fixed: Mapping[str, Value]) -> dict[str, np.ndarray]:
    """Return where each rule is met while the one axis that is not fixed runs over its domain."""
    grid, met = Grid(bound, fixed), dict[str, np.ndarray]()
    with np.errstate(divide="ignore", invalid="ignore"):
        for rules in grid.steps():
            met |= {rule.name: np.asarray(rule.holds(grid.columns)) for rule in rules}
    return met


def complete(bound: BoundRules, fixed: Mapping[str, Value]) -> dict[str, Value]:
    """Return a full point with the given values that breaks as few rules as the axes bound so far allow."""
    check_point(bound.rules, fixed)
    grid = Grid(bound, fixed)
    with np.errstate(divide="ignore", invalid="ignore"):
        for rules in grid.steps():
            if not rules:
                continue
            breaks = np.sum([~np.broadcast_to(rule.holds(grid.columns), (grid.rows,)) for rule in rules], axis=0)
            grid.keep(breaks == breaks.min())
    return dict(grid.point(0))
