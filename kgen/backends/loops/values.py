"""The statements that compute values of a loop kernel at one place: loads, coordinates and pointwise operations."""

from collections.abc import Iterable, Iterator

from kgen.backends.loops.reads import VectorReads
from kgen.backends.loops.states import State
from kgen.backends.loops.symbols import Scope, Symbols
from kgen.backends.source.lines import Lines
from kgen.families.strided.form import LoopForm, Statement, Walk
from kgen.ir.dtype import DType
from kgen.ir.pointwise import PointwiseOp
from kgen.ir.problem import Gather, Index, Load, Map, Reduce, Scan, operands_of

# Rounded correctly, as in PyTorch: a quotient or a root of whole numbers is often meant to be one.
_EXACT = frozenset({PointwiseOp.DIV, PointwiseOp.RECIPROCAL, PointwiseOp.SQRT, PointwiseOp.POW})
# Operations and types that tell neighbouring numbers apart: a quotient that reaches one of them is divided for.
_STEPS = frozenset({PointwiseOp.ROUND, PointwiseOp.FLOOR, PointwiseOp.CEIL, PointwiseOp.TRUNC, PointwiseOp.SIGN})
_SMOOTH = frozenset({DType.FP16, DType.BF16, DType.FP32, DType.FP64})


class ValuePrinter:
    """Prints what values of one kernel need, at the place of a scope."""

    def __init__(self, symbols: Symbols, reads: VectorReads) -> None:
        self.symbols, self.reads, self.words = symbols, reads, symbols.dialect.values
        self.told_apart = _told_apart(symbols.form)

    def compute(self, values: Iterable[str], scope: Scope) -> None:
        """Print what some values need and the scope does not have."""
        for s in self._missing(values, scope.names):
            match s:
                case Map() if s.result in self.symbols.held:
                    scope.define(s.result, self.symbols.held[s.result])
                case Map():
                    for op in self._with_reciprocal(s):
                        scope.lines += self.words.print_ops(
                            (op,),
                            scope.names,
                            self.symbols.dtypes,
                            approximate=op.op not in _EXACT,
                            divides=self._divides(op),
                        )
                case Load() | Gather():
                    scope.define(s.result, self._loaded(s.result, scope))
                case Index():
                    scope.define(s.result, f"{self.position(s.result, s.result)}.to({self.words.carried(s.dtype)})")
                case _:
                    raise AssertionError(f"{s} is known where it is used")

    def row_values(self, level: int) -> Lines:
        """Return the statements of the values of a row that a level completes, where they have names of their own."""
        symbols = self.symbols
        if symbols.in_columns:
            return ()
        wanted = self._read_of_rows() & symbols.row_values - symbols.row_names.keys()
        body = [s.result for s in symbols.form.body]
        scope = symbols.scope()
        self.compute([v for v in body if v in wanted and symbols.levels[v] <= level], scope)
        symbols.row_names.update({v: name for v, name in scope.names.items() if v in symbols.row_values})
        return symbols.close(scope)

    def position(self, value: str, element: str) -> str:
        """Return the coordinate that `value` stands for, at an element."""
        return f"offset({self.symbols.access('index', self.symbols.walks[value])}, {self.symbols.coords(element)})"

    def entering(self, s: Reduce | Scan, state: State, scope: Scope) -> str:
        """Return the operand in the type of the state."""
        cast = Map(f"{s.result}<", PointwiseOp.CAST, (s.operand,), state.dtype)
        scope.lines += self.words.print_ops((cast,), scope.names, self.symbols.dtypes, approximate=True)
        return scope.names[cast.result]

    def _missing(self, values: Iterable[str], names: dict[str, str]) -> Iterator[Statement]:
        """Return what has to be computed for some values, in order."""
        wanted = {v for v in values if v not in names}
        found = []
        for s in reversed(self.symbols.form.body):
            if s.result in wanted:
                found.append(s)
                wanted |= {o for o in self._operands(s) if o not in names}
        return reversed(found)

    def _operands(self, s: Statement) -> tuple[str, ...]:
        """Return the values that have to be known where a statement is printed: a vector has its index already."""
        is_held = s.result in self.symbols.held or (isinstance(s, Gather) and s.result in self.reads.loads)
        return () if is_held else operands_of(s)

    def _read_of_rows(self) -> set[str]:
        """Return the values that elements, reductions or stores read."""
        used = {a.value for a in self.symbols.form.stores}
        for s in self.symbols.form.body:
            if s.result not in self.symbols.row_values or isinstance(s, Reduce):
                used.update(operands_of(s))
        return used

    def _with_reciprocal(self, s: Map) -> tuple[Map, ...]:
        """Return an fp32 division by what does not vary along the elements as a product, as PyTorch's CUDA code has."""
        rows = self.symbols.row_values
        if s.op is not PointwiseOp.DIV or s.dtype is not DType.FP32 or s.result in rows:
            return (s,)
        dividend, divisor = s.operands
        if divisor not in rows or dividend in rows or s.result in self.told_apart:
            return (s,)
        inverse = Map(f"{s.result}/", PointwiseOp.RECIPROCAL, (divisor,), s.dtype)
        self.symbols.dtypes[inverse.result] = s.dtype
        return (inverse, Map(s.result, PointwiseOp.MUL, (dividend, inverse.result), s.dtype))

    def _divides(self, s: Map) -> bool:
        """Return whether a division by a number stays one: in rows it costs little, and a mean of equals is exact.

        Where neighbouring numbers are told apart, they have to be PyTorch's.
        """
        return s.result in self.symbols.row_values and s.result not in self.told_apart

    def _loaded(self, value: str, scope: Scope) -> str:
        """Return the carried value of one loaded element."""
        if value in self.reads.loads:
            return self.reads.element(value)
        return self.words.loaded(self._element(value, scope), self.symbols.loads[value].dtype)

    def _element(self, value: str, scope: Scope) -> str:
        """Return the expression of one element that no fragment holds."""
        load, is_row = self.symbols.loads[value], value in self.symbols.row_values
        tensor = self.symbols.tensors[load.tensor]
        start = f"offset({self.symbols.access(tensor, load.walk)}, {self.symbols.coords(value)})"
        conditions = [f"({self._guard(guard, value)} >= 0)" for guard in load.guards]
        if load.gathered is not None:
            index, stride, extent = load.gathered
            at = scope.names[index]
            start = f"{start} + INDEX({at}) * {stride}"
            conditions += [f"({at} >= 0)", f"({at} < {extent})"]
        if not conditions and is_row:
            return f"{self.symbols.function('element', load.tensor)}({tensor}, {start})[0]"
        inside = " & ".join([*conditions, *([] if is_row else ["inside"])])
        where = self.symbols.function("element_where", load.tensor)
        return f"{where}({tensor}, {start}, {inside}, {load.fill!r})"

    def _guard(self, walk: Walk, value: str) -> str:
        return f"offset({self.symbols.access('guard', walk)}, {self.symbols.coords(value)})"


def _told_apart(form: LoopForm) -> frozenset[str]:
    """Return the values that whole numbers, comparisons or 8-bit floats are made of."""
    found = {a.value for a in form.stores if a.dtype not in _SMOOTH}
    for s in reversed(form.body):
        if isinstance(s, Map) and (s.result in found or s.op in _STEPS or s.dtype not in _SMOOTH):
            found.update(operands_of(s))
    return frozenset(found)
