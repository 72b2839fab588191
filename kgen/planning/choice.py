"""A legal choice of every axis, with its predicted time: what the candidates of all families have in common."""

from dataclasses import dataclass

from kgen.rules.model import Value
from kgen.rules.solve import RuleRejection


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
