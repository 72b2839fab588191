"""The rows of a product's VARIANTS on every back-end: extents and strides of a case, and why a choice was made."""

from kgen.backends.source.file_views import ValueView
from kgen.backends.source.fused import FusedTensor
from kgen.backends.source.gemm_views import CaseView, FieldView
from kgen.backends.source.lines import tuple_text
from kgen.families.gemm.form import GemmForm, MatrixAccess, OutputAccess
from kgen.families.gemm.groups import expected_words
from kgen.planning.plan_gemm import GemmVariant

B_OFFSETS = "b_offsets"  # the field of a gate's row that says where its Bs start


def offset_field(fused: FusedTensor) -> str:
    """Return the field of a gate's row that says where what its epilogue reads starts."""
    return f"{fused.name}_offset"


def case_view(case: str, form: GemmForm, fused: tuple[FusedTensor, ...], fields: tuple[FieldView, ...]) -> CaseView:
    """Return the constant that holds a case's extents and strides; the DSL has no extent of 0."""
    values = {
        "m": str(max(form.m, 1)),
        "n": str(max(form.n, 1)),
        "k": str(form.k),
        "batch": tuple_text(tuple(max(extent, 1) for extent in form.batch)),
        "a_batch": tuple_text(_extents(form, form.a)),
        "b_batch": tuple_text(_extents(form, form.b)),
        "a_stride": tuple_text((form.a.outer, form.a.k, *(s or 0 for s in form.a.batch))),
        "b_stride": tuple_text((form.b.outer, form.b.k, *(s or 0 for s in form.b.batch), *_group_stride(form))),
        "d_stride": tuple_text(_stride(form.d)),
    }
    values |= {f"{t.name}_stride": tuple_text(_stride(t.source)) for t in fused}
    values |= {B_OFFSETS: tuple_text(tuple(b.offset for b in form.operands[1:]))}
    values |= {offset_field(t): str(t.source.offset) for t in fused}
    if form.groups:
        values |= {"groups": str(form.groups.count), "ends_stride": str(form.groups.stride)}
    taken = {f.name for f in fields}
    note = ": its result is empty, so that no kernel runs; 0 stands as 1" if form.is_empty else ""
    return CaseView(
        constant_of(case), f"case {case}{note}", tuple(ValueView(n, text) for n, text in values.items() if n in taken)
    )


def reasons_of(variant: GemmVariant) -> tuple[str, ...]:
    """Return why a variant has its choice, a line each."""
    choice = variant.choice
    reasons = [
        f"predicted {choice.time_us:.1f} us, bound by {choice.bound_by}: {choice.waves} grid waves, "
        f"{choice.wave_efficiency:.0%} full; {variant.guard}"
    ]
    if variant.form.groups:
        reasons += expected_words(variant.facts, choice.candidate.size.m)
    if variant.runners_up:
        second = variant.runners_up[0]
        reasons.append(f"next best: {second.candidate.size}, predicted {second.time_us:.1f} us")
    return tuple(reasons)


def constant_of(case: str) -> str:
    """Return the name of a case's constant."""
    return "CASE_" + "".join(c if c.isalnum() else "_" for c in case).upper()


def _extents(form: GemmForm, operand: MatrixAccess) -> tuple[int, ...]:
    return tuple(extent if s is not None else 1 for extent, s in zip(form.batch, operand.batch, strict=True))


def _group_stride(form: GemmForm) -> tuple[int, ...]:
    return (form.groups.b_stride,) if form.groups else ()


def _stride(access: OutputAccess) -> tuple[int, ...]:
    return (access.m, access.n, *access.batch)
