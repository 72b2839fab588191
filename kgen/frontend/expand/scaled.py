"""Products of fp8 operands with their scales, in torch's one operation for them."""

from collections.abc import Callable

from kgen.errors.frontend import UnsupportedOpError
from kgen.frontend.bind import Call
from kgen.frontend.expand.builder import Builder
from kgen.ir.dtype import DType
from kgen.ir.graph import Argument, ValueRef

Results = tuple[ValueRef, ...]
Rule = Callable[[Builder, Call], Results]
_COVERED = "covered: one scale per operand, per row of the first and per column of the second, with no scale_result"


def _scaled_mm(b: Builder, c: Call) -> Results:
    """Operands widened, multiplied, then scaled and biased; use_fast_accum asks for less than kernels give."""
    left, right = c.ref("self"), c.ref("mat2")
    rows, columns = b.shape(left)[0], b.shape(right)[1]
    scales = c.ref("scale_a"), c.ref("scale_b")
    known = (((), (1,), (1, 1), (rows, 1)), ((), (1,), (1, 1), (1, columns)))
    if c.args["scale_result"] is not None or any(b.shape(s) not in k for s, k in zip(scales, known, strict=True)):
        raise UnsupportedOpError(where=c.node.where, op=c.node.op, place="with these scales", covered=_COVERED)
    wide = (b.cast(left, DType.FP32), b.cast(right, DType.FP32))
    found = b.emit("aten.mm.default", wide, DType.FP32, (rows, columns))
    for scale in scales:
        found = b.math("mul", found, b.view(scale, ()) if b.shape(scale) in ((1,), (1, 1)) else scale)
    bias = c.args["bias"]
    found = b.math("add", found, bias) if isinstance(bias, ValueRef) else found
    return (b.carry(found, c.node.types[0].dtype),)


_DEFAULTS: dict[str, Argument] = {"bias": None, "scale_result": None, "out_dtype": None, "use_fast_accum": False}
SCALED: dict[str, tuple[str, dict[str, Argument], Rule]] = {
    "aten._scaled_mm.default": (
        "self mat2 scale_a scale_b bias scale_result out_dtype use_fast_accum",
        _DEFAULTS,
        _scaled_mm,
    ),
}
