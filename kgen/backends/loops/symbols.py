"""The names of one loop kernel: its values, the ways it walks its tensors, its states; all its printers share them.

An element is known by `s`, the vector of this thread, and `e`, its place in the vector. Where threads lie along
columns the values of a row are fragments, `[e]`; else they are plain names.
"""

from dataclasses import dataclass, field

from kgen.backends.loops.dialect import LoopDialect
from kgen.backends.loops.states import State
from kgen.backends.source.lines import Lines, fitted, tuple_text
from kgen.families.strided.form import Access, Layout, LoopForm, Walk, levels, row_values


@dataclass(frozen=True, slots=True)
class NamedAccess:
    """A way to walk a tensor under the name it has in the kernel."""

    name: str
    tensor: str
    walk: Walk
    access: Access | None


@dataclass(slots=True)
class Scope:
    """The names of values at one place of a kernel, and the statements that are printed there."""

    names: dict[str, str]
    lines: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        """Number of distinct names."""
        return len(set(self.names.values()))

    def define(self, value: str, code: str) -> None:
        """Print the assignment of a value to a new name."""
        name = f"x{self.count}"
        self.lines.append(f"{name} = {code}")
        self.names[value] = name

    def temporary(self) -> str:
        """Return a name that nothing has."""
        name = f"x{self.count}"
        self.names[f"#{name}"] = name
        return name


class Symbols:
    """What one kernel calls its values; `tensors` gives the Python name of each tensor."""

    def __init__(
        self, form: LoopForm, tensors: dict[str, str], dialect: LoopDialect, far: frozenset[str] = frozenset()
    ) -> None:
        self.form, self.tensors, self.dialect, self.far = form, tensors, dialect, far
        self.in_columns = form.layout is Layout.COLUMNS
        self.row_values = frozenset[str]() if form.layout is Layout.FLAT else row_values(form)
        self.levels = levels(form.body)
        self.dtypes = dict(form.dtypes)
        self.loads = {a.value: a for a in form.loads}
        self.walks = {a.value: a.walk for a in form.loads} | dict(form.coordinates)
        self.row_names: dict[str, str] = {}  # values of a row -> their expressions, as far as they are computed
        self.states: dict[str, State] = {}  # reductions and scans -> how they are kept
        self.held: dict[str, str] = {}  # values of elements -> expressions of what threads hold of them
        self.accesses: list[NamedAccess] = []
        self.temporaries = 0  # names that scopes have used up to here, so that none has two meanings

    @property
    def vector_side(self) -> str:
        """The field of an access that has the stride along a vector first."""
        return "cols" if self.form.layout is Layout.ROWS else "rows"

    def function(self, name: str, tensor: str) -> str:
        """Return the library function that reads or writes a tensor, here under its own name."""
        return f"{name}_far" if tensor in self.far else name

    def access(self, tensor: str, walk: Walk, access: Access | None = None) -> str:
        """Return the name of a walk over a tensor; equal ones share it."""
        same = [found for found in self.accesses if found.tensor == tensor]
        for found in same:
            if found.walk == walk and (found.access is None) is (access is None):
                return found.name
        name = f"{tensor}_at{len(same) or ''}"
        self.accesses.append(NamedAccess(name, tensor, walk, access))
        return name

    def unpacked_accesses(self) -> Lines:
        """Return the statement that names all accesses of a variant."""
        names = [a.name for a in self.accesses]
        targets = tuple_text(names) if len(names) == 1 else ", ".join(names)
        return fitted(f"{targets} = v.accesses", 4)

    def coords(self, value: str) -> str:
        """Return the coordinates of the element `e` of a vector, or of a row."""
        is_row = value in self.row_values
        match self.form.layout:
            case Layout.ROWS:
                return "at_row" if is_row else "at_row, shifted(at_col, e)"
            case Layout.FLAT:
                return "shifted(at_row, e)"
            case Layout.COLUMNS:
                return "shifted(at_row, e)" if is_row else "shifted(at_row, e), at_col"

    def element(self, name: str) -> str:
        """Return what holds a row's part of a state."""
        return f"{name}[e]" if self.in_columns else name

    def scope(self) -> Scope:
        """Return the names of what is known of a row, and none that was used before."""
        unused = max(self.temporaries - len(set(self.row_names.values())), 0)
        return Scope({**self.row_names, **{f"#{i}": f"#{i}" for i in range(unused)}})

    def close(self, scope: Scope) -> Lines:
        """Return the statements of a scope, whose names nothing takes again."""
        self.temporaries = scope.count
        return tuple(scope.lines)
