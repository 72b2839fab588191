"""Enumerate the legal points of a rule set, axis by axis.

An axis joins the table, every let and rule whose axes are then all bound is evaluated over whole columns, and the rows
that break a rule leave before the next axis multiplies what remains. The order of the points is the order of the axes
and of their domains, so the result is the same in every run.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from kgen.errors.base import Where
from kgen.errors.rules import BadFactError, MissingFactError, OutsideDomainError, UnknownAxisError
from kgen.rules.columns import Columns, PointColumns
from kgen.rules.model import Value
from kgen.rules.nearest import nearest_first, nearest_name
from kgen.rules.printer import print_domain
from kgen.rules.ruleset import CompiledAxis, CompiledRule, RuleSet, turns_of
from kgen.rules.symbolic import Column, Enumeration, Numeric, decode, encode

Point = tuple[tuple[str, Value], ...]


@dataclass(frozen=True, slots=True)
class BoundRules:
    """Rules with the facts of one problem and device; `stored` are the facts as column entries."""

    rules: RuleSet
    facts: Mapping[str, Value | float]
    stored: Mapping[str, Column]


@dataclass(frozen=True, slots=True)
class Ranks:
    """Points by their rank: the position among all combinations of the bound axes, the last one running fastest."""

    axes: tuple[str, ...]
    values: tuple[tuple[Value, ...], ...]  # of each axis

    def point(self, rank: int) -> Point:
        """Return the point of a rank."""
        found: list[tuple[str, Value]] = []
        for name, values in zip(reversed(self.axes), reversed(self.values), strict=True):
            rank, position = divmod(rank, len(values))
            found.append((name, values[position]))
        return tuple(reversed(found))


@dataclass(frozen=True, slots=True)
class RuleRejection:
    """How much a rule removed; `kept` and `removed_point` are neighbours along one axis, on either side of its edge."""

    rule: str
    file: str
    line: int
    text: str
    because: str
    removed: int
    ranks: Ranks
    removed_rank: int
    kept_rank: int | None

    @property
    def removed_point(self) -> Point:
        """A point that the rule removed."""
        return self.ranks.point(self.removed_rank)

    @property
    def kept_point(self) -> Point | None:
        """The point beside it that the rule kept, if there is one."""
        return None if self.kept_rank is None else self.ranks.point(self.kept_rank)

    @property
    def place(self) -> str:
        """`file:line` of the rule."""
        return f"{self.file}:{self.line}"

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        return {
            "rule": self.rule,
            "place": self.place,
            "text": self.text,
            "because": self.because,
            "removed": self.removed,
            "removed_point": dict(self.removed_point),
            "kept_point": dict(self.kept_point) if self.kept_point is not None else None,
        }


@dataclass(frozen=True, slots=True, eq=False)
class LegalSet:
    """Every legal point, in solver order; `table` computes a column when it is read."""

    bound: BoundRules
    table: Columns
    ranks: Ranks
    rank_of: np.ndarray
    total: int
    rejections: tuple[RuleRejection, ...]

    @property
    def count(self) -> int:
        """How many points there are."""
        return len(self.rank_of)

    @property
    def columns(self) -> Mapping[str, np.ndarray]:
        """Axes, members as numbers, and lets: a column each."""
        return PointColumns(self.table, self.count, self.bound.rules.columns, {})

    @property
    def named(self) -> Mapping[str, np.ndarray]:
        """The columns with the names of members in the place of their numbers."""
        kinds = {axis.name: axis.kind for axis in self.bound.rules.axes}
        names = {axis: np.array(kind.members) for axis, kind in kinds.items() if isinstance(kind, Enumeration)}
        return PointColumns(self.table, self.count, self.bound.rules.columns, names)

    def at(self, rows: np.ndarray) -> "LegalSet":
        """Return some of the points, in the order of `rows`."""
        return replace(self, table=self.table.taken(rows), rank_of=self.rank_of[rows])

    def point(self, row: int) -> Point:
        """Return the axis values of one row."""
        return self.ranks.point(int(self.rank_of[row]))

    def derived(self, row: int) -> tuple[tuple[str, int | float], ...]:
        """Return the lets of one row."""
        columns = self.columns
        numbers = ((let.name, decode(Numeric(), columns[let.name][row])) for let in self.bound.rules.lets)
        return tuple((name, n) for name, n in numbers if not isinstance(n, str))


def bind(rules: RuleSet, facts: Mapping[str, Value | float]) -> BoundRules:
    """Give the rules the facts of one problem and device; raises for one that they name and that is not given."""
    known = [fact for fact in rules.vocabulary.facts if fact.name in facts]
    if len(known) < len(rules.vocabulary.facts) and (lacking := rules.named_facts - facts.keys()):
        raise MissingFactError(name=min(lacking), given=", ".join(sorted(facts)))
    stored: dict[str, Column] = {}
    for fact in known:
        value, kind = facts[fact.name], rules.kinds[fact.name]
        if isinstance(kind, Enumeration) and value not in kind.members:
            raise BadFactError(name=fact.name, value=value, members=", ".join(kind.members))
        code = encode(kind, value)
        stored[fact.name] = np.float64(code) if isinstance(code, float) else np.int64(code)
    return BoundRules(rules, {f.name: facts[f.name] for f in known}, stored)


def check_point(rules: RuleSet, point: Mapping[str, Value], where: Where | None = None) -> None:
    """Raise unless every named axis exists and holds its value; `where` is the place that the point was read from."""
    for name, value in point.items():
        axis = rules.axis(name)
        if axis is None:
            known = [a.name for a in rules.axes]
            raise UnknownAxisError(where=where, name=name, nearest=nearest_name(name, known), known=", ".join(known))
        values = axis.domain.values
        if value not in values or isinstance(value, bool):
            alike = isinstance(value, type(values[0]))
            nearest = nearest_first(value, values)[0] if alike else values[0]
            domain = print_domain(axis.domain)
            raise OutsideDomainError(where=where, axis=name, value=value, domain=domain, nearest=nearest)


def solve(bound: BoundRules, fixed: Mapping[str, Value] | None = None, *, without: str = "") -> LegalSet:
    """Return every legal point; `fixed` narrows axes to one value, `without` names a rule to leave out."""
    fixed = fixed or {}
    check_point(bound.rules, fixed)
    grid = Grid(bound, fixed)
    rejections: list[RuleRejection] = []
    with np.errstate(divide="ignore", invalid="ignore"):
        for rules in grid.steps():
            for rule in rules:
                if rule.name != without:
                    _filter(grid, rule, rejections)
    order = {rule.name: i for i, rule in enumerate(bound.rules.rules)}
    rejections.sort(key=lambda r: order[r.rule])
    return LegalSet(bound, grid.columns, grid.ranks, grid.rank_of, grid.total, tuple(rejections))


def _filter(grid: "Grid", rule: CompiledRule, rejections: list[RuleRejection]) -> None:
    """Drop the rows that break a rule and note how many full points they stood for."""
    keep = rule.holds(grid.columns)
    if not keep.ndim:
        if keep:
            return
        keep = np.broadcast_to(keep, (grid.rows,))
    removed = grid.rows - int(np.count_nonzero(keep))
    if not removed:
        return
    gone, kept = _edge(keep, grid.parents)
    rejections.append(
        RuleRejection(
            rule=rule.name,
            file=rule.file,
            line=rule.rule.span.line,
            text=rule.text,
            because=rule.rule.because,
            removed=removed * grid.weight,
            ranks=grid.ranks,
            removed_rank=int(grid.rank_of[gone]),
            kept_rank=int(grid.rank_of[kept]) if kept is not None else None,
        )
    )
    grid.keep(keep)


def _edge(keep: np.ndarray, parents: np.ndarray) -> tuple[int, int | None]:
    """Return a removed row, and a kept row beside it along the newest axis if there is one."""
    turns = np.flatnonzero((keep[:-1] != keep[1:]) & (parents[:-1] == parents[1:]))
    if len(turns) == 0:
        return int(np.argmin(keep)), None
    first = int(turns[0])
    return (first, first + 1) if keep[first + 1] else (first + 1, first)


class Grid:
    """The table of partial points while it grows: one row per point, one column per bound axis and let."""

    def __init__(self, bound: BoundRules, fixed: Mapping[str, Value], only: frozenset[str] | None = None) -> None:
        self.bound = bound
        self.columns = Columns(bound.stored)
        self.rows = 1
        self.parents = np.zeros(1, np.int64)  # the row each row came from when the newest axis joined
        self.ranks, self.rank_of = Ranks((), ()), np.zeros(1, np.int64)
        self.turns = bound.rules.turns
        if only is not None:
            axes = tuple(axis for axis in bound.rules.axes if axis.name in only)
            self.turns = turns_of(axes, bound.rules.lets, bound.rules.rules)
        self.domains = {turn.axis.name: _domain(turn.axis, fixed) for turn in self.turns if turn.axis is not None}
        self.total = prod(len(values) for values, _ in self.domains.values())
        self.weight = self.total  # full points that one row stands for

    def steps(self) -> Iterator[tuple[CompiledRule, ...]]:
        """Bind the axes one by one; yield the rules that each makes decidable, while the caller drops rows."""
        for turn in self.turns:
            if turn.axis is not None:
                values, codes = self.domains[turn.axis.name]
                self.weight //= max(len(values), 1)
                self._join(turn.axis.name, values, codes)
            for let in turn.lets:
                self.columns.add_let(let)
            yield turn.rules

    def point(self, row: int) -> Point:
        """Return the bound axes of one row."""
        return self.ranks.point(int(self.rank_of[row]))

    def keep(self, rows: np.ndarray) -> None:
        """Keep the rows of a mask."""
        kept = np.flatnonzero(rows)
        self.columns.move(kept)
        self.parents, self.rank_of = self.parents[kept], self.rank_of[kept]
        self.rows = len(kept)

    def _join(self, name: str, values: tuple[Value, ...], codes: np.ndarray) -> None:
        size = len(values)
        self.parents = np.repeat(np.arange(self.rows), size)
        self.rank_of = np.repeat(self.rank_of * size, size) + np.tile(np.arange(size), self.rows)
        self.columns.move(self.parents)
        self.columns.add(name, np.tile(codes, self.rows))
        self.rows *= size
        self.ranks = Ranks((*self.ranks.axes, name), (*self.ranks.values, values))


def _domain(axis: CompiledAxis, fixed: Mapping[str, Value]) -> tuple[tuple[Value, ...], np.ndarray]:
    """Return the values of an axis and what they are in a column; the one value of an axis that is fixed."""
    values = axis.domain.values
    if axis.name not in fixed:
        return values, axis.codes
    kept = [position for position, value in enumerate(values) if value == fixed[axis.name]]
    return tuple(values[position] for position in kept), axis.codes[kept]
