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
    """The loads that fill registers a vector at a time before anything runs on their elements.

    They come from memory, or where elements are `staged` in smem from there, one vector after the other. What is read
    late has one vector, or with `ahead` a ring of them that are in flight.
    """

    def __init__(self, symbols: Symbols, *, staged: bool, ahead: bool) -> None:
        self.symbols, self.staged, self.ahead = symbols, staged, ahead
        self.loads = {a.value: self._vector_load(a) for a in symbols.form.loads if self._is_vector(a)}

    def time(self, value: str) -> ReadTime:
        """Return when the fragment of a value is loaded."""
        if value in self.symbols.row_values:
            return ReadTime.ROW
        return ReadTime.EARLY if is_early(self.symbols.loads[value], self.symbols.form) else ReadTime.LATE

    def element(self, value: str) -> str:
        """Return the carried value of an element of a fragment."""
        dialect, dtype = self.symbols.dialect, self.symbols.loads[value].dtype
        fragment, place = self.loads[value].fragment, self._place(self.time(value), held=not self.staged)
        if dtype in dialect.paired:
            return f"{dialect.paired[dtype]}({fragment}, e, {place})"
        return dialect.values.loaded(f"{fragment}[e, {place}]", dtype)

    def fragments(self, time: ReadTime, count: str) -> Lines:
        """Return the statements that make registers for the vectors that are loaded at a time, `count` of each."""
        dialect = self.symbols.dialect
        return tuple(f.made(dialect, count) for f in self._fragments(time))

    def staging(self) -> Lines:
        """Return the statements that make smem for the vectors that are staged there."""
        made = self._fragments(ReadTime.EARLY)
        return tuple(f"{_staged(f.name)} = staging(v, smem, {f.access}, {f.type})" for f in made)

    def vectors(self) -> Lines:
        """Return the statements that take vector `s` of each staged fragment into registers."""
        made = self._fragments(ReadTime.EARLY)
        return tuple(f"{f.name} = vector_of(v, {f.access}, {_staged(f.name)}, s)" for f in made)

    def statements(self, time: ReadTime) -> Lines:
        """Return the statements that fill the fragments of a time."""
        at_time = [v for value, v in self.loads.items() if self.time(value) is time]
        return tuple({v.fragment: self._read(v, time) for v in at_time}.values())

    def _fragments(self, time: ReadTime) -> tuple[Fragment, ...]:
        at_time = [v for value, v in self.loads.items() if self.time(value) is time]
        memory = self.symbols.dialect.values.memory
        return tuple({v.fragment: Fragment(v.fragment, v.access, memory(v.load.dtype)) for v in at_time}.values())

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
        tensor = symbols.tensors[load.tensor]
        if time is ReadTime.ROW:
            return f"{symbols.function('read_row', load.tensor)}(v, {at}, {tensor}, at_row, {vector.fragment})"
        coords = "at_row" if symbols.form.layout is Layout.FLAT else "at_row, at_col"
        start = f"offset({at}, {coords})"
        if load.gathered is not None:
            start += f" + INDEX({symbols.row_names[load.gathered[0]]}) * {load.gathered[1]}"
        place = self._place(time, held=True)
        step = f"{at}.{symbols.vector_side}[0]"
        staged = self.staged and time is ReadTime.EARLY
        read = symbols.function("stage" if staged else "read", load.tensor)
        into = _staged(vector.fragment) if staged else vector.fragment
        return f"{read}(v, {at}, {tensor}, {start}, {step}, inside, {into}, {place})"

    def _place(self, time: ReadTime, *, held: bool) -> str:
        """Return which vector of a fragment is vector `s` of a thread, where early ones are all `held`."""
        if time is ReadTime.EARLY and held:
            return "s"
        return "s % v.ahead" if time is ReadTime.LATE and self.ahead else "0"


def _staged(fragment: str) -> str:
    """Return the name of the smem in which the vectors of a fragment are staged."""
    tensor, _, number = fragment.rpartition("_raw")
    return f"{tensor}_staged{number}"
