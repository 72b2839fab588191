"""Reductions that gather the elements of a thread before these enter its state: sums about one of them, or about the
largest, or the place of the largest, for which elements are met twice.

What was found is joined to the state of the thread once, so that elements are added, not rescaled.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from kgen.backends.loops.states import State
from kgen.backends.source.lines import Lines
from kgen.families.strided.form import Statement
from kgen.ir.dtype import DType
from kgen.ir.pointwise import PointwiseOp as Op
from kgen.ir.problem import Combine, Map, Reduce

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
    """SUMEXP: the largest first, then the exponentials about it, for which elements are met twice.

    Where elements want them, too, they are `held` in registers: about the largest of the row they are the same, scaled.
    """

    state: State
    element: Element
    exp: str  # of {0}
    held: bool

    @property
    def powers(self) -> str:
        """Return the name of the registers that hold exponentials."""
        return f"{self.state.names[-1]}_powers"

    @property
    def power(self) -> str:
        """Return the exponential of an element about the largest of its row."""
        return f"{self.powers}[e, s] * {self.state.names[-1]}_scale"

    def scaled(self) -> str:
        """Return the statement that finds the scale, once the state is that of the row."""
        largest, _ = self._elements()
        power = self.exp.format(f"{largest} - center_of({self.state.names[0]})")
        return f"{self.state.names[-1]}_scale = {power}"

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
        held = (f"{self.powers}[e, s] = {name}",) if self.held else ()
        return (f"{name} = within(v, inside, {power}, 0.0)", f"{total} = {total} + {name}", *held)

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


def follows_from(s: Reduce, other: Reduce) -> bool:
    """Return whether a reduction is part of the state of another: a sum of moments, a maximum of exponentials."""
    same = (s.operand, s.axes) == (other.operand, other.axes) and other.dtype is DType.FP32
    return same and (s.combine, other.combine) in ((Combine.SUM, Combine.M2), (Combine.MAX, Combine.SUMEXP))


def exponentials_of(s: Reduce, body: Sequence[Statement]) -> tuple[str, ...]:
    """Return the values that are `exp(x - max(x))` of the operand of a SUMEXP, in fp32."""
    maps = {m.result: m for m in body if isinstance(m, Map) and m.dtype is DType.FP32}
    tops = {r.result for r in body if isinstance(r, Reduce) and r.combine is Combine.MAX and follows_from(r, s)}
    below = {m.result for m in maps.values() if m.op is Op.SUB and m.operands[0] == s.operand and m.operands[1] in tops}
    return tuple(m.result for m in maps.values() if m.op is Op.EXP and m.operands[0] in below)


def _folded(state: State, element: Element, parts: tuple[str, ...]) -> str:
    names = ", ".join(element(n) for n in state.names)
    return f"{names} = {state.join}(({names}), ({', '.join(parts)}))"
