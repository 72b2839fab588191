"""Where values stand among sorted boundaries: how many of these come before each."""

from collections.abc import Callable

from kgen.errors.frontend import UnsupportedOpError
from kgen.frontend.bind import Call
from kgen.frontend.expand.builder import Builder
from kgen.ir.dtype import DType
from kgen.ir.graph import Argument, ValueRef
from kgen.ir.problem import Combine

Results = tuple[ValueRef, ...]
Rule = Callable[[Builder, Call], Results]
_COVERED = "covered: one ascending sequence for all values, without a sorter"


def _position(b: Builder, c: Call) -> Results:
    """Count the boundaries that are below a value or, from the right, not above it; all of them for NaN."""
    x, boundaries = c.ref("self"), c.ref("boundaries")
    if len(b.shape(boundaries)) != 1 or c.args["sorter"] is not None:
        raise UnsupportedOpError(where=c.node.where, op=c.node.op, place="with sequences of values", covered=_COVERED)
    right = bool(c.args["right"]) or c.args["side"] == "right"
    shape = b.shape(x)
    beyond = b.test("lt" if right else "le", b.view(x, (*shape, 1)), boundaries)
    before = b.emit("aten.logical_not.default", (beyond,), DType.BOOL, b.shape(beyond))
    dtype = c.node.types[0].dtype
    return (b.reduce(Combine.SUM, b.cast(before, dtype), (len(shape),), dtype=dtype),)


_OPTIONS: dict[str, Argument] = {"right": False, "side": None, "sorter": None}
POSITIONS: dict[str, tuple[str, dict[str, Argument], Rule]] = {
    "aten.searchsorted.Tensor": ("boundaries self", _OPTIONS, _position),
    "aten.bucketize.Tensor": ("self boundaries", _OPTIONS, _position),
}
