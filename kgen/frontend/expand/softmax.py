"""softmax and log_softmax: the greatest element, the sum of exponentials, then one pointwise op.

A row of -inf alone gives NaN as in torch, for -inf minus -inf is NaN.
"""

from collections.abc import Callable

from kgen.frontend.bind import Call
from kgen.frontend.expand.builder import Builder
from kgen.ir.dtype import DType
from kgen.ir.graph import Argument, ValueRef
from kgen.ir.problem import Combine

Rule = Callable[[Builder, Call], tuple[ValueRef, ...]]


def shifted(b: Builder, x: ValueRef, dim: int) -> tuple[ValueRef, ValueRef]:
    """Return x less its greatest element along one axis, and the sum of that's exponentials, axis kept."""
    centred = b.math("sub", x, b.reduce(Combine.MAX, x, (dim,), keep=True))
    return centred, b.sum(b.math("exp", centred), (dim,), keep=True)


def log_softmax(b: Builder, x: ValueRef, dim: int) -> ValueRef:
    """Return the log-softmax along one axis, in the wide type."""
    centred, total = shifted(b, x, dim)
    return b.math("sub", centred, b.math("log", total))


def _operand(b: Builder, c: Call) -> ValueRef:
    """Return the operand, in the type that the `dtype` argument asks for if that is wider than fp32."""
    x, dtype = c.ref("self"), c.node.types[0].dtype
    wider = dtype is DType.FP64 or not b.dtype(x).is_float or dtype.bits < b.dtype(x).bits
    return b.cast(x, dtype) if wider else x


def _softmax(b: Builder, c: Call) -> tuple[ValueRef, ...]:
    x = _operand(b, c)
    if not b.shape(x):
        x = b.view(x, (1,))
    centred, total = shifted(b, x, c.integer("dim") % len(b.shape(x)))
    found = b.math("div", b.math("exp", centred), total)
    return (b.carry(b.view(found, c.node.types[0].static_shape), c.node.types[0].dtype),)


def _log_softmax(b: Builder, c: Call) -> tuple[ValueRef, ...]:
    x = _operand(b, c)
    if not b.shape(x):
        x = b.view(x, (1,))
    found = log_softmax(b, x, c.integer("dim") % len(b.shape(x)))
    return (b.carry(b.view(found, c.node.types[0].static_shape), c.node.types[0].dtype),)


def _table(ops: dict[str, Rule]) -> dict[str, tuple[str, dict[str, Argument], Rule]]:
    return {f"aten.{op}": ("self dim", {}, rule) for op, rule in ops.items()}


SOFTMAX = _table(
    {
        "softmax.int": _softmax,
        "_softmax.default": _softmax,
        "special_softmax.default": _softmax,
        "log_softmax.int": _log_softmax,
        "_log_softmax.default": _log_softmax,
        "special_log_softmax.default": _log_softmax,
    }
)
