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
    dtype, combine = statement.dtype, statement.combine
    type_, zero = carried(dtype), constant(0, dtype)
    if combine is Combine.M2:
        return State((f"{name}_count", f"{name}_mean", name), (type_,) * 3, (zero,) * 3, "join_moments", "", dtype)
    if combine is Combine.SUMEXP:
        identities = (constant(float("-inf"), dtype), zero)
        return State((f"{name}_top", name), (type_, type_), identities, "join_exponents", "", dtype)
    if combine in _ARGUMENTS:
        return _position_state(combine, _at_least_a_word(carried_dtype(operand)), name)
    return _plain_state(statement, _at_least_a_word(carried_dtype(dtype)), name)


def _position_state(combine: Combine, dtype: DType, name: str) -> State:
    """Return the state of ARGMAX or ARGMIN: the best element and where it lies."""
    join, first = _ARGUMENTS[combine]
    identity = f'{carried(dtype)}(float("{first}"))' if dtype.is_float else constant(_limit(dtype, first), dtype)
    return State((name, f"{name}_at"), (carried(dtype), "INDEX"), (identity, "INDEX(2147483647)"), join, "", dtype)


def _plain_state(statement: Reduce | Scan, dtype: DType, name: str) -> State:
    """Return the state of one value, joined by an operation that the kernel defines as a function."""
    combine = statement.combine
    op, first = _JOINS[combine]
    if not dtype.is_float and combine in (Combine.MAX, Combine.MIN):
        first = _limit(dtype, "-inf" if combine is Combine.MAX else "inf")
    form = form_of(op, dtype)
    if form is None:
        raise OpNotPrintedError(statement=statement, dtype=dtype)
    join = f"join_{combine}" if dtype is DType.FP32 else f"join_{combine}_{dtype}"
    joined = form.format("a[0]", "b[0]", kind=carried(dtype))
    source = f'def {join}(a, b):\n    """{_DOCS[op]}"""\n    return ({joined},)'
    return State((name,), (carried(dtype),), (constant(first, dtype),), join, source, dtype)


def _at_least_a_word(dtype: DType) -> DType:
    """Return the type in which threads exchange a value: shuffles move words."""
    return DType.INT32 if dtype.bits < 32 else dtype


def _limit(dtype: DType, end: str) -> int:
    bits = dtype.bits - (dtype is not DType.UINT8)
    if end == "inf":
        return int(2**bits) - 1
    return 0 if dtype is DType.UINT8 else -int(2**bits)
