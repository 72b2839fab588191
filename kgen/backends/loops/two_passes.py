"""Reductions that meet the elements of a thread twice: first for their mean or largest, then for a sum about it.

What both passes find is joined to the state of the thread, so that elements in registers are read, not rescaled.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from kgen.backends.loops.states import State
from kgen.backends.source.lines import Lines
from kgen.ir.dtype import DType
from kgen.ir.problem import Combine, Reduce

Partial = tuple[str, str]  # name and first value of what a pass keeps
Element = Callable[[str], str]  # the name of a state's part -> the expression of a row's


class TwoPasses(Protocol):
    """How the elements of a thread enter one state in two passes; `value` is an element in the type of the state."""

    @property
    def partials(self) -> tuple[Partial, ...]:
        """Return what the passes keep."""

    def first(self, value: str) -> Lines:
        """Return the statements that take in an element for the first time."""

    def between(self) -> Lines:
        """Return the statements between the passes."""

    def second(self, value: str, name: str) -> Lines:
        """Return the statements that take in an element again; `name` is free."""

    def folded(self) -> str:
        """Return the statement that joins what was found to the state."""


@dataclass(frozen=True, slots=True)
class Moments:
    """M2: the mean first, then the squared deviations from it."""

    state: State
    element: Element

    @property
    def partials(self) -> tuple[Partial, ...]:
        """Return what the passes keep."""
        return tuple((f"{self.state.names[-1]}_{part}", "0.0") for part in ("total", "seen", "square"))

    def first(self, value: str) -> Lines:
        """Return the statements that take in an element for the first time."""
        total, count, _ = self._elements()
        return (
            f"{total} = {total} + within(v, inside, {value}, 0.0)",
            f"{count} = {count} + within(v, inside, {self.state.types[0]}(1.0), 0.0)",
        )

    def between(self) -> Lines:
        """Return the statements between the passes."""
        total, count, _ = self._elements()
        return (f"{total} = {total} / at_least_one({count})",)

    def second(self, value: str, name: str) -> Lines:
        """Return the statements that take in an element again; `name` is free."""
        mean, _, square = self._elements()
        return (f"{name} = within(v, inside, {value} - {mean}, 0.0)", f"{square} = {square} + {name} * {name}")

    def folded(self) -> str:
        """Return the statement that joins what was found to the state."""
        mean, count, square = self._elements()
        return _folded(self.state, self.element, (count, mean, square))

    def _elements(self) -> tuple[str, ...]:
        return tuple(self.element(name) for name, _ in self.partials)


@dataclass(frozen=True, slots=True)
class Exponents:
    """SUMEXP: the largest first, then the exponentials about it."""

    state: State
    element: Element
    exp: str  # of {0}

    @property
    def partials(self) -> tuple[Partial, ...]:
        """Return what the passes keep."""
        name = self.state.names[-1]
        return (f"{name}_largest", self.state.identities[0]), (f"{name}_part", "0.0")

    def first(self, value: str) -> Lines:
        """Return the statements that take in an element for the first time."""
        largest, _ = self._elements()
        return (f"{largest} = maximum({largest}, within(v, inside, {value}, {self.state.identities[0]}))",)

    def between(self) -> Lines:
        """Return the statements between the passes."""
        return ()

    def second(self, value: str, name: str) -> Lines:
        """Return the statements that take in an element again; `name` is free."""
        largest, total = self._elements()
        power = self.exp.format(f"{value} - center_of({largest})")
        return (f"{name} = within(v, inside, {power}, 0.0)", f"{total} = {total} + {name}")

    def folded(self) -> str:
        """Return the statement that joins what was found to the state."""
        return _folded(self.state, self.element, self._elements())

    def _elements(self) -> tuple[str, ...]:
        return tuple(self.element(name) for name, _ in self.partials)


def two_passes_of(s: Reduce, state: State, element: Element, exp: str) -> TwoPasses | None:
    """Return how a reduction meets its elements twice, or None where once is enough; `exp` is the form of exp."""
    match s.combine:
        case Combine.M2:
            return Moments(state, element)
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
