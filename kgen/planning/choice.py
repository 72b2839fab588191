"""A legal choice of every axis, with its predicted time: what the candidates of all families have in common."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kgen.rules.model import Value
from kgen.rules.solve import LegalSet, RuleRejection


@dataclass(frozen=True, slots=True)
class Candidate:
    """One legal choice of every axis, with the lets that follow from it; families put it in words of their own."""

    choices: tuple[tuple[str, Value], ...]
    derived: tuple[tuple[str, int | float], ...]

    def value(self, name: str) -> Value:
        """Return the choice on an axis."""
        return dict(self.choices)[name]

    def number(self, name: str) -> int:
        """Return a choice, or a let, that is a whole number."""
        found = {**dict(self.derived), **dict(self.choices)}[name]
        assert not isinstance(found, str) and int(found) == found, f"{name} = {found}"
        return int(found)

    def __str__(self) -> str:
        return ", ".join(f"{axis} {value}" for axis, value in self.choices)

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        return {"choices": dict(self.choices), "derived": dict(self.derived)}


@dataclass(frozen=True, slots=True)
class RankedCandidate:
    """A candidate with its predicted time. `terms` are in microseconds, what they are of is the family's."""

    candidate: Candidate
    time_us: float
    terms: tuple[tuple[str, float], ...]
    bound_by: str
    ctas: int  # of the whole grid
    waves: int
    wave_efficiency: float

    def term(self, name: str) -> float:
        """Return one term."""
        return dict(self.terms)[name]

    def __str__(self) -> str:
        return (
            f"{self.time_us:.1f} us  {self.candidate}, {self.waves} grid waves {self.wave_efficiency:.0%} full, "
            f"bound by {self.bound_by}"
        )

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        return {
            **self.candidate.to_json(),
            "time_us": self.time_us,
            "terms_us": dict(self.terms),
            "bound_by": self.bound_by,
            "ctas": self.ctas,
            "waves": self.waves,
            "wave_efficiency": self.wave_efficiency,
        }


@dataclass(frozen=True, slots=True, eq=False)
class Preference:
    """One thing that legal points are ordered by, a number each; the smaller one comes first.

    `of` is what a reader is shown of it: the time in steps of what a model resolves is shown in microseconds.
    """

    name: str
    column: np.ndarray
    of: np.ndarray | None = None

    def shown(self, row: int) -> float:
        """Return what a reader is shown of one point."""
        return float((self.column if self.of is None else self.of)[row])


Preferences = tuple[Preference, ...]  # the first one decides, the next ones among its equals


def order_of(preferences: Preferences) -> np.ndarray:
    """Return the rows best first; what is equal in all preferences stays in the order of the rules file's axes."""
    return np.lexsort([p.column for p in reversed(preferences)])


@dataclass(frozen=True, slots=True, eq=False)
class Ordered:
    """A legal set with what orders it."""

    legal: LegalSet
    preferences: Preferences

    @property
    def rows(self) -> np.ndarray:
        """The rows, best first."""
        return order_of(self.preferences)

    def row_of(self, point: Mapping[str, Value]) -> int | None:
        """Return the row of a point that gives every axis, or None where it is not legal."""
        found = np.ones(self.legal.count, bool)
        for axis, values in self.legal.named.items():
            if axis in point:
                found &= values == point[axis]
        return int(np.argmax(found)) if found.any() else None

    def decisive(self, first: int, second: int) -> Preference | None:
        """Return the first preference in which two rows differ; None where the order of the axes decides."""
        return next((p for p in self.preferences if p.column[first] != p.column[second]), None)


@dataclass(frozen=True, slots=True)
class Candidates:
    """The ranked head of the legal set, and what the rules removed from the whole grid."""

    ranked: tuple[RankedCandidate, ...]
    total_points: int
    legal_count: int
    rejections: tuple[RuleRejection, ...]

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        return {
            "ranked": [r.to_json() for r in self.ranked],
            "total_points": self.total_points,
            "legal_count": self.legal_count,
            "rejections": [r.to_json() for r in self.rejections],
        }
