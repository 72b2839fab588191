"""Pointwise operations of torch to `Map`s: one table from overload names to rules.

Values of a reduced precision are carried in fp32 and rounded where the reference casts, where torch's promotion
narrows an operand, at the operands of a product, and at the output: docs/spec.md says so to users.
"""

from typing import TYPE_CHECKING

from kgen.errors.frontend import UnsupportedOpError
from kgen.frontend.bind import bind
from kgen.frontend.indices import Indices
from kgen.frontend.promotion import Typed, compute_dtype, promoted, rounded, widens
from kgen.frontend.views import broadcast
from kgen.ir.dtype import DType
from kgen.ir.graph import Argument, Node, ValueRef
from kgen.ir.pointwise import PointwiseOp
from kgen.ir.problem import Const, Operand

if TYPE_CHECKING:
    from kgen.frontend.body import Body


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

        `exact` leaves a Python number or a 0-dim tensor as it is, as torch's arithmetic does; otherwise it is rounded
        to the element type first, as comparisons and fills do.
        """
        dtype = dtype or self.dtype
        argument = self.call.args[name]
        if isinstance(argument, ValueRef):
            return self.converted(argument, dtype, exact=exact)
        assert isinstance(argument, bool | int | float)
        return self.number(argument, dtype, exact=exact)

    def number(self, value: bool | int | float, dtype: DType | None = None, *, exact: bool = True) -> Const:
        """Return a Python number as a constant of a type."""
        dtype = dtype or self.dtype
        if not exact or not dtype.is_float:
            value = rounded(value, dtype, self.node.op, self.node.where)
        return Const(float(value) if dtype.is_float else value)

    def converted(self, ref: ValueRef, dtype: DType, *, exact: bool) -> Operand:
        """Return a tensor operand, broadcast, with the rounding that torch's promotion to `dtype` brings."""
        value = self.raw(ref)
        source = self.body.graph.type_of(ref)
        wanted = compute_dtype(dtype) if exact and source.rank == 0 and len(self.shape) > 0 else dtype
        if isinstance(value, Const) or widens(source.dtype, wanted):
            return value
        return self.body.cast(value, wanted)

    def raw(self, ref: ValueRef) -> Operand:
        """Return a tensor operand, broadcast to the result's shape, as it is carried."""
        return self.body.value(ref, broadcast(self.body.shape(ref), self.shape, self.indices))

    def map(self, op: PointwiseOp, *operands: Operand) -> str:
        """Return the result of a float op, computed in the type that carries the result's dtype."""
        if not self.dtype.is_float:
            raise UnsupportedOpError(
                where=self.node.where,
                op=self.node.op,
                place=f"on {self.dtype} values",
                covered="pointwise arithmetic is covered on floats: cast the operands, e.g. with .float()",
            )
        return self.body.map(op, operands, compute_dtype(self.dtype))

    def test(self, op: PointwiseOp, *operands: Operand) -> str:
        """Return the result of a predicate."""
        return self.body.map(op, operands, DType.BOOL)
