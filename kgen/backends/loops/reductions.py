"""The reductions of a loop kernel, phase by phase: states are made, elements enter, threads join what they hold."""

from collections.abc import Mapping
from dataclasses import dataclass

from kgen.backends.loops.gathering import Exponents, Gathering, Moments, Places, exponentials_of, follows_from
from kgen.backends.loops.states import State, StateMaker
from kgen.backends.loops.symbols import Scope, Symbols
from kgen.backends.loops.text import Block, Phase
from kgen.backends.loops.values import ValuePrinter
from kgen.backends.source.dialect import carried_dtype
from kgen.backends.source.lines import Lines, tuple_text
from kgen.ir.dtype import DType
from kgen.ir.problem import Combine, Reduce
from kgen.ir.tensor import row_major_strides

_BETTER = {Combine.ARGMAX: "maximum", Combine.ARGMIN: "minimum"}  # of two values, NaN before all others


@dataclass(frozen=True, slots=True)
class _Gathered:
    """A reduction that gathers the elements of a thread."""

    reduce: Reduce
    state: State
    way: Gathering


class ReductionPrinter:
    """Prints the phases of one kernel; `first_vector` is the number of the first vector that a pass meets.

    With `holds_powers` threads have all elements of a row in registers, and their exponentials where these are wanted.
    """

    def __init__(self, symbols: Symbols, values: ValuePrinter, first_vector: str, *, holds_powers: bool) -> None:
        self.symbols, self.values, self.words = symbols, values, symbols.dialect.values
        self.first_vector, self.holds_powers = first_vector, holds_powers
        self.maker = StateMaker(symbols.dialect)

    def phase(self, level: int) -> Phase:
        """Return the text of the reductions whose operands are known at a level."""
        reduces, sources = self._of_level(level)
        states = {s.result: self._state(s) for s in reduces}
        gathered = [_Gathered(s, states[s.result], way) for s in reduces if (way := self._gathering(s)) is not None]
        first = self.symbols.scope()
        self.values.compute([s.operand for s in reduces], first)
        for s in reduces:
            first.lines += self._taken_in(s, first)
        passes = [Block(True, False, self.symbols.close(first))]
        if gathered:
            passes = self._gathering_blocks(gathered, passes[0])
        for s in reduces:
            self.symbols.row_names[s.result] = self._result(s)
        for result, source in sources.items():
            self.symbols.row_names[result] = self._part(source)
        held = [g for g in gathered if isinstance(g.way, Exponents) and g.way.held]
        start = tuple(line for state in states.values() for line in self._made(state))
        start += tuple(self._powers(g) for g in held)
        end = tuple(self._joined(state) for state in states.values())
        end += tuple(g.way.scaled() for g in held if isinstance(g.way, Exponents))
        rows = self.values.row_values(level + 1)
        return Phase(
            (Block(False, False, start),),
            tuple(block for block in passes if block.lines),
            (Block(False, False, (*end, *rows)),),
        )

    def exchanges(self, *, over_clusters: bool) -> Lines:
        """Return the statements that allocate smem for the states that threads exchange."""
        states = self.symbols.states.values()
        if not states:
            return ()
        slots = [_slots(state) for state in states]
        lines = [f"smem = {self.symbols.dialect.allocator}"]
        lines += [f"{s} = exchange(v, smem, {', '.join(state.types)})" for s, state in zip(slots, states, strict=True)]
        return (*lines, *([f"enter_cluster(v, {tuple_text(slots)})"] * over_clusters))

    def joins(self) -> Lines:
        """Return the source of the functions that join states, but for those of the library."""
        return tuple(dict.fromkeys(s.join_source for s in self.symbols.states.values() if s.join_source))

    def _of_level(self, level: int) -> tuple[list[Reduce], Mapping[str, Reduce]]:
        """Return the reductions of a level, and those that follow from one of them, by their result."""
        reduces = [s for s in self.symbols.form.body if isinstance(s, Reduce)]
        reduces = [s for s in reduces if self.symbols.levels[s.operand] == level]
        sources = {s.result: other for s in reduces for other in reduces if follows_from(s, other)}
        return [s for s in reduces if s.result not in sources], sources

    def _state(self, s: Reduce) -> State:
        state = self.maker.state_of(s, self.symbols.dtypes[s.operand], f"{s.combine}_{len(self.symbols.states)}")
        self.symbols.states[s.result] = state
        return state

    def _gathering(self, s: Reduce) -> Gathering | None:
        symbols, state = self.symbols, self.symbols.states[s.result]
        if s.combine in _BETTER:
            return self._places(s, state) if symbols.dialect.gathers_places else None
        match s.combine:
            case Combine.M2:
                return Moments(state, symbols.element, "s" if symbols.in_columns else "s + e")
            case Combine.SUMEXP:
                return Exponents(state, symbols.element, symbols.dialect.exp, bool(self._wanted(s)))
            case _:
                return None

    def _wanted(self, s: Reduce) -> tuple[str, ...]:
        """Return the exponentials of a sum that elements want, too, if the threads of a row hold its elements."""
        if not self.holds_powers or self.symbols.in_columns or s.dtype is not DType.FP32:
            return ()
        return exponentials_of(s, self.symbols.form.body)

    def _places(self, s: Reduce, state: State) -> Places | None:
        """Return how a position is gathered, where positions are the columns in their order."""
        symbols, form = self.symbols, self.symbols.form
        walk = symbols.walks[s.result]
        if not state.dtype.is_float or state.dtype is DType.FP64 or walk.reduced != row_major_strides(form.reduced):
            return None
        place, column = ("s", "place_down") if symbols.in_columns else ("s * v.vec + e", "place_along")
        column += f"(v, {{0}}, {self.first_vector}, lane, lanes)"
        return Places(state, symbols.element, place, _BETTER[s.combine], column)

    def _gathering_blocks(self, gathered: list[_Gathered], first: Block) -> list[Block]:
        """Return the blocks around and after the first pass of the reductions that gather elements."""
        sums = [self._filled(n, kind, value) for g in gathered for n, kind, value in g.way.partials]
        scope = self.symbols.scope()
        again = [(g, g.way) for g in gathered if isinstance(g.way, Exponents | Places)]
        self.values.compute([g.reduce.operand for g, _ in again], scope)
        for g, way in again:
            scope.lines += way.second(self.values.entering(g.reduce, g.state, scope), scope.temporary)
        per_row = self.symbols.in_columns
        return [
            Block(False, False, tuple(sums)),
            first,
            Block(True, False, self.symbols.close(scope)),
            Block(False, per_row, tuple(g.way.folded() for g in gathered)),
        ]

    def _powers(self, g: _Gathered) -> str:
        """Return the statement that makes registers for exponentials, and let elements take them from there."""
        assert isinstance(g.way, Exponents)
        self.symbols.held.update(dict.fromkeys(self._wanted(g.reduce), g.way.power))
        made = self.symbols.dialect.registers.format(shape="(v.vec, v.steps)", type=self.words.carried(g.reduce.dtype))
        return f"{g.way.powers} = {made}"

    def _taken_in(self, s: Reduce, scope: Scope) -> Lines:
        """Return the statements that take in an element, for the first time if it is met twice."""
        state = self.symbols.states[s.result]
        value = self.values.entering(s, state, scope)
        way = self._gathering(s)
        if way is not None:
            return way.first(value, scope.temporary)
        value = f"within(v, inside, {value}, {state.identities[0]})"
        targets = ", ".join(self.symbols.element(n) for n in state.names)
        if len(state.names) == 1:
            return (f"{targets} = {state.join}(({targets},), ({value},))[0]",)
        position = self.values.position(s.result, s.operand)
        found, at = scope.temporary(), scope.temporary()
        return (f"{found} = {value}", f"{at} = {position}", f"{targets} = {state.join}(({targets}), ({found}, {at}))")

    def _made(self, state: State) -> Lines:
        parts = zip(state.names, state.types, state.identities, strict=True)
        return tuple(self._filled(name, type_, identity) for name, type_, identity in parts)

    def _filled(self, name: str, type_: str, value: str) -> str:
        """Return the statement that gives a value of a row, or of each row of a vector, its first value."""
        if self.symbols.in_columns:
            return f"{name} = filled(v, {type_}, {value})"
        return f"{name} = {value}" if value.startswith((type_, "INDEX")) else f"{name} = {type_}({value})"

    def _joined(self, state: State) -> str:
        """Return the statement that joins the states of the threads of a row."""
        names, slots = tuple_text(state.names), _slots(state)
        if self.symbols.in_columns:
            return f"combine_columns(v, {names}, {state.join}, {slots})"
        targets = names if len(state.names) == 1 else ", ".join(state.names)
        return f"{targets} = combine_row(v, {names}, {state.across}, {slots})"

    def _result(self, s: Reduce) -> str:
        """Return the result as an expression of the joined state."""
        state = self.symbols.states[s.result]
        if s.combine in (Combine.ANY, Combine.ALL):
            return f"({self.symbols.element(state.names[0])} != 0)"
        if s.combine in (Combine.ARGMAX, Combine.ARGMIN):
            return f"{self.symbols.element(state.names[1])}.to({self.words.carried(s.dtype)})"
        code = self.symbols.element(state.names[-1])
        return code if carried_dtype(s.dtype) is state.dtype else f"{code}.to({self.words.carried(s.dtype)})"

    def _part(self, source: Reduce) -> str:
        """Return the sum of moments, or the largest of exponentials, as an expression of the joined state."""
        first, second, *_ = (self.symbols.element(n) for n in self.symbols.states[source.result].names)
        return f"({second} * {float(self.symbols.form.cols)})" if source.combine is Combine.M2 else first


def _slots(state: State) -> str:
    """Return the name of the smem through which a state passes."""
    return f"{state.names[-1]}_parts"
