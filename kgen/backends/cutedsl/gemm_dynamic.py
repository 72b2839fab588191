"""What the kernel.py of a product prints where one of its extents is known at run time.

Rows keep everything else as constants. The launch function reads the extent off a tensor and hands it to the kernel
beside the row; both put it into the row in the place of the largest one. Rows whose operands change places share the
text of the others: where they differ, the text asks the row.
"""

from dataclasses import replace

from kgen.backends.cutedsl.gemm_scales import joined_scales
from kgen.backends.cutedsl.gemm_views import DeviceView
from kgen.backends.source.file_views import ValueView
from kgen.backends.source.gemm_views import CaseView, FieldView, RowView
from kgen.families.gemm.form import GemmForm
from kgen.planning.plan import Dynamic
from kgen.planning.plan_gemm import GemmPlan, GemmVariant

EXCHANGED_FIELD = FieldView("exchanged", "bool", "  # rows of B lie along m, and the few rows of A along n")


def mixes(plan: GemmPlan) -> bool:
    """Return whether operands change places in some variants, and in others not."""
    return len({v.is_exchanged for v in plan.variants}) > 1


def extent_code(dynamic: Dynamic, names: dict[str, str]) -> str:
    """Return the extent of the kernel that is known at run time, as an expression of a tensor's shape."""
    tensor, axis = dynamic.source
    value = f"{names[tensor]}.shape[{axis}]"
    return affine(value, dynamic.scale, dynamic.offset)


def affine(value: str, scale: int, offset: int) -> str:
    """Return `scale` times a value plus `offset` as an expression."""
    product = value if scale == 1 else f"{scale} * {value}"
    return f"{product} {'-' if offset < 0 else '+'} {abs(offset)}" if offset else product


def with_run_time(view: DeviceView, plan: GemmPlan, names: dict[str, str]) -> DeviceView:
    """Return the view of kernels that take an extent at run time; as it was, where all are constants."""
    if plan.dynamic is None:
        return view
    return replace(
        view,
        extent="extent, ",
        row="row, extent",
        at_launch=(f"extent = {extent_code(plan.dynamic, names)}", "row, v = v, at_run_time(v, extent)"),
        at_start=("v = at_run_time(v, extent)",),
        in_row=_in_row(plan),
    )


def _in_row(plan: GemmPlan) -> str:
    """Return the row with the extent of a call in it, as an expression of the row `v`."""
    assert plan.dynamic is not None
    written, other = f"replace(v, {plan.dynamic.axis}=extent)", "n" if plan.dynamic.axis == "m" else "m"
    exchanged = f"replace(v, {other}=extent)"
    if mixes(plan):
        return f"{exchanged} if v.exchanged else {written}"
    return exchanged if plan.variants[0].is_exchanged else written


def joined(written: DeviceView, exchanged: DeviceView) -> DeviceView:
    """Return one view for rows as written and for exchanged ones: each text that differs asks the row."""
    is_wide = "CopyUniversal" in written.to_smem_atom
    atom = (
        "cute.nvgpu.CopyUniversalOp(), OUT, num_bits_per_copy=32 if v.exchanged else 64"
        if is_wide
        else "warp.StMatrix8x8x16bOp(v.exchanged, 4), OUT"
    )
    view = replace(
        written,
        a_pointer=_asked(exchanged.a_pointer, written.a_pointer),
        b_pointer=_asked(exchanged.b_pointer, written.b_pointer),
        boxes=("if v.exchanged:", *(f"    {line}" for line in exchanged.boxes), *written.boxes),
        to_smem_atom=atom if written.stores_by_tma else written.to_smem_atom,
        starts_apart=True,
        start=f"({exchanged.start} if v.exchanged else 0)",
    )
    return joined_scales(view, written, exchanged)


def _asked(exchanged: str, written: str) -> str:
    return written if exchanged == written else f"{exchanged} if v.exchanged else {written}"


def largest_form(variant: GemmVariant, plan: GemmPlan) -> GemmForm:
    """Return what a variant computes at the largest value of the extent that is left to run time."""
    if plan.dynamic is None:
        return variant.form
    count = plan.dynamic.scale * plan.dynamic.extent.hi + plan.dynamic.offset
    along_m = (plan.dynamic.axis == "m") is not variant.is_exchanged
    return replace(variant.form, m=count) if along_m else replace(variant.form, n=count)


def with_exchange(case: CaseView, variant: GemmVariant, plan: GemmPlan) -> CaseView:
    """Return a case that says which extent is known at run time, and whether operands are exchanged."""
    if plan.dynamic is None:
        return case
    how = "operands exchanged, " if variant.is_exchanged else ""
    side = plan.dynamic.axis if not variant.is_exchanged else {"m": "n", "n": "m"}[plan.dynamic.axis]
    values = (*case.values, *([ValueView("exchanged", str(variant.is_exchanged))] if mixes(plan) else []))
    return replace(case, comment=f"{how}{side} is the largest one: a call has its own", values=values)


def run_time_constants(plan: GemmPlan) -> tuple[str, ...]:
    """Return the constant that stands for the extent in what variants are compiled for."""
    if plan.dynamic is None:
        return ()
    name = plan.dynamic.extent.name
    return (f'EXTENT = cute.sym_int(symbol="{name}")  # {name} of a call: a variant is compiled once for all of them',)


def value_of(variant: GemmVariant, dynamic: Dynamic) -> int:
    """Return the value of the extent that a variant is described at, the largest one that it serves."""
    count = variant.facts.m if dynamic.axis == "m" else variant.facts.n
    return (count - dynamic.offset) // dynamic.scale


def with_value(row: RowView, variant: GemmVariant, plan: GemmPlan) -> RowView:
    """Return a row whose reasons say at which value they hold."""
    if plan.dynamic is None:
        return row
    first, *others = row.reasons
    return replace(row, reasons=(f"{first}{at_value(variant, plan)}", *others))


def at_value(variant: GemmVariant, plan: GemmPlan) -> str:
    """Return the value of the extent that a variant is described at, in words; nothing where all are constants."""
    if plan.dynamic is None:
        return ""
    return f", at {plan.dynamic.extent.name} = {value_of(variant, plan.dynamic)}"
