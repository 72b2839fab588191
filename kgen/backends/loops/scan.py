"""The text of scan kernels: what a thread adds up, and how it learns what stands before its elements."""

from kgen.backends.loops.body import LoopBody
from kgen.backends.loops.dialect import LoopDialect
from kgen.backends.loops.places import column_of_scan, place_in_column, place_in_row
from kgen.backends.loops.reads import ReadTime
from kgen.backends.loops.states import State, StateMaker
from kgen.backends.loops.text import fitted_lines
from kgen.backends.loops.views import ScanColumnsView, ScanRowsView
from kgen.backends.source.lines import Lines
from kgen.errors.family import MixedScanError
from kgen.families.strided.form import Layout
from kgen.ir.problem import Reduce, Scan

_DOC = "The threads of a row scan it chunk by chunk, in order."


def scan_view(name: str, signature: Lines, body: LoopBody) -> ScanRowsView | ScanColumnsView:
    """Return the view of a scan kernel. Raises `MixedScanError` for scans in two directions, or beside a reduction."""
    scans = [s for s in body.form.body if isinstance(s, Scan)]
    if len({s.reverse for s in scans}) > 1 or any(isinstance(s, Reduce) for s in body.form.body):
        raise MixedScanError(kernel=name)
    found = _Scans(scans, body)
    return _rows_view(signature, found) if body.form.layout is Layout.ROWS else _columns_view(signature, found)


class _Scans:
    """The scans of one kernel, which run in one direction; prints its parts in the order they need each other."""

    def __init__(self, scans: list[Scan], body: LoopBody) -> None:
        self.body, self.reverse = body, scans[0].reverse
        self.in_rows = body.form.layout is Layout.ROWS
        maker = StateMaker(body.dialect)
        operands = [body.symbols.dtypes[s.operand] for s in scans]
        self.states = [
            maker.state_of(s, dtype, f"{s.combine}_{i}")
            for i, (s, dtype) in enumerate(zip(scans, operands, strict=True))
        ]
        body.symbols.states.update({s.result: state for s, state in zip(scans, self.states, strict=True)})
        self.setup = fitted_lines(body.values.row_values(0), 4)
        self.reads = fitted_lines(body.reads.statements(ReadTime.EARLY), 12)
        self.steps = fitted_lines(self._steps(scans), 16)
        for s, state in zip(scans, self.states, strict=True):
            body.symbols.row_names[s.result] = self._result(state)
        self.stores = body.stores.vector_stores("is_row & inside")
        self.elements = fitted_lines(self.stores.elements, 16)
        self.writes = fitted_lines(self.stores.writes, 12)

    @property
    def column(self) -> str:
        """The first column of vector `s`."""
        return column_of_scan(in_rows=self.in_rows, reverse=self.reverse)

    @property
    def inside(self) -> str:
        """Whether a column exists."""
        return "col >= 0" if self.reverse else "col < prod(v.cols)"

    def _steps(self, scans: list[Scan]) -> Lines:
        """Return the statements that take in one element."""
        scope = self.body.symbols.scope()
        self.body.values.compute([s.operand for s in scans], scope)
        for s, state in zip(scans, self.states, strict=True):
            value = f"within(v, inside, {self.body.values.entering(s, state, scope)}, {state.identities[0]})"
            (name,) = state.names
            target = f"{name}_running" if self.in_rows else f"{name}_carry[e]"
            scope.lines.append(f"{target} = {state.join}(({target},), ({value},))[0]")
            scope.lines += [f"{name}[e, s] = {target}"] if self.in_rows else []
        return self.body.symbols.close(scope)

    def _result(self, state: State) -> str:
        (name,) = state.names
        return f"{state.join}(({name}_totals[s],), ({name}[e, s],))[0]" if self.in_rows else f"{name}_carry[e]"


def _columns_view(signature: Lines, scans: _Scans) -> ScanColumnsView:
    carries = (f"{s.names[0]}_carry = filled(v, {s.types[0]}, {s.identities[0]})" for s in scans.states)
    return ScanColumnsView(
        signature=signature,
        doc=_DOC,
        accesses=scans.body.symbols.unpacked_accesses(),
        place=fitted_lines(place_in_column(scans.body, alone=True), 4),
        column=scans.column,
        inside=scans.inside,
        setup=scans.setup,
        start=tuple(carries),
        fragments=scans.body.reads.fragments(ReadTime.EARLY, "v.steps"),
        reads=scans.reads,
        steps=scans.steps,
        outputs=scans.stores.fragments,
        elements=scans.elements,
        writes=scans.writes,
    )


def _rows_view(signature: Lines, scans: _Scans) -> ScanRowsView:
    names = [s.names[0] for s in scans.states]
    firsts = [s.identities[0] for s in scans.states]
    words = scans.body.dialect
    slots = (words.scan_slots.format(slots=f"{s.names[0]}_slots", type=s.types[0]) for s in scans.states)
    return ScanRowsView(
        signature=signature,
        doc=_DOC,
        accesses=scans.body.symbols.unpacked_accesses(),
        exchanges=(f"smem = {words.allocator}", *slots),
        place=fitted_lines(place_in_row(words), 4),
        column=scans.column,
        inside=scans.inside,
        element="v.vec - 1 - i" if scans.reverse else "i",
        setup=scans.setup,
        start=tuple(f"{n}_carry = {first}" for n, first in zip(names, firsts, strict=True)),
        fragments=scans.body.reads.fragments(ReadTime.EARLY, "v.steps"),
        reads=scans.reads,
        scanned=tuple(line for state in scans.states for line in _scanned(words, state)),
        vector_start=tuple(f"{n}_running = {first}" for n, first in zip(names, firsts, strict=True)),
        steps=scans.steps,
        vector_end=tuple(f"{n}_totals[s] = {n}_running" for n in names),
        combine=tuple(_combined(words, state) for state in scans.states),
        outputs=scans.stores.fragments,
        elements=scans.elements,
        writes=scans.writes,
    )


def _scanned(words: LoopDialect, state: State) -> Lines:
    """Return the registers of a chunk: what stands before each element of a vector, and the totals of the vectors."""
    (name,), (type_,) = state.names, state.types
    return (
        f"{name} = {words.registers.format(shape='(v.vec, v.steps)', type=type_)}",
        f"{name}_totals = {words.registers.format(shape='v.steps', type=type_)}",
    )


def _combined(words: LoopDialect, state: State) -> str:
    (name,), (first,) = state.names, state.identities
    return words.scan.format(name=name, join=state.join, operation=state.operation, first=first)
