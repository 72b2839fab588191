"""Points on the edge of a rule, to be proven on hardware: legal ones closest to it, and ones that break only it."""

from dataclasses import dataclass

import numpy as np

from kgen.rules.model import Arithmetic, Compare
from kgen.rules.ruleset import CompiledRule
from kgen.rules.solve import BoundRules, LegalSet, Point, solve
from kgen.rules.symbolic import Scope, compile_formula


@dataclass(frozen=True, slots=True)
class EdgePoints:
    """`inside` meet every rule, `outside` break this one alone; nearest to the edge first."""

    rule: str
    inside: tuple[Point, ...]
    outside: tuple[Point, ...]


def edge_points(bound: BoundRules, name: str, count: int = 2) -> EdgePoints:
    """Return up to `count` points on either side of the rule of that name."""
    rule = bound.rules.rule(name)
    assert rule is not None, f"no rule {name}"
    others = solve(bound, without=name)
    columns = {**bound.stored, **others.columns}
    with np.errstate(divide="ignore", invalid="ignore"):
        applies = np.broadcast_to(rule.guard(columns) if rule.guard else np.True_, (others.count,))
        met = np.broadcast_to(rule.condition(columns), (others.count,))
        distance = _distance(bound, rule, others)
    return EdgePoints(
        rule=name,
        inside=_nearest(others, applies & met, distance, count),
        outside=_nearest(others, applies & ~met, distance, count),
    )


def _nearest(points: LegalSet, chosen: np.ndarray, distance: np.ndarray, count: int) -> tuple[Point, ...]:
    rows = np.flatnonzero(chosen)
    order = np.argsort(distance[rows], kind="stable")[:count]
    return tuple(points.point(int(row)) for row in rows[order])


def _distance(bound: BoundRules, rule: CompiledRule, points: LegalSet) -> np.ndarray:
    """Return how far apart the two sides of a numeric comparison are; 0 everywhere for other conditions."""
    scope, condition = Scope(bound.rules.kinds, rule.file, ()), rule.rule.condition
    if not isinstance(condition, Compare) or condition.op in ("==", "!="):
        return np.zeros(points.count)
    gap = compile_formula(scope.number(Arithmetic("-", condition.left, condition.right)))
    return np.broadcast_to(np.abs(gap({**bound.stored, **points.columns})), (points.count,))
