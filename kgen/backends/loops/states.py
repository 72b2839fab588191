"""How a reduction is printed: the state each thread keeps, how an element enters it, how two states are joined."""

from dataclasses import dataclass

from kgen.backends.loops.dialect import LoopDialect
from kgen.backends.source.dialect import carried_dtype
from kgen.errors.backend import OpNotPrintedError
from kgen.ir.dtype import DType
from kgen.ir.pointwise import PointwiseOp as Op
from kgen.ir.problem import Combine, Reduce, Scan

_JOINS = {
    Combine.SUM: (Op.ADD, 0),
    Combine.PROD: (Op.MUL, 1),
    Combine.MAX: (Op.MAXIMUM, float("-inf")),
    Combine.MIN: (Op.MINIMUM, float("inf")),
    Combine.ANY: (Op.MAXIMUM, 0),
    Combine.ALL: (Op.MINIMUM, 1),
}
_DOCS = {
    Op.ADD: "The sum of two partial sums.",
    Op.MUL: "The product of two partial products.",
    Op.MAXIMUM: "The larger of two partial maxima.",
    Op.MINIMUM: "The smaller of two partial minima.",
}
_ARGUMENTS = {Combine.ARGMAX: ("first_of_largest", "-inf"), Combine.ARGMIN: ("first_of_smallest", "inf")}


@dataclass(frozen=True, slots=True)
class State:
    """The state of one reduction: names, types and first values of its parts, and the function that joins two.

    `join_source` is the text of that function, empty for one of the library. `across` is what joins the states of
    several lanes at once, `operation` the DSL's own name of the combination.
    """

    names: tuple[str, ...]
    types: tuple[str, ...]
    identities: tuple[str, ...]
    join: str
    across: str
    operation: str
    join_source: str
    dtype: DType  # what elements are carried in when they enter


class StateMaker:
    """Makes the states of the reductions and scans of one kernel in the words of its dialect."""

    def __init__(self, dialect: LoopDialect) -> None:
        self.words, self.dialect = dialect.values, dialect

    def state_of(self, statement: Reduce | Scan, operand: DType, name: str) -> State:
        """Return how a reduction is kept; `operand` is the type of its elements."""
        dtype, combine = statement.dtype, statement.combine
        zero = self.words.constant(0, dtype)
        match combine:
            case Combine.M2:
                names = (f"{name}_count", f"{name}_mean", name)
                return self._of_library(combine, names, (zero,) * 3, "join_moments", dtype)
            case Combine.SUMEXP:
                first = (self.words.constant(float("-inf"), dtype), zero)
                return self._of_library(combine, (f"{name}_top", name), first, "join_exponents", dtype)
            case Combine.ARGMAX | Combine.ARGMIN:
                return self._position(combine, _at_least_a_word(carried_dtype(operand)), name)
            case _:
                return self._plain(statement, _at_least_a_word(carried_dtype(dtype)), name)

    def _of_library(
        self, combine: Combine, names: tuple[str, ...], identities: tuple[str, ...], join: str, dtype: DType
    ) -> State:
        types = (self.words.carried(dtype),) * len(names)
        return self._state(combine, names, types, identities, join, "", dtype)

    def _position(self, combine: Combine, dtype: DType, name: str) -> State:
        """Return the state of ARGMAX or ARGMIN: the best element and where it lies."""
        join, first = _ARGUMENTS[combine]
        kind = self.words.carried(dtype)
        best = f'{kind}(float("{first}"))' if dtype.is_float else self.words.constant(_limit(dtype, first), dtype)
        types, identities = (kind, "INDEX"), (best, "INDEX(2147483647)")
        return self._state(combine, (name, f"{name}_at"), types, identities, join, "", dtype)

    def _plain(self, statement: Reduce | Scan, dtype: DType, name: str) -> State:
        """Return the state of one value, joined by an operation that the kernel defines as a function."""
        combine = statement.combine
        op, first = _JOINS[combine]
        if not dtype.is_float and combine in (Combine.MAX, Combine.MIN):
            first = _limit(dtype, "-inf" if combine is Combine.MAX else "inf")
        form = self.words.forms.of(op, dtype)
        if form is None:
            raise OpNotPrintedError(statement=statement, dtype=dtype)
        join, kind = f"join_{combine}" if dtype is DType.FP32 else f"join_{combine}_{dtype}", self.words.carried(dtype)
        joined = form.format("a[0]", "b[0]", kind=kind)
        source = f'def {join}(a, b):\n    """{_DOCS[op]}"""\n    return ({joined},)'
        identities = (self.words.constant(first, dtype),)
        return self._state(combine, (name,), (kind,), identities, join, source, dtype)

    def _state(
        self,
        combine: Combine,
        names: tuple[str, ...],
        types: tuple[str, ...],
        identities: tuple[str, ...],
        join: str,
        source: str,
        dtype: DType,
    ) -> State:
        across, operation = self.dialect.across.get(combine, join), self.dialect.operations.get(combine, "")
        return State(names, types, identities, join, across, operation, source, dtype)


def _at_least_a_word(dtype: DType) -> DType:
    """Return the type in which threads exchange a value: shuffles move words."""
    return DType.INT32 if dtype.bits < 32 else dtype


def _limit(dtype: DType, end: str) -> int:
    bits = dtype.bits - (dtype is not DType.UINT8)
    if end == "inf":
        return int(2**bits) - 1
    return 0 if dtype is DType.UINT8 else -int(2**bits)
