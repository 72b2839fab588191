"""No legal candidate: which rules removed what, which alone removes all, and what single change would help."""

from collections.abc import Mapping, Sequence
from itertools import islice, product
from math import prod

import numpy as np

from kgen.errors.rules import NoLegalCandidateError
from kgen.rules.model import Value
from kgen.rules.nearest import nearest_first
from kgen.rules.ruleset import CompiledRule, Fact
from kgen.rules.solve import BoundRules, Grid, LegalSet, bind, solve

MANY_POINTS, LONG_AXIS = 10_000_000, 7


def no_legal_candidate(empty: LegalSet, fixed: Mapping[str, Value]) -> NoLegalCandidateError:
    """Return the error that explains an empty legal set."""
    bound = empty.bound
    by_name = {rule.name: rule for rule in bound.rules.rules}
    alone = {r.rule for r in empty.rejections if _removes_all(bound, by_name[r.rule], fixed)}
    lines, rows = [], []
    for rejection in empty.rejections:
        mark = "  <- removes all by itself" if rejection.rule in alone else ""
        lines.append(f"  {rejection.removed:>12,} by {rejection.rule} ({rejection.place}){mark}")
        lines.append(f"  {'':>12}    {rejection.text}: {rejection.because}")
        rows.append({**rejection.to_json(), "removes_all_alone": rejection.rule in alone})
    changes = [*_axis_changes(bound, fixed), *_fact_changes(bound, fixed)]
    advice = "nearest legal: " + "; ".join(changes) if changes else "no single change of a fact or fixed axis helps"
    return NoLegalCandidateError(
        family=bound.rules.vocabulary.family,
        total=f"{empty.total:,}",
        table="\n".join(lines),
        advice=advice,
        rules=tuple(rows),
    )


def _removes_all(bound: BoundRules, rule: CompiledRule, fixed: Mapping[str, Value]) -> bool:
    """Say whether no value of the rule's own axes meets it.

    Where these have very many points, long axes are tried at their ends and at some values between.
    """
    domains = {name: axis.domain.values for name in rule.axes if name not in fixed and (axis := bound.rules.axis(name))}
    is_large = prod(map(len, domains.values())) > MANY_POINTS
    long = [name for name, values in domains.items() if is_large and len(values) > LONG_AXIS]
    tried = product(*(_spread(domains[name]) for name in long))
    return not any(_is_met(bound, rule, {**fixed, **dict(zip(long, values, strict=True))}) for values in tried)


def _is_met(bound: BoundRules, rule: CompiledRule, fixed: Mapping[str, Value]) -> bool:
    grid = Grid(bound, fixed, only=rule.axes)
    with np.errstate(divide="ignore", invalid="ignore"):
        for _ in grid.steps():
            pass
        return bool(np.any(rule.holds(grid.columns)))


def _spread(values: Sequence[Value]) -> tuple[Value, ...]:
    """Return the first and the last value, and some between."""
    step = -(-len(values) // LONG_AXIS)
    return tuple(dict.fromkeys((*values[::step], values[-1])))


def _axis_changes(bound: BoundRules, fixed: Mapping[str, Value]) -> list[str]:
    """Return, for each fixed axis, the nearest value that leaves a legal candidate."""
    changes = []
    for name, value in fixed.items():
        legal = solve(bound, {other: v for other, v in fixed.items() if other != name})
        values = {dict(legal.point(row))[name] for row in _distinct_rows(legal, name)}
        axis = bound.rules.axis(name)
        assert axis is not None
        near = next((v for v in nearest_first(value, axis.domain.values) if v in values), None)
        if near is not None:
            changes.append(f"{name} = {near} instead of {value}")
    return changes


def _distinct_rows(legal: LegalSet, name: str) -> list[int]:
    return [int(row) for row in np.unique(legal.columns[name], return_index=True)[1]]


def _fact_changes(bound: BoundRules, fixed: Mapping[str, Value]) -> list[str]:
    """Return, for each fact of few values, what leaves a legal candidate: the nearest number, or every such name."""
    changes = []
    for fact in bound.rules.vocabulary.facts:
        value = bound.facts.get(fact.name)
        if value is None or isinstance(value, float):
            continue
        others = nearest_first(value, fact.choices)
        helps = (o for o in others if solve(_with_fact(bound, fact, o), fixed).count)
        found = [str(o) for o in (helps if isinstance(value, str) else islice(helps, 1))]
        if found:
            changes.append(f"{fact.name} = {' or '.join(found)} instead of {value}")
    return changes


def _with_fact(bound: BoundRules, fact: Fact, value: Value) -> BoundRules:
    """Return the rules bound with another value of one fact, and with what that value decides of the others."""
    implied = fact.implied(value) if fact.implied is not None else {}
    return bind(bound.rules, {**bound.facts, fact.name: value, **implied})
