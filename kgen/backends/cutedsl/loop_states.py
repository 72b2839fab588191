"""How a reduction is printed: the state each thread keeps, how an element enters it, how two states are joined."""

from dataclasses import dataclass

from kgen.backends.cutedsl.expressions import carried, carried_dtype, constant
from kgen.backends.cutedsl.forms import form_of
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
_ARGUMENTS = {Combine.ARGMAX: ("first_of_largest", "-inf"), Combine.ARGMIN: ("first_of_smallest", "inf")}


@dataclass(frozen=True, slots=True)
class State:
    """The state of one reduction: names, types and first values of its parts, and the function that joins two.

    `join_source` is the text of that function, empty for one of the library.
    """

    names: tuple[str, ...]
    types: tuple[str, ...]
    identities: tuple[str, ...]
    join: str
    join_source: str
    dtype: DType  # what elements are carried in when they enter


def state_of(statement: Reduce | Scan, operand: DType, name: str) -> State:
    """Return how a reduction is kept; `operand` is the type of its elements."""
    combine = statement.combine
    if combine is Combine.M2:
        kind, zero = carried(statement.dtype), constant(0, statement.dtype)
        names = (f"{name}_count", f"{name}_mean", name)
        return State(names, (kind,) * 3, (zero,) * 3, "join_moments", "", statement.dtype)
    if combine is Combine.SUMEXP:
        kind = carried(statement.dtype)
        least, zero = constant(float("-inf"), statement.dtype), constant(0, statement.dtype)
        return State((f"{name}_top", name), (kind, kind), (least, zero), "join_exponents", "", statement.dtype)
    if combine in _ARGUMENTS:
        join, first = _ARGUMENTS[combine]
        dtype = _at_least_a_word(carried_dtype(operand))
        identity = f'{carried(dtype)}(float("{first}"))' if dtype.is_float else constant(_limit(dtype, first), dtype)
        return State((name, f"{name}_at"), (carried(dtype), "INDEX"), (identity, "INDEX(2147483647)"), join, "", dtype)
    dtype = _at_least_a_word(carried_dtype(statement.dtype))
    op, first_value = _JOINS[combine]
    if not dtype.is_float and combine in (Combine.MAX, Combine.MIN):
        first_value = _limit(dtype, "-inf" if combine is Combine.MAX else "inf")
    form = form_of(op, dtype)
    if form is None:
        raise OpNotPrintedError(statement=statement, dtype=dtype)
    suffix = "" if dtype is DType.FP32 else f"_{dtype}"
    join = f"join_{combine}{suffix}"
    source = (
        f'def {join}(a, b):\n    """{_DOCS[op]}"""\n    return ({form.format("a[0]", "b[0]", kind=carried(dtype))},)'
    )
    return State((name,), (carried(dtype),), (constant(first_value, dtype),), join, source, dtype)


_DOCS = {
    Op.ADD: "The sum of two partial sums.",
    Op.MUL: "The product of two partial products.",
    Op.MAXIMUM: "The larger of two partial maxima.",
    Op.MINIMUM: "The smaller of two partial minima.",
}


def _at_least_a_word(dtype: DType) -> DType:
    """Return the type in which threads exchange a value: shuffles move words."""
    return DType.INT32 if dtype.bits < 32 else dtype


def _limit(dtype: DType, end: str) -> int:
    bits = dtype.bits - (dtype is not DType.UINT8)
    if end == "inf":
        return int(2**bits) - 1
    return 0 if dtype is DType.UINT8 else -int(2**bits)
