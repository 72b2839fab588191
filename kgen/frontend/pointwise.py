"""Pointwise operations of torch to `Map`s: one table from overload names to rules.

The operands of a Map are carried in one type: fp32 for every narrower float, else their own. Values of a reduced
precision are rounded where the reference casts, where torch's promotion narrows an operand, at the operands of a
product, and at the output: docs/spec.md says so to users.
"""

from typing import TYPE_CHECKING, Final

from kgen.errors.frontend import UnsupportedOpError
from kgen.frontend.bind import bind
from kgen.frontend.folding import folded
from kgen.frontend.indices import Indices
from kgen.frontend.promotion import Typed, compute_dtype, fitting, promoted, rounded, widens
from kgen.frontend.views import broadcast
from kgen.ir.dtype import DType
from kgen.ir.graph import Argument, Node, ValueRef
from kgen.ir.pointwise import PointwiseOp
from kgen.ir.problem import Const, Operand

if TYPE_CHECKING:
    from kgen.frontend.body import Body

_LOGIC: Final = (PointwiseOp.LOGICAL_AND, PointwiseOp.LOGICAL_OR, PointwiseOp.LOGICAL_NOT, PointwiseOp.WHERE)
_ON_BOOLS: Final = {
    PointwiseOp.ADD: PointwiseOp.LOGICAL_OR,
    PointwiseOp.MUL: PointwiseOp.LOGICAL_AND,
    PointwiseOp.MAXIMUM: PointwiseOp.LOGICAL_OR,
    PointwiseOp.MINIMUM: PointwiseOp.LOGICAL_AND,
}
_ON_INTEGERS: Final = frozenset(
    {
        PointwiseOp.ADD,
        PointwiseOp.SUB,
        PointwiseOp.MUL,
        PointwiseOp.FLOOR_DIVIDE,
        PointwiseOp.TRUNC_DIVIDE,
        PointwiseOp.REMAINDER,
        PointwiseOp.FMOD,
        PointwiseOp.MAXIMUM,
        PointwiseOp.MINIMUM,
        PointwiseOp.NEG,
        PointwiseOp.ABS,
        PointwiseOp.SIGN,
        PointwiseOp.BITWISE_AND,
        PointwiseOp.BITWISE_OR,
        PointwiseOp.BITWISE_XOR,
        PointwiseOp.BITWISE_NOT,
        PointwiseOp.SHIFT_LEFT,
        PointwiseOp.SHIFT_RIGHT,
        PointwiseOp.WHERE,
    }
)


class PointwiseCall:
    """One pointwise node at one place: gives its operands in the type torch computes in, and emits its Maps."""

    def __init__(self, body: "Body", node: Node, names: str, defaults: dict[str, Argument], indices: Indices) -> None:
        self.body, self.node, self.indices = body, node, indices
        self.call = bind(node, names, **defaults)
        self.dtype = node.types[0].dtype
        self.shape = node.types[0].static_shape

    def common(self, *names: str) -> DType:
        """Return the dtype torch promotes these arguments to."""
        return promoted(tuple(self._typed(self.call.args[n]) for n in names))

    def _typed(self, argument: Argument) -> Typed | bool | int | float:
        if isinstance(argument, ValueRef):
            type_ = self.body.graph.type_of(argument)
            return Typed(type_.dtype, type_.rank)
        assert isinstance(argument, bool | int | float)
        return argument

    def get(self, name: str, dtype: DType | None = None, *, exact: bool = True) -> Operand:
        """Return an argument as torch's op sees it in `dtype` (default: the result's).

        `exact` leaves a Python number as it is, as torch's arithmetic does; otherwise it is rounded
        to the element type first, as comparisons and fills do.
        """
        dtype = dtype or self.dtype
        argument = self.call.args[name]
        if isinstance(argument, ValueRef):
            return self.converted(argument, dtype)
        assert isinstance(argument, bool | int | float)
        return self.number(argument, dtype, exact=exact)

    def number(self, value: bool | int | float, dtype: DType | None = None, *, exact: bool = True) -> Const:
        """Return a Python number as a constant of a type."""
        dtype = dtype or self.dtype
        if not exact or not dtype.is_float:
            value = rounded(value, dtype, self.node.op, self.node.where)
        return Const(float(value) if dtype.is_float else value)

    def fill(self, name: str) -> Operand:
        """Return an argument as fills take it: rounded to the element type, which it must fit."""
        argument = self.call.args[name]
        if isinstance(argument, bool | int | float):
            return Const(fitting(argument, self.dtype, self.node.op, self.node.where))
        return self.get(name, exact=False)

    def converted(self, ref: ValueRef, dtype: DType) -> Operand:
        """Return a tensor operand, broadcast, with the rounding that torch's promotion to `dtype` brings."""
        value = self.raw(ref)
        source = self.body.graph.type_of(ref)
        return value if widens(source.dtype, dtype) else self.cast(value, dtype)

    def raw(self, ref: ValueRef) -> Operand:
        """Return a tensor operand, broadcast to the result's shape, as it is carried."""
        return self.body.value(ref, broadcast(self.body.shape(ref), self.shape, self.indices))

    def map(self, op: PointwiseOp, *operands: Operand) -> Operand:
        """Return the result of an op, computed in the type that carries the result's dtype."""
        dtype = compute_dtype(self.dtype)
        if not dtype.is_float:
            op = self._on_integers(op)
        constant = folded(op, operands, dtype)
        return self.body.map(op, operands, dtype) if constant is None else constant

    def _on_integers(self, op: PointwiseOp) -> PointwiseOp:
        """Return the op that means the same on the integers or bools of the result; refuse what has none."""
        if self.dtype is DType.BOOL and op in _ON_BOOLS:
            return _ON_BOOLS[op]
        if op not in (_LOGIC if self.dtype is DType.BOOL else _ON_INTEGERS):
            raise UnsupportedOpError(
                where=self.node.where,
                op=self.node.op,
                place=f"on {self.dtype} values",
                covered="cast the operands to a float, e.g. with .float()",
            )
        return op

    def test(self, op: PointwiseOp, *operands: Operand) -> Operand:
        """Return the result of a predicate on operands of one carried type."""
        constant = folded(op, operands, DType.BOOL)
        return self.body.map(op, operands, DType.BOOL) if constant is None else constant

    def cast(self, value: Operand, dtype: DType) -> Operand:
        """Return a value rounded to a type."""
        if isinstance(value, Const):
            return self.number(value.value, dtype, exact=False)
        return self.body.cast(value, dtype)
