"""What a loop kernel writes: vectors of elements, one value a row, one value in all."""

from dataclasses import dataclass

from kgen.backends.loops.reads import Fragment
from kgen.backends.loops.symbols import Symbols
from kgen.backends.loops.values import ValuePrinter
from kgen.backends.source.lines import Lines
from kgen.families.strided.form import Access, Layout


@dataclass(frozen=True, slots=True)
class VectorStores:
    """Stores of whole vectors: registers for them, what computes an element of each, and what writes them."""

    fragments: Lines
    elements: Lines
    writes: Lines


class StorePrinter:
    """Prints the stores of one kernel."""

    def __init__(self, symbols: Symbols, values: ValuePrinter) -> None:
        self.symbols, self.values = symbols, values
        self.words = symbols.dialect.values
        self.is_flat = symbols.form.layout is Layout.FLAT
        stores = symbols.form.stores
        self.scalars = tuple(a for a in stores if _is_one_element(a) and symbols.form.rows > 1)
        self.vectors = tuple(a for a in stores if (a not in self.scalars if self.is_flat else not a.walk.is_row))
        self.rows = tuple(a for a in stores if a not in (*self.vectors, *self.scalars))

    def vector_stores(self, inside: str) -> VectorStores:
        """Return the stores of elements, each where it is inside."""
        return self._of_vectors(self.vectors, inside)

    def row_stores(self) -> Lines:
        """Return the statements that write one value a row, and one value in all."""
        lines: list[str] = []
        if self.rows and self.symbols.in_columns:
            found = self._of_vectors(self.rows, "is_row & (lane == 0)")
            lines += found.fragments
            lines += [f"for e in {self.symbols.dialect.unrolled}(v.vec):", *(f"    {line}" for line in found.elements)]
            lines += found.writes
        elif self.rows:
            lines += self._of_elements(self.rows, "is_row & (lane == 0)")
        if self.scalars and self.is_flat:
            lines.append("s, e, at_row = 0, 0, digits(INDEX(0), v.rows)")
            lines += self._of_elements(self.scalars, "(block == 0) & (thread == 0)")
        elif self.scalars:
            lines.append("e = 0")
            lines += self._of_elements(self.scalars, "(row == 0) & (lane == 0)")
        return tuple(lines)

    def _of_vectors(self, stores: tuple[Access, ...], inside: str) -> VectorStores:
        made = (Fragment(self._fragment(a), self._access(a), self.words.memory(a.dtype)) for a in stores)
        fragments = tuple(f.made(self.symbols.dialect, "1") for f in made)
        scope = self.symbols.scope()
        self.values.compute([a.value for a in stores], scope)
        for a in stores:
            code = self.words.stored(scope.names[a.value], self.symbols.dtypes[a.value], a.dtype)
            scope.lines.append(f"{self._fragment(a)}[e, 0] = {code}")
        return VectorStores(fragments, self.symbols.close(scope), tuple(self._write(a, inside) for a in stores))

    def _of_elements(self, stores: tuple[Access, ...], inside: str) -> Lines:
        """Return the statements that write one element of each of some tensors."""
        scope = self.symbols.scope()
        self.values.compute([a.value for a in stores], scope)
        for a in stores:
            code = self.words.stored(scope.names[a.value], self.symbols.dtypes[a.value], a.dtype)
            start = f"offset({self._access(a)}, at_row)"
            put = self.symbols.function("put", a.tensor)
            scope.lines.append(f"{put}({self.symbols.tensors[a.tensor]}, {start}, {inside}, {code})")
        return self.symbols.close(scope)

    def _fragment(self, a: Access) -> str:
        return f"{self.symbols.tensors[a.tensor]}_new"

    def _access(self, a: Access) -> str:
        return self.symbols.access(self.symbols.tensors[a.tensor], a.walk, a)

    def _write(self, a: Access, inside: str) -> str:
        at, tensor = self._access(a), self.symbols.tensors[a.tensor]
        if a in self.rows:
            write = self.symbols.function("write_row", a.tensor)
            return f"{write}(v, {at}, {tensor}, at_row, {inside}, {self._fragment(a)})"
        start = f"offset({at}, {'at_row' if self.is_flat else 'at_row, at_col'})"
        write = self.symbols.function("write", a.tensor)
        return f"{write}(v, {at}, {tensor}, {start}, {at}.{self.symbols.vector_side}[0], {inside}, {self._fragment(a)})"


def _is_one_element(a: Access) -> bool:
    return not any((*a.walk.kept, *a.walk.reduced))
