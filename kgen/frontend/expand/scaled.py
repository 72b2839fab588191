"""Products of fp8 operands with their scales, in torch's one operation for them."""

from collections.abc import Callable

from kgen.errors.frontend import UnsupportedOpError
from kgen.frontend.bind import Call
from kgen.frontend.expand.builder import Builder
from kgen.ir.dtype import DType
from kgen.ir.graph import Argument, ValueRef

Results = tuple[ValueRef, ...]
Rule = Callable[[Builder, Call], Results]
BLOCK = 128  # elements along each axis that share a scale
_COVERED = (
    "covered: one scale per operand, per row of the first and per column of the second, or per 128 of k of those or of "
    "128 of them, with no scale_result"
)


def _scaled_mm(b: Builder, c: Call) -> Results:
    """Operands widened, multiplied, and scaled before or after; use_fast_accum asks for less than kernels give."""
    left, right = c.ref("self"), c.ref("mat2")
    (rows, depth), columns = b.shape(left), b.shape(right)[1]
    scales = c.ref("scale_a"), c.ref("scale_b")
    whole = (((), (1,), (1, 1), (rows, 1)), ((), (1,), (1, 1), (1, columns)))
    blocks = -(-depth // BLOCK)
    parts = (
        ((rows, blocks), (-(-rows // BLOCK), blocks)),
        ((blocks, columns), (blocks, -(-columns // BLOCK))),
    )
    wide = [b.cast(left, DType.FP32), b.cast(right, DType.FP32)]
    after = all(b.shape(s) in known for s, known in zip(scales, whole, strict=True))
    if c.args["scale_result"] is not None or not (
        after or all(b.shape(s) in known for s, known in zip(scales, parts, strict=True))
    ):
        raise UnsupportedOpError(where=c.node.where, op=c.node.op, place="with these scales", covered=_COVERED)
    if not after:
        wide = [_scaled(b, operand, scale) for operand, scale in zip(wide, scales, strict=True)]
    found = b.emit("aten.mm.default", tuple(wide), DType.FP32, (rows, columns))
    for scale in scales if after else ():
        found = b.math("mul", found, b.view(scale, ()) if b.shape(scale) in ((1,), (1, 1)) else scale)
    bias = c.args["bias"]
    found = b.math("add", found, bias) if isinstance(bias, ValueRef) else found
    return (b.carry(found, c.node.types[0].dtype),)


def _scaled(b: Builder, operand: ValueRef, scale: ValueRef) -> ValueRef:
    """Return a matrix times its scales, each of which serves 1 or 128 elements along either axis."""
    shape = b.shape(operand)
    ragged = [dim for dim in (0, 1) if b.shape(scale)[dim] != shape[dim] and shape[dim] % BLOCK]
    for dim in ragged:
        scale = _repeated(b, scale, dim)
    for dim in ragged:
        scale = b.narrow(scale, dim, 0, shape[dim])
    kept = b.shape(scale)
    halves = [(e,) if e == n else (n, e // n) for e, n in zip(shape, kept, strict=True)]
    shared = [(n,) if e == n else (n, 1) for e, n in zip(shape, kept, strict=True)]
    scaled = b.math("mul", b.view(operand, (*halves[0], *halves[1])), b.view(scale, (*shared[0], *shared[1])))
    return b.view(scaled, shape)


def _repeated(b: Builder, scale: ValueRef, dim: int) -> ValueRef:
    """Return scales along an axis whose last block is not full, one for each element."""
    shape = tuple(e * BLOCK if d == dim else e for d, e in enumerate(b.shape(scale)))
    return b.emit("aten.repeat_interleave.self_int", (scale, BLOCK, dim), b.dtype(scale), shape)


_DEFAULTS: dict[str, Argument] = {"bias": None, "scale_result": None, "out_dtype": None, "use_fast_accum": False}
SCALED: dict[str, tuple[str, dict[str, Argument], Rule]] = {
    "aten._scaled_mm.default": (
        "self mat2 scale_a scale_b bias scale_result out_dtype use_fast_accum",
        _DEFAULTS,
        _scaled_mm,
    ),
}
