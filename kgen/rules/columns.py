"""Columns of the solver's table while its rows multiply and leave: gathered, or computed, only when they are read.

A table of partial points changes its rows some sixty times, and most of its hundred columns are read once or twice on
the way. So a column stays as it was when it was last read, and the moves of the rows since then are applied to it at
the next reading; a let is computed over the rows that are there when something asks for it.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from kgen.rules.ruleset import CompiledLet
from kgen.rules.symbolic import Column


class Columns(Mapping[str, Column]):
    """One entry per row and name; what is one value for every row is a scalar."""

    def __init__(self, scalars: Mapping[str, Column]) -> None:
        self._known: dict[str, Column] = dict(scalars)
        self._known_at: dict[str, int] = {}  # for columns, how many moves there were when they were gathered
        self._open: dict[str, CompiledLet] = {}  # not computed yet
        self._moves: list[np.ndarray] = []  # for each move, the row that each new row came from
        self._origins: dict[int, np.ndarray] = {}  # the moves from a number on, as one

    def __getitem__(self, name: str) -> Column:
        let = self._open.pop(name, None)
        if let is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                self._put(name, let.formula(self))
        column = self._known[name]
        now = len(self._moves)
        if self._known_at.get(name, now) < now:
            column = column[self._origin(self._known_at[name])]
            self._put(name, column)
        return column

    def __iter__(self) -> Iterator[str]:
        return iter((*self._known, *self._open))

    def __len__(self) -> int:
        return len(self._known) + len(self._open)

    def add(self, name: str, column: np.ndarray) -> None:
        """Add a column of one entry per row."""
        self._put(name, column)

    def add_let(self, let: CompiledLet) -> None:
        """Add a let whose names are all there."""
        self._open[let.name] = let

    def move(self, origin: np.ndarray) -> None:
        """Replace the rows: `origin` has the present row that each new row comes from."""
        self._moves.append(origin)
        self._origins = {}

    def taken(self, rows: np.ndarray) -> "Columns":
        """Return a table of some of the rows."""
        found = Columns(self._known)
        found._known_at, found._open, found._moves = dict(self._known_at), dict(self._open), [*self._moves, rows]
        return found

    def _put(self, name: str, column: Column) -> None:
        self._known[name] = column
        if isinstance(column, np.ndarray) and column.ndim:
            self._known_at[name] = len(self._moves)

    def _origin(self, first: int) -> np.ndarray:
        """Return the row that each present row came from before move `first`."""
        found = self._origins.get(first)
        if found is None:
            last = first == len(self._moves) - 1
            found = self._moves[first] if last else self._moves[first][self._origin(first + 1)]
            self._origins[first] = found
        return found


class PointColumns(Mapping[str, np.ndarray]):
    """Axes and lets of a table, one array entry per row; members of an enumeration as numbers, or by `members`."""

    def __init__(self, table: Columns, rows: int, names: tuple[str, ...], members: Mapping[str, np.ndarray]) -> None:
        self._table, self._rows, self._names, self._members = table, rows, names, members

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._names:
            raise KeyError(name)
        column = np.broadcast_to(self._table[name], (self._rows,))
        return self._members[name][column] if name in self._members else column

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
