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
