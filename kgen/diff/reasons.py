"""Why a choice is another one: the causes that can be told apart, each with the figures that it was found by."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from kgen.diff.figures import Figure
from kgen.rules.explain import RuleCheck


class Cause(StrEnum):
    """What turned a choice. All but the last three were found by planning anew with the compiler at hand."""

    RULE = "rule"  # the other side's choice breaks a rule here
    TERM = "cost term"  # it is legal, and predicted to be slower
    PREFERENCE = "preference"  # it is predicted as fast as the model can tell, and comes later among equals
    HELD = "shared axis"  # an axis was decided by another variant of the kernel
    AXIS = "axis"  # the instruction set has no such axis, or not that value of it
    ORDER = "order of tiles"  # the same choice; another order of its tiles reads fewer bytes
    GUARD = "guard"  # one side needs a variant for any base address, the other does not
    KERNELS = "kernels"  # the program is cut into other kernels, by their predicted times
    INPUT = "input"  # the two were made of another input
    TEXT = "text"  # the same plan, printed by other templates or another compiler
    STATED = "stated"  # the compiler at hand makes neither plan: only what the plans say of themselves


@dataclass(frozen=True, slots=True)
class Fed:
    """A figure that the gap between two choices hangs on: the gap on B's device if it had A's value there."""

    figure: Figure
    gap_us: float | None  # None: one of the two choices is not legal then

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        return {**self.figure.to_json(), "gap_us": self.gap_us}


@dataclass(frozen=True, slots=True)
class Judged:
    """A legal choice beside the one that was made, in microseconds on one device; a positive gap is a loss."""

    rank: int
    time_us: float
    made_us: float
    gap: tuple[tuple[str, float], ...]  # by share of the time, the largest loss first

    @property
    def gap_us(self) -> float:
        """How much slower the choice is predicted than the one that was made."""
        return round(self.time_us - self.made_us, 3)

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {time:+.2f}" for name, time in self.gap)
        return (
            f"{self.time_us:.2f} us against {self.made_us:.2f} us ({self.gap_us:+.2f}: {parts or 'no share differs'})"
        )

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        gap = {name: round(time, 3) for name, time in self.gap}
        return {"rank": self.rank, "us": self.time_us, "made_us": self.made_us, "gap_us": self.gap_us, "shares_us": gap}


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a choice is another one; `text` is one sentence, the rest is what it rests on."""

    cause: Cause
    text: str
    rules: tuple[RuleCheck, ...] = ()
    judged: Judged | None = None
    fed_by: tuple[Fed, ...] = ()
    times_us: Mapping[str, float | None] | None = None  # of KERNELS: each side's kernels on each device

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        return {
            "cause": str(self.cause),
            "text": self.text,
            "rules": [_rule_json(rule) for rule in self.rules],
            "judged": None if self.judged is None else self.judged.to_json(),
            "fed_by": [fed.to_json() for fed in self.fed_by],
            "times_us": None if self.times_us is None else dict(self.times_us),
        }


def _rule_json(check: RuleCheck) -> dict[str, object]:
    broken = [{"text": s.text, "left": s.left, "right": s.right} for s in check.sides if not s.holds]
    return {"rule": check.rule, "place": check.place, "text": check.text, "because": check.because, "broken": broken}


@dataclass(frozen=True, slots=True)
class Turn:
    """Which figures of B's device, put into A's, turn a choice: found by planning with each of them.

    `alone`: one figure makes it B's. `away`: one figure makes it neither A's nor B's. `together`: where none does
    alone, figures that do so together, and not without any one of them. Both `alone` and `together` empty: all
    figures together do not, for the devices differ in more than figures.
    """

    alone: tuple[Figure, ...]
    away: tuple[Figure, ...]
    together: tuple[Figure, ...]

    def __str__(self) -> str:
        if self.alone:
            ending = " alone" if len(self.alone) == 1 else ", each alone"
            return f"turned by {' or by '.join(map(str, self.alone))}{ending}"
        thirds = [figure.label for figure in self.away]
        third = f"; to a third choice by {' or '.join(thirds)} alone" if thirds else ""
        if self.together:
            return f"turned by {' and '.join(map(str, self.together))} together, not without any one of them{third}"
        return f"not turned by the figures of B's device, all together{third}"

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        kinds = {"alone": self.alone, "away": self.away, "together": self.together}
        return {name: [figure.to_json() for figure in figures] for name, figures in kinds.items()}
