"""scaled_dot_product_attention as torch defines it: two products with a softmax between them.

Scores and softmax are fp32 (fp64 for fp64 operands); what the second product takes has the element type of V. A row
whose keys are all masked out gives zeros, as in torch, where softmax alone gives NaN.
"""

from collections.abc import Callable
from math import inf, prod, sqrt

from kgen.errors.frontend import RandomOpError
from kgen.frontend.bind import Call
from kgen.frontend.expand.builder import Builder, Shape
from kgen.frontend.expand.softmax import shifted
from kgen.ir.dtype import DType
from kgen.ir.graph import Argument, ValueRef
from kgen.ir.problem import Combine

Results = tuple[ValueRef, ...]
Rule = Callable[[Builder, Call], Results]


def _attention(b: Builder, c: Call) -> Results:
    if c.number("dropout_p") != 0:
        raise RandomOpError(where=c.node.where, op=c.node.op)
    query, key, value = c.ref("query"), c.ref("key"), c.ref("value")
    type_ = c.node.types[0]
    if prod(b.shape(key)[-2:-1]) == 0:
        return (_zeros(b, type_.dtype, type_.static_shape),)
    if c.args["enable_gqa"]:
        key, value = (_repeated(b, operand, b.shape(query)[-3]) for operand in (key, value))
    scale = c.args["scale"]
    scores = _product(b, query, _transposed(b, key), b.wide(query))
    scores = b.math("mul", scores, scale if isinstance(scale, int | float) else 1 / sqrt(b.shape(query)[-1]))
    scores, may_be_empty = _masked(b, c, scores)
    probabilities = b.cast(_softmax(b, scores, may_be_empty), b.dtype(value))
    return (b.carry(_product(b, probabilities, value, b.wide(value)), type_.dtype),)


def _zeros(b: Builder, dtype: DType, shape: Shape) -> ValueRef:
    """Return what a row without keys gives: no key at all, so all rows are."""
    return b.emit("aten.full.default", (shape, 0.0), dtype, shape)


def _repeated(b: Builder, ref: ValueRef, heads: int) -> ValueRef:
    """Return K or V with a head for each of the query: head h is head h // ratio."""
    shape = b.shape(ref)
    ratio = heads // max(shape[-3], 1)
    if ratio == 1:
        return ref
    dim = len(shape) - 3
    args: tuple[Argument, ...] = (ref, ratio, dim)
    whole = (*shape[:dim], heads, *shape[dim + 1 :])
    return b.emit("aten.repeat_interleave.self_int", args, b.dtype(ref), whole)


def _transposed(b: Builder, ref: ValueRef) -> ValueRef:
    shape = b.shape(ref)
    return b.emit("aten.transpose.int", (ref, -2, -1), b.dtype(ref), (*shape[:-2], shape[-1], shape[-2]))


def _product(b: Builder, left: ValueRef, right: ValueRef, dtype: DType) -> ValueRef:
    """Return a product whose sums stay in a wide type."""
    one, other = b.shape(left), b.shape(right)
    rank = max(len(one), len(other)) - 2
    leading = zip(*((1,) * (rank + 2 - len(s)) + s[:-2] for s in (one, other)), strict=True)
    batch = tuple(m if n == 1 else n for m, n in leading)
    return b.emit("aten.matmul.default", (left, right), dtype, (*batch, one[-2], other[-1]))


def _masked(b: Builder, c: Call, scores: ValueRef) -> tuple[ValueRef, bool]:
    """Return the masked scores, and whether a row may have no key left: with is_causal each row has the first one."""
    mask = c.args["attn_mask"]
    if isinstance(mask, ValueRef):
        if b.dtype(mask) is DType.BOOL:
            return b.where_(mask, scores, -inf), True
        return b.math("add", scores, mask), True
    if not c.args["is_causal"]:
        return scores, False
    rows, columns = b.shape(scores)[-2:]
    row = b.view(_count(b, rows), (rows, 1))
    return b.where_(b.test("le", _count(b, columns), row), scores, -inf), False


def _count(b: Builder, end: int) -> ValueRef:
    return b.emit("aten.arange.default", (end,), DType.INT64, (end,))


def _softmax(b: Builder, scores: ValueRef, may_be_empty: bool) -> ValueRef:
    """Return the softmax along the keys; where a row has only -inf, zeros if that stands for a row without keys."""
    last = len(b.shape(scores)) - 1
    centred, total = shifted(b, scores, last)
    found = b.math("div", b.math("exp", centred), total)
    if not may_be_empty:
        return found
    largest = b.reduce(Combine.MAX, scores, (last,), keep=True)
    return b.where_(b.test("eq", largest, -inf), 0.0, found)


_DEFAULTS: dict[str, Argument] = {
    "attn_mask": None,
    "dropout_p": 0.0,
    "is_causal": False,
    "scale": None,
    "enable_gqa": False,
}
ATTENTION: dict[str, tuple[str, dict[str, Argument], Rule]] = {
    "aten.scaled_dot_product_attention.default": (
        "query key value attn_mask dropout_p is_causal scale enable_gqa",
        _DEFAULTS,
        _attention,
    ),
}
