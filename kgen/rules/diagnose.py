"""No legal candidate: which rules removed what, which alone removes all, and what single change would help."""

from collections.abc import Iterable, Mapping
from itertools import islice

import numpy as np

from kgen.errors.rules import NoLegalCandidateError
from kgen.rules.model import Value
from kgen.rules.nearest import nearest_first
from kgen.rules.ruleset import CompiledLet, CompiledRule, Fact
from kgen.rules.solve import BoundRules, Grid, LegalSet, bind, solve
from kgen.rules.symbolic import Formula

FEW = 2  # values of each axis that are tried first


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
    """Say whether no value of the rule's own axes meets it; most rules are met by one of a few of them."""
    whole, few = (Grid(bound, fixed, only=rule.axes) for _ in range(2))
    few.domains = {name: (values[:FEW], codes[:FEW]) for name, (values, codes) in few.domains.items()}
    return not (_is_met(rule, few) or _is_met(rule, whole))


def _is_met(rule: CompiledRule, grid: Grid) -> bool:
    """Say whether a point of a grid meets a rule.

    There may be hundreds of millions: after each axis, those that are alike in all that is read later are one.
    """
    demands = [formula for formula in (rule.guard, rule.condition) if formula is not None]
    lets, known = _read_by(demands, grid.bound), frozenset[str]()
    with np.errstate(divide="ignore", invalid="ignore"):
        for turn, _ in zip(grid.turns, grid.steps(), strict=True):
            known |= {turn.axis.name} if turn.axis is not None else frozenset()
            later = [*demands, *(let.formula for let in lets if not let.axes <= known)]
            made = known | {let.name for let in lets if let.axes and let.axes <= known}
            _keep_distinct(grid, made & {name for formula in later for name in formula.names})
        return bool(np.any(rule.holds(grid.columns)))


def _read_by(formulas: Iterable[Formula], bound: BoundRules) -> list[CompiledLet]:
    """Return the lets that formulas read, through others too."""
    names = {name for formula in formulas for name in formula.names}
    found = []
    for let in reversed(bound.rules.lets):  # each reads those before it
        if let.name in names:
            names.update(let.formula.names)
            found.append(let)
    return found


def _keep_distinct(grid: Grid, names: Iterable[str]) -> None:
    """Keep one row of those that have the same entries in some columns."""
    kept, codes = np.zeros(1, np.int64), np.zeros(grid.rows, np.int64)
    for name in sorted(names):
        column = np.broadcast_to(grid.columns[name], (grid.rows,))
        entries, places = np.unique(column, return_inverse=True)
        kept, codes = np.unique(codes * len(entries) + places, return_index=True, return_inverse=True)[1:]
    mask = np.zeros(grid.rows, bool)
    mask[kept] = True
    grid.keep(mask)


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
