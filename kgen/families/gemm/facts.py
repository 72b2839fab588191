"""GemmForm -> GemmFacts: the problem facts that the rules and the cost model of the family read."""

from math import gcd

from kgen.families.gemm.form import GemmForm, MatrixAccess
from kgen.families.gemm.rules_facts import GemmFacts, copies_of
from kgen.ir.problem import Precision

MAX_ALIGN_BYTES = 16  # no rule asks for more


def facts_of(form: GemmForm, base_align: int, d_base_align: int = MAX_ALIGN_BYTES) -> GemmFacts:
    """Return the facts of a GEMM whose operands' base addresses are aligned to `base_align` bytes.

    `d_base_align` is what holds of D: all that can be asked for, unless D is a tensor of the caller's that is updated.
    An empty D needs no product, and so no k.
    """
    return GemmFacts(
        m=form.m,
        n=form.n * form.products,
        k=0 if form.is_empty else form.k,
        batch=form.batch_count,
        in_dtype=form.product_dtype,
        out_dtype=str(form.d.dtype),
        in_bytes=form.mma_dtype.bytes,
        out_bytes=form.d.dtype.bytes,
        a_major=_major(form.a),
        b_major=_major(form.b),
        a_align=_align(form.a, base_align),
        b_align=min(_align(b, base_align, *_groups(form)) for b in form.operands[1:]),
        d_align=_align_d(form, d_base_align),
        input_ops=int(bool(form.a_ops.ops or form.b_ops.ops or (form.second and form.second.b_ops.ops))),
        fused=int(bool(form.epilogue_ops or form.epilogue_loads)),
        epilogue_load_bytes=sum(
            load.source.dtype.bytes for load in form.epilogue_loads if load.source.m and load.source.n
        ),
        promo=copies_of(form.mma_dtype),
        products=form.products,
        scale_k=form.scale_k,
        a_scale_rows=gcd(*(scale.rows for scale in form.a_scales)),
        b_scale_rows=gcd(*(scale.rows for scale in form.b_scales)),
        ieee=int(form.precision is Precision.IEEE),
        in_place=int(form.d.tensor in _read(form)),
        groups=form.groups.count if form.groups else 0,
    )


def _read(form: GemmForm) -> frozenset[str]:
    return frozenset((form.a.tensor, form.b.tensor, *(load.source.tensor for load in form.epilogue_loads)))


def _major(operand: MatrixAccess) -> str:
    """Return which axis is contiguous; none where the other one is expanded, for then there are no rows to copy."""
    if operand.k == 1 and operand.outer:
        return "k"
    return "mn" if operand.outer == 1 and operand.k else "none"


def _groups(form: GemmForm) -> tuple[int, ...]:
    return (form.groups.b_stride,) if form.groups else ()


def _align(operand: MatrixAccess, base_align: int, *more: int) -> int:
    """Return the alignment of an operand's rows; `more` are strides beside those of its matrix and batch."""
    rows = {"k": (operand.outer,), "mn": (operand.k,), "none": (operand.outer, operand.k)}[_major(operand)]
    steps = (*rows, *(s for s in operand.batch if s is not None), *more)
    return _stride_align(steps, operand.dtype.bytes, operand.offset, base_align)


def _align_d(form: GemmForm, base_align: int) -> int:
    """Return the alignment of D's rows; their length counts, since a bulk store moves whole units of 16 bytes."""
    if form.d.n != 1:
        return form.d.dtype.bytes
    steps = (form.n, form.d.m, *form.d.batch)
    return _stride_align(steps, form.d.dtype.bytes, form.d.offset, base_align)


def _stride_align(strides: tuple[int, ...], element_bytes: int, offset: int, base_align: int) -> int:
    """Return the largest power of two up to 16 bytes that divides the base and every stride."""
    return gcd(
        MAX_ALIGN_BYTES, max(base_align, element_bytes), offset * element_bytes, *(s * element_bytes for s in strides)
    )


def vector_of(operand: MatrixAccess, outer: int, k: int, align: int) -> int:
    """Return how many elements one load takes: as many as are contiguous, aligned and inside of the operand."""
    if 1 not in (operand.k, operand.outer):
        return 1
    return gcd(max(align // operand.dtype.bytes, 1), k if operand.k == 1 else outer)
