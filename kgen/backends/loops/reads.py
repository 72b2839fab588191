"""The vectors that a loop kernel loads into registers: which loads these are, when they run, and as what statements."""

from dataclasses import dataclass
from enum import StrEnum

from kgen.backends.loops.dialect import LoopDialect
from kgen.backends.loops.symbols import Symbols
from kgen.backends.source.lines import Lines
from kgen.families.strided.facts import is_early
from kgen.families.strided.form import Access, Layout


class ReadTime(StrEnum):
    """When a fragment is loaded.

    What all rows share and only the last pass needs is loaded late: it lies in a cache, and would fill registers.
    """

    ROW = "row"  # before the elements
    EARLY = "early"  # with the elements
    LATE = "late"  # where elements are written


@dataclass(frozen=True, slots=True)
class Fragment:
    """Registers for the vectors of one tensor."""

    name: str
    access: str
    type: str

    def made(self, dialect: LoopDialect, count: str) -> str:
        """Return the statement that makes them for `count` vectors."""
        return f"{self.name} = " + dialect.fragment.format(access=self.access, type=self.type, count=count)


@dataclass(frozen=True, slots=True)
class _VectorLoad:
    """A load of whole vectors, into a fragment by way of an access."""

    fragment: str
    access: str
    load: Access


class VectorReads:
    """The loads that fill registers a vector at a time before anything runs on their elements."""

    def __init__(self, symbols: Symbols) -> None:
        self.symbols = symbols
        self.loads = {a.value: self._vector_load(a) for a in symbols.form.loads if self._is_vector(a)}

    def time(self, value: str) -> ReadTime:
        """Return when the fragment of a value is loaded."""
        if value in self.symbols.row_values:
            return ReadTime.ROW
        return ReadTime.EARLY if is_early(self.symbols.loads[value], self.symbols.form) else ReadTime.LATE

    def element(self, value: str) -> str:
        """Return the element of a fragment."""
        vector = "s" if self.time(value) is ReadTime.EARLY else "0"
        return f"{self.loads[value].fragment}[e, {vector}]"

    def fragments(self, time: ReadTime, count: str) -> Lines:
        """Return the statements that make registers for the vectors that are loaded at a time, `count` of each."""
        at_time = [v for value, v in self.loads.items() if self.time(value) is time]
        dialect = self.symbols.dialect
        found = {v.fragment: Fragment(v.fragment, v.access, dialect.values.memory(v.load.dtype)) for v in at_time}
        return tuple(f.made(dialect, count) for f in found.values())

    def statements(self, time: ReadTime) -> Lines:
        """Return the statements that fill the fragments of a time."""
        at_time = [v for value, v in self.loads.items() if self.time(value) is time]
        return tuple({v.fragment: self._read(v, time) for v in at_time}.values())

    def _is_vector(self, load: Access) -> bool:
        """Return whether a load takes what is consecutive, by an index, if any, that is known before all elements."""
        symbols = self.symbols
        if load.guards or not (symbols.in_columns or load.value not in symbols.row_values):
            return False
        if load.gathered is None:
            return True
        index = load.gathered[0]
        return not symbols.in_columns and index in symbols.row_values and symbols.levels[index] == 0

    def _vector_load(self, load: Access) -> _VectorLoad:
        tensor = self.symbols.tensors[load.tensor]
        access = self.symbols.access(tensor, load.walk, load)
        return _VectorLoad(f"{tensor}_raw{access.removeprefix(f'{tensor}_at')}", access, load)

    def _read(self, vector: _VectorLoad, time: ReadTime) -> str:
        at, load, symbols = vector.access, vector.load, self.symbols
        coords = "at_row" if time is ReadTime.ROW or symbols.form.layout is Layout.FLAT else "at_row, at_col"
        start = f"offset({at}, {coords})"
        if load.gathered is not None:
            start += f" + INDEX({symbols.row_names[load.gathered[0]]}) * {load.gathered[1]}"
        inside = symbols.dialect.true if time is ReadTime.ROW else "inside"
        place = "s" if time is ReadTime.EARLY else "0"
        step = f"{at}.{symbols.vector_side}[0]"
        read = symbols.function("read", load.tensor)
        return f"{read}(v, {at}, {symbols.tensors[load.tensor]}, {start}, {step}, {inside}, {vector.fragment}, {place})"
