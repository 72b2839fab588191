"""The statements of a loop kernel as source text: what happens to one element, to one row, and in which phase.

An element is known by `s`, the vector of this thread, and `e`, its place in the vector. Where threads lie along
columns the values of a row are fragments, `[e]`; else they are plain names.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from kgen.backends.cutedsl.expressions import carried, carried_dtype, loaded, memory, print_ops, stored
from kgen.backends.cutedsl.lines import fitted
from kgen.backends.cutedsl.loop_states import State, state_of
from kgen.families.strided.facts import is_early
from kgen.families.strided.form import Access, Layout, LoopForm, Statement, Walk, levels, row_values
from kgen.ir.dtype import DType
from kgen.ir.pointwise import PointwiseOp
from kgen.ir.problem import Combine, Const, Gather, Index, Load, Map, Reduce, Scan

Lines = tuple[str, ...]
# Rounded correctly, as in PyTorch: a quotient or a root of whole numbers is often meant to be one.
_EXACT = frozenset({PointwiseOp.DIV, PointwiseOp.RECIPROCAL, PointwiseOp.SQRT, PointwiseOp.POW})


@dataclass(frozen=True, slots=True)
class Block:
    """Statements that run for each element, or for each row of a vector, or once."""

    over_elements: bool
    over_vector: bool
    lines: Lines


@dataclass(frozen=True, slots=True)
class Phase:
    """One combination along the columns: states made, elements taken in pass by pass, states joined."""

    start: tuple[Block, ...]
    passes: tuple[Block, ...]
    end: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class NamedAccess:
    """A way to walk a tensor under the name it has in the kernel."""

    name: str
    tensor: str
    walk: Walk
    access: Access | None


@dataclass(slots=True)
class _Scope:
    """Names of values at one place; `high` counts the temporaries used before, so that none has two meanings."""

    names: dict[str, str]
    high: int
    lines: list[str] = field(default_factory=list)

    def fresh(self) -> str:
        return f"x{len(set(self.names.values()))}"


def fit(lines: Lines, indent: int) -> Lines:
    """Return statements in lines that fit where they are printed."""
    return tuple(part for line in lines for part in fitted(line, indent))


def unpacked(printer: "BodyPrinter") -> Lines:
    """Return the statement that names the accesses of a variant."""
    names = [a.name for a in printer.accesses]
    return (f"({names[0]},) = v.accesses",) if len(names) == 1 else fitted(f"{', '.join(names)} = v.accesses", 4)


def tuple_of(names: Sequence[str]) -> str:
    """Return a tuple of names as Python source."""
    return f"({names[0]},)" if len(names) == 1 else f"({', '.join(names)})"


def is_part(s: Reduce, other: Reduce) -> bool:
    """Whether a reduction follows from the state of another: a sum from moments, a maximum from exponentials."""
    same = (s.operand, s.axes) == (other.operand, other.axes) and other.dtype is DType.FP32
    return same and (s.combine, other.combine) in ((Combine.SUM, Combine.M2), (Combine.MAX, Combine.SUMEXP))


class BodyPrinter:
    """Prints the parts of one kernel; `tensors` gives the Python name of each tensor."""

    def __init__(self, form: LoopForm, tensors: dict[str, str], schedule: str) -> None:
        self.form, self.tensors, self.schedule = form, tensors, schedule
        self.in_columns = form.layout is Layout.COLUMNS
        self.rows = frozenset[str]() if form.layout is Layout.FLAT else row_values(form)
        self.levels = levels(form)
        self.types = dict(form.dtypes)
        self.statements: dict[str, Statement] = {s.result: s for s in form.body}
        self.loads = {a.value: a for a in form.loads}
        self.walks = {a.value: a.walk for a in form.loads} | dict(form.coordinates)
        self.known: dict[str, str] = {}  # values of a row -> what they are in the kernel
        self.high = 0
        self.accesses: list[NamedAccess] = []
        self.states: dict[str, State] = {}
        self.raws = self.raw_loads()

    # ---- names ----

    def access(self, tensor: str, walk: Walk, access: Access | None = None) -> str:
        """Return the name of a walk over a tensor; equal ones share it."""
        same = [found for found in self.accesses if found.tensor == tensor]
        for found in same:
            if found.walk == walk and (found.access is None) is (access is None):
                return found.name
        name = f"{tensor}_at{len(same) or ''}"
        self.accesses.append(NamedAccess(name, tensor, walk, access))
        return name

    def raw_loads(self) -> dict[str, tuple[str, str]]:
        """Return (fragment, access) of every load that fills registers a vector at a time before anything runs."""
        found = {}
        for load in self.form.loads:
            is_row = load.value in self.rows
            late = load.gathered is not None and (
                self.in_columns or load.gathered[0] not in self.rows or self.levels[load.gathered[0]] > 0
            )
            if not load.guards and not late and (self.in_columns or not is_row):
                at = self.access(self.tensors[load.tensor], load.walk, load)
                name = self.tensors[load.tensor]
                found[load.value] = (f"{name}_raw{at.removeprefix(f'{name}_at')}", at)
        return found

    def kind(self, value: str) -> str:
        """Return when a fragment is read: `row` before the elements, `early` with them, `late` where they are written.

        What all rows share and only the last pass needs is read late: it lies in a cache, and would fill registers.
        """
        if value in self.rows:
            return "row"
        return "early" if is_early(self.loads[value], self.form) else "late"

    def coords(self, value: str) -> str:
        """Return the coordinates of the element `e` of a vector, or of a row."""
        if self.form.layout is Layout.ROWS:
            return "at_row" if value in self.rows else "at_row, shifted(at_col, e)"
        if self.form.layout is Layout.FLAT or value in self.rows:
            return "shifted(at_row, e)"
        return "shifted(at_row, e), at_col"

    def scope(self) -> _Scope:
        pads = max(self.high - len(set(self.known.values())), 0)
        return _Scope({**self.known, **{f"#{i}": f"#{i}" for i in range(pads)}}, self.high)

    def close(self, scope: _Scope) -> Lines:
        self.high = len(set(scope.names.values()))
        return tuple(scope.lines)

    # ---- statements ----

    def needed(self, values: Iterable[str], names: dict[str, str]) -> Iterator[Statement]:
        """Yield what has to be computed for some values, in order."""
        wanted = {v for v in values if v not in names}
        found = []
        for s in reversed(self.form.body):
            if s.result in wanted:
                found.append(s)
                wanted |= {o for o in self.operands(s) if o not in names}
        return reversed(found)

    def operands(self, s: Statement) -> tuple[str, ...]:
        match s:
            case Map():
                return tuple(o for o in s.operands if isinstance(o, str))
            case Gather():
                return () if s.result in self.raws else (s.index,)
            case Reduce() | Scan():
                return (s.operand,)
            case Load() | Index():
                return ()

    def compute(self, values: Iterable[str], scope: _Scope) -> None:
        """Print what some values need at the place of a scope."""
        for s in self.needed(values, scope.names):
            match s:
                case Map():
                    for op in self.divided(s):
                        scope.lines += print_ops((op,), scope.names, self.types, approximate=op.op not in _EXACT)
                case Load() | Gather():
                    self.define(scope, s.result, loaded(self.loaded_code(s.result, scope), self.loads[s.result].dtype))
                case Index():
                    code = f"offset({self.access('index', self.walks[s.result])}, {self.coords(s.result)})"
                    self.define(scope, s.result, f"{code}.to({carried(s.dtype)})")
                case _:
                    raise AssertionError(f"{s} is known where it is used")

    def define(self, scope: _Scope, value: str, code: str) -> None:
        name = scope.fresh()
        scope.lines.append(f"{name} = {code}")
        scope.names[value] = name

    def temporary(self, scope: _Scope) -> str:
        """Return a name that nothing has."""
        name = scope.fresh()
        scope.names[f"#{name}"] = name
        return name

    def divided(self, s: Map) -> tuple[Map, ...]:
        """Return an fp32 division by what does not vary along the elements as a product, as PyTorch's CUDA code has."""
        if s.op is not PointwiseOp.DIV or s.dtype is not DType.FP32 or s.result in self.rows:
            return (s,)
        over = s.operands[1]
        if isinstance(over, Const):
            if not over.value or 1 / over.value in (float("inf"), float("-inf")):
                return (s,)
            return (Map(s.result, PointwiseOp.MUL, (s.operands[0], Const(1 / over.value)), s.dtype),)
        if over not in self.rows or s.operands[0] in self.rows:
            return (s,)
        inverse = Map(f"{s.result}/", PointwiseOp.RECIPROCAL, (over,), s.dtype)
        self.types[inverse.result] = s.dtype
        return (inverse, Map(s.result, PointwiseOp.MUL, (s.operands[0], inverse.result), s.dtype))

    def loaded_code(self, value: str, scope: _Scope) -> str:
        """Return the expression of one loaded element."""
        if value in self.raws:
            at = "s" if self.kind(value) == "early" else "0"
            return f"{self.raws[value][0]}[e, {at}]"
        load = self.loads[value]
        tensor = self.tensors[load.tensor]
        start = f"offset({self.access(tensor, load.walk)}, {self.coords(value)})"
        conditions = [f"({self.guard(guard, value)} >= 0)" for guard in load.guards]
        if load.gathered is not None:
            index, stride, extent = load.gathered
            at = scope.names[index]
            start = f"{start} + INDEX({at}) * {stride}"
            conditions += [f"({at} >= 0)", f"({at} < {extent})"]
        if not conditions and value in self.rows:
            return f"element({tensor}, {start})[0]"
        inside = " & ".join([*conditions, *([] if value in self.rows else ["inside"])])
        return f"element_where({tensor}, {start}, {inside}, {load.fill!r})"

    def guard(self, walk: Walk, value: str) -> str:
        return f"offset({self.access('guard', walk)}, {self.coords(value)})"

    # ---- parts of the kernel ----

    def setup(self) -> Lines:
        """Return what is known of a row before its elements are read."""
        return self.row_lines(0)

    def row_lines(self, level: int) -> Lines:
        """Return the values of a row that become known with a level, where they have names of their own."""
        if self.in_columns:
            return ()
        wanted = [v for v in self.rows if self.levels[v] <= level and v not in self.known and v in self.used_rows()]
        scope = self.scope()
        self.compute(sorted(wanted, key=list(self.statements).index), scope)
        self.known.update({v: name for v, name in scope.names.items() if v in self.rows})
        return self.close(scope)

    def used_rows(self) -> set[str]:
        """Return the values of a row that elements, reductions or stores read."""
        used = {a.value for a in self.form.stores}
        for s in self.form.body:
            if s.result not in self.rows or isinstance(s, Reduce):
                used.update(self.operands(s))
                used.update([s.index] if isinstance(s, Gather) else [])
        return used

    def fragments(self, kind: str) -> tuple[tuple[str, str, str], ...]:
        """Return (name, access, memory type) of the registers that vectors of a kind are read into."""
        found = {}
        for value, (raw, at) in self.raws.items():
            if self.kind(value) == kind:
                found[raw] = (raw, at, memory(self.loads[value].dtype))
        return tuple(found.values())

    def reads(self, kind: str) -> Lines:
        """Return the statements that fill the fragments of a kind."""
        side = "cols" if self.form.layout is Layout.ROWS else "rows"
        found: dict[str, str] = {}
        for value, (raw, at) in self.raws.items():
            if self.kind(value) != kind:
                continue
            load = self.loads[value]
            coords = "at_row" if kind == "row" or self.form.layout is Layout.FLAT else "at_row, at_col"
            start = f"offset({at}, {coords})"
            if load.gathered is not None:
                start += f" + INDEX({self.known[load.gathered[0]]}) * {load.gathered[1]}"
            inside, s = {"row": ("cutlass.Boolean(True)", "0"), "early": ("inside", "s"), "late": ("inside", "0")}[kind]
            tensor = self.tensors[load.tensor]
            found[raw] = f"read(v, {at}, {tensor}, {start}, {at}.{side}[0], {inside}, {raw}, {s})"
        return tuple(found.values())

    def exchanges(self) -> Lines:
        """Return the statements that allocate smem for the states that threads exchange."""
        found = [
            f"{state.names[-1]}_parts = exchange(v, smem, {', '.join(state.types)})" for state in self.states.values()
        ]
        if self.form.layout is Layout.ROWS and self.schedule == "resident" and found:
            parts = [f"{state.names[-1]}_parts" for state in self.states.values()]
            found.append(f"enter_cluster(v, {tuple_of(parts)})")
        return ("smem = SmemAllocator()", *found) if found else ()

    def joins(self) -> Lines:
        """Return the source of the functions that join states, but for those of the library."""
        return tuple(dict.fromkeys(state.join_source for state in self.states.values() if state.join_source))

    def phase(self, level: int) -> Phase:
        """Return the text of the reductions whose operands are known at a level."""
        reduces = [s for s in self.form.body if isinstance(s, Reduce) and self.levels[s.operand] == level]
        start, between, fold, end = list[str](), list[str](), list[str](), list[str]()
        first, second = self.scope(), None
        twice = [s for s in reduces if s.combine in (Combine.M2, Combine.SUMEXP)]  # they take the elements in twice
        totals = {s.result: m for s in reduces for m in twice if is_part(s, m)}
        reduces = [s for s in reduces if s.result not in totals]
        self.compute([s.operand for s in reduces], first)
        for s in reduces:
            state = self.state(s)
            start += [self.made(n, t, i) for n, t, i in zip(state.names, state.types, state.identities, strict=True)]
            first.lines += self.taken(s, state, first)
            end += self.joined(state)
        lines = self.close(first)
        passes = [Block(True, False, lines)]
        if twice:
            sums = [self.made(n, carried(s.dtype), value) for s in twice for n, value in self.partial(s)]
            second = self.scope()
            self.compute([s.operand for s in twice], second)
            for s in twice:
                between += self.center(s)
                second.lines += self.taken_again(s, second)
                fold.append(self.folded(s))
            passes = [
                Block(False, False, tuple(sums)),
                *passes,
                Block(False, self.in_columns, tuple(between)),
                Block(True, False, self.close(second)),
                Block(False, self.in_columns, tuple(fold)),
            ]
        for s in reduces:
            self.known[s.result] = self.result(s)
        for result, m in totals.items():
            names = self.states[m.result].names
            largest, total = self.slot(names[0]), f"({self.slot(names[1])} * {float(self.form.cols)})"
            self.known[result] = total if m.combine is Combine.M2 else largest
        rows = self.row_lines(level + 1)
        passes = [block for block in passes if block.lines]
        return Phase((Block(False, False, tuple(start)),), tuple(passes), (Block(False, False, (*end, *rows)),))

    def state(self, s: Reduce) -> State:
        operand = self.types[s.operand]
        state = state_of(s, operand, f"{s.combine}_{len(self.states)}")
        self.states[s.result] = state
        return state

    def made(self, name: str, kind: str, value: str) -> str:
        if self.in_columns:
            return f"{name} = filled(v, {kind}, {value})"
        return f"{name} = {value}" if value.startswith((kind, "INDEX")) else f"{name} = {kind}({value})"

    def slot(self, name: str) -> str:
        return f"{name}[e]" if self.in_columns else name

    def entering(self, s: Reduce | Scan, state: State, scope: _Scope) -> str:
        """Return the operand in the type of the state."""
        cast = Map(f"{s.result}<", PointwiseOp.CAST, (s.operand,), state.dtype)
        scope.lines += print_ops((cast,), scope.names, self.types, approximate=True)
        return scope.names[cast.result]

    def taken(self, s: Reduce, state: State, scope: _Scope) -> Lines:
        value = self.entering(s, state, scope)
        if s.combine is Combine.SUMEXP:
            top = self.slot(self.partial(s)[0][0])
            return (f"{top} = maximum({top}, within(v, inside, {value}, {state.identities[0]}))",)
        if s.combine is Combine.M2:
            total, count, _ = (name for name, _ in self.partial(s))
            return (
                f"{self.slot(total)} = {self.slot(total)} + within(v, inside, {value}, 0.0)",
                f"{self.slot(count)} = {self.slot(count)} + within(v, inside, {state.types[0]}(1.0), 0.0)",
            )
        value = f"within(v, inside, {value}, {state.identities[0]})"
        targets = ", ".join(self.slot(n) for n in state.names)
        if len(state.names) == 2:
            position = f"offset({self.access('index', self.walks[s.result])}, {self.coords(s.operand)})"
            found, at = (self.temporary(scope) for _ in range(2))
            return (
                f"{found} = {value}",
                f"{at} = {position}",
                f"{targets} = {state.join}(({targets}), ({found}, {at}))",
            )
        return (f"{targets} = {state.join}(({targets},), ({value},))[0]",)

    def partial(self, s: Reduce) -> tuple[tuple[str, str], ...]:
        """Return names and first values of what a pass over elements in registers keeps."""
        name = self.states[s.result].names[-1]
        if s.combine is Combine.SUMEXP:
            return (f"{name}_largest", self.states[s.result].identities[0]), (f"{name}_part", "0.0")
        return (f"{name}_total", "0.0"), (f"{name}_seen", "0.0"), (f"{name}_square", "0.0")

    def center(self, s: Reduce) -> Lines:
        """Return the statement between the two passes of M2: the mean of this thread's elements."""
        if s.combine is Combine.SUMEXP:
            return ()
        total, count, _ = (self.slot(n) for n, _ in self.partial(s))
        return (f"{total} = {total} / at_least_one({count})",)

    def taken_again(self, s: Reduce, scope: _Scope) -> Lines:
        center, *_, total = (self.slot(n) for n, _ in self.partial(s))
        value = self.entering(s, self.states[s.result], scope)
        name = self.temporary(scope)
        if s.combine is Combine.SUMEXP:
            return (
                f"{name} = within(v, inside, cute.math.exp({value} - center_of({center}), fastmath=True), 0.0)",
                f"{total} = {total} + {name}",
            )
        return (
            f"{name} = within(v, inside, {value} - {center}, 0.0)",
            f"{total} = {total} + {name} * {name}",
        )

    def folded(self, s: Reduce) -> str:
        state = self.states[s.result]
        names = ", ".join(self.slot(n) for n in state.names)
        parts = [self.slot(n) for n, _ in self.partial(s)]
        if s.combine is Combine.M2:
            total, count, square = parts
            parts = [count, total, square]
        return f"{names} = {state.join}(({names}), ({', '.join(parts)}))"

    def joined(self, state: State) -> Lines:
        names, parts = tuple_of(state.names), f"{state.names[-1]}_parts"
        if self.in_columns:
            return (f"combine_columns(v, {names}, {state.join}, {parts})",)
        targets = names if len(state.names) == 1 else ", ".join(state.names)
        return (f"{targets} = combine_row(v, {names}, {state.join}, {parts})",)

    def result(self, s: Reduce) -> str:
        state = self.states[s.result]
        if s.combine in (Combine.ANY, Combine.ALL):
            return f"({self.slot(state.names[0])} != 0)"
        if s.combine in (Combine.ARGMAX, Combine.ARGMIN):
            return f"{self.slot(state.names[1])}.to(cutlass.Int64)"
        code = self.slot(state.names[-1])
        return code if carried_dtype(s.dtype) is state.dtype else f"{code}.to({carried(s.dtype)})"

    # ---- what is written ----

    def element_stores(self) -> tuple[Access, ...]:
        """Return the stores that write vectors of elements."""
        if self.form.layout is Layout.FLAT:
            return tuple(a for a in self.form.stores if not self.is_scalar(a))
        return tuple(a for a in self.form.stores if not a.walk.is_row)

    def row_stores(self) -> tuple[Access, ...]:
        """Return the stores of one value a row, or of one in all."""
        return tuple(a for a in self.form.stores if a not in self.element_stores())

    def is_scalar(self, a: Access) -> bool:
        return not any((*a.walk.kept, *a.walk.reduced)) and self.form.rows > 1

    def outputs(self, stores: Iterable[Access]) -> tuple[tuple[str, str, str], ...]:
        """Return (name, access, memory type) of the registers that hold a vector to be written."""
        return tuple(
            (f"{self.tensors[a.tensor]}_new", self.access(self.tensors[a.tensor], a.walk, a), memory(a.dtype))
            for a in stores
        )

    def stored(self, stores: tuple[Access, ...]) -> Lines:
        """Return the statements that compute the elements of a vector and keep them."""
        scope = self.scope()
        self.compute([a.value for a in stores], scope)
        for a in stores:
            code = stored(scope.names[a.value], self.types[a.value], a.dtype)
            scope.lines.append(f"{self.tensors[a.tensor]}_new[e, 0] = {code}")
        return self.close(scope)

    def writes(self, stores: tuple[Access, ...], inside: str) -> Lines:
        side = "cols" if self.form.layout is Layout.ROWS else "rows"
        found = []
        for a in stores:
            name = self.tensors[a.tensor]
            at = self.access(name, a.walk, a)
            coords = "at_row" if a.walk.is_row or self.form.layout is Layout.FLAT else "at_row, at_col"
            found.append(f"write(v, {at}, {name}, offset({at}, {coords}), {at}.{side}[0], {inside}, {name}_new)")
        return tuple(found)

    def row_store_lines(self) -> Lines:
        """Return the statements that write one value a row, and one value in all."""
        by_row = tuple(a for a in self.row_stores() if not self.is_scalar(a))
        scalars = tuple(a for a in self.row_stores() if self.is_scalar(a))
        lines: list[str] = []
        if by_row and self.in_columns:
            lines += [f"{n} = fragment(v, {at}, {kind}, 1)" for n, at, kind in self.outputs(by_row)]
            lines += ["for e in cutlass.range_constexpr(v.vec):", *(f"    {line}" for line in self.stored(by_row))]
            lines += self.writes(by_row, "is_row & (lane == 0)")
        elif by_row:
            lines += self.single(by_row, "is_row & (lane == 0)")
        if scalars:
            is_flat = self.form.layout is Layout.FLAT
            lines += ["s, e, at_row = 0, 0, digits(INDEX(0), v.rows)"] if is_flat else ["e = 0"]
            lines += self.single(scalars, "(block == 0) & (thread == 0)" if is_flat else "(row == 0) & (lane == 0)")
        return tuple(lines)

    def single(self, stores: tuple[Access, ...], inside: str) -> Lines:
        """Return the statements that write one element of each of some tensors."""
        scope = self.scope()
        self.compute([a.value for a in stores], scope)
        for a in stores:
            name = self.tensors[a.tensor]
            code = stored(scope.names[a.value], self.types[a.value], a.dtype)
            at = self.access(name, a.walk, a)
            scope.lines.append(f"put({name}, offset({at}, at_row), {inside}, {code})")
        return self.close(scope)
