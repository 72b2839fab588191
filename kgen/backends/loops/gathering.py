"""Reductions that gather the elements of a thread before these enter its state: sums about one of them, or about the
largest, or the place of the largest, for which elements are met twice.

What was found is joined to the state of the thread once, so that elements are added, not rescaled.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from kgen.backends.loops.states import State
from kgen.backends.source.lines import Lines
from kgen.ir.dtype import DType
from kgen.ir.problem import Combine, Reduce

Partial = tuple[str, str, str]  # name, type and first value of what a pass keeps
Element = Callable[[str], str]  # the name of a state's part -> the expression of a row's


class Gathering(Protocol):
    """How the elements of a thread enter one state together; `value` is an element in the type of the state."""

    @property
    def partials(self) -> tuple[Partial, ...]:
        """Return what the passes keep."""

    def first(self, value: str, free: Callable[[], str]) -> Lines:
        """Return the statements that take in an element for the first time; `free` gives a name that nothing has."""

    def folded(self) -> str:
        """Return the statement that joins what was found to the state."""


@dataclass(frozen=True, slots=True)
class Moments:
    """M2: sums of the distances from the first element of the thread and of their squares, which one pass gives.

    No variance is lost: of n elements none is more than sqrt(n - 1) standard deviations away from their mean, so that
    the sum of squares is at most n times that of the deviations.
    """

    state: State
    element: Element
    place: str  # 0 for the first element of the thread in this row

    @property
    def partials(self) -> tuple[Partial, ...]:
        """Return what the pass keeps."""
        name, kind = self.state.names[-1], self.state.types[-1]
        return tuple((f"{name}_{part}", kind, "0.0") for part in ("start", "seen", "total", "square"))

    def first(self, value: str, free: Callable[[], str]) -> Lines:
        """Return the statements that take in an element."""
        start, seen, total, square = self._elements()
        distance = free()
        return (
            f"{start} = start_of(v, {self.place}, inside, {value}, {start})",
            f"{distance} = within(v, inside, {value} - {start}, 0.0)",
            f"{seen} = {seen} + within(v, inside, {self.state.types[0]}(1.0), 0.0)",
            f"{total} = {total} + {distance}",
            f"{square} = {square} + {distance} * {distance}",
        )

    def folded(self) -> str:
        """Return the statement that joins what was found to the state."""
        names = ", ".join(self.element(n) for n in self.state.names)
        return f"{names} = {self.state.join}(({names}), moments_about({', '.join(self._elements())}))"

    def _elements(self) -> tuple[str, ...]:
        return tuple(self.element(name) for name, *_ in self.partials)


@dataclass(frozen=True, slots=True)
class Exponents:
    """SUMEXP: the largest first, then the exponentials about it, for which elements are met twice."""

    state: State
    element: Element
    exp: str  # of {0}

    @property
    def partials(self) -> tuple[Partial, ...]:
        """Return what the passes keep."""
        name, kind = self.state.names[-1], self.state.types[-1]
        return (f"{name}_largest", kind, self.state.identities[0]), (f"{name}_part", kind, "0.0")

    def first(self, value: str, free: Callable[[], str]) -> Lines:
        """Return the statements that take in an element for the first time."""
        largest, _ = self._elements()
        return (f"{largest} = maximum({largest}, within(v, inside, {value}, {self.state.identities[0]}))",)

    def second(self, value: str, free: Callable[[], str]) -> Lines:
        """Return the statements that take in an element again."""
        largest, total = self._elements()
        name = free()
        power = self.exp.format(f"{value} - center_of({largest})")
        return (f"{name} = within(v, inside, {power}, 0.0)", f"{total} = {total} + {name}")

    def folded(self) -> str:
        """Return the statement that joins what was found to the state."""
        return _folded(self.state, self.element, self._elements())

    def _elements(self) -> tuple[str, ...]:
        return tuple(self.element(name) for name, *_ in self.partials)


@dataclass(frozen=True, slots=True)
class Places:
    """ARGMAX and ARGMIN of floats: the best value first, then the first place of it, for which elements are met twice.

    Places of a thread are counted from its first element on, so that they are constants; they ascend as columns do.
    """

    state: State
    element: Element
    place: str  # of an element among those of the thread
    better: str  # of two values, NaN if either is
    column: str  # of {0}, a place

    @property
    def partials(self) -> tuple[Partial, ...]:
        """Return what the passes keep."""
        name, identities = self.state.names[0], self.state.identities
        kind, index = self.state.types
        return (f"{name}_best", kind, identities[0]), (f"{name}_place", index, identities[1])

    def first(self, value: str, free: Callable[[], str]) -> Lines:
        """Return the statements that take in an element for the first time."""
        best, _ = self._elements()
        return (f"{best} = {self.better}({best}, {self._within(value)})",)

    def second(self, value: str, free: Callable[[], str]) -> Lines:
        """Return the statements that take in an element again."""
        best, place = self._elements()
        return (f"{place} = earlier_place({self._within(value)}, {best}, {self.place}, {place})",)

    def folded(self) -> str:
        """Return the statement that joins what was found to the state."""
        best, place = self._elements()
        return _folded(self.state, self.element, (best, self.column.format(place)))

    def _within(self, value: str) -> str:
        return f"within(v, inside, {value}, {self.state.identities[0]})"

    def _elements(self) -> tuple[str, ...]:
        return tuple(self.element(name) for name, *_ in self.partials)


def gathering_of(s: Reduce, state: State, element: Element, place: str, exp: str) -> Gathering | None:
    """Return how a reduction gathers elements, or None where each enters the state by itself.

    `place` is 0 for the first element of a thread, `exp` the form of exp.
    """
    match s.combine:
        case Combine.M2:
            return Moments(state, element, place)
        case Combine.SUMEXP:
            return Exponents(state, element, exp)
        case _:
            return None


def follows_from(s: Reduce, other: Reduce) -> bool:
    """Return whether a reduction is part of the state of another: a sum of moments, a maximum of exponentials."""
    same = (s.operand, s.axes) == (other.operand, other.axes) and other.dtype is DType.FP32
    return same and (s.combine, other.combine) in ((Combine.SUM, Combine.M2), (Combine.MAX, Combine.SUMEXP))


def _folded(state: State, element: Element, parts: tuple[str, ...]) -> str:
    names = ", ".join(element(n) for n in state.names)
    return f"{names} = {state.join}(({names}), ({', '.join(parts)}))"
