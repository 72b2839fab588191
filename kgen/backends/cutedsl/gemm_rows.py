"""The rows of VARIANTS: a case's extents and strides, and the choices of a variant, each with its reason."""

from math import gcd

from kgen.backends.cutedsl.file_text import rules_view
from kgen.backends.cutedsl.file_views import RulesView, ValueView
from kgen.backends.cutedsl.fused import FusedTensor
from kgen.backends.cutedsl.gemm_views import CaseView, FieldView, RowView
from kgen.backends.cutedsl.lines import tuple_text
from kgen.families.gemm.form import GemmForm, MatrixAccess, OutputAccess
from kgen.families.gemm.rules import bind_gemm
from kgen.planning.plan_gemm import GemmPlan, GemmVariant
from kgen.rules.specialise import kernel_rules

# What a row keeps as numbers that an engineer may edit: axes and lets of the rules, and their names in the row.
KEPT = {
    **{name: name for name in ("tile_m", "tile_n", "tile_k", "wg_m", "wg_n", "cluster_m", "cluster_n", "stages")},
    "store_n": "store_n",
    "producer_regs": "producer_registers",
    "consumer_regs": "consumer_registers",
}
_SIMT_KEPT = ("tile_m", "tile_n", "tile_k")
STORE_BUFFERS = 2  # boxes of D that a warp group stages: one is written while the other is sent
# Elements that a staging thread loads ahead, by consumer warp groups: what its registers hold.
IN_FLIGHT = {1: 32, 2: 32, 3: 16}

_PROBLEM_FIELDS = (
    FieldView("m", "int", ""),
    FieldView("n", "int", ""),
    FieldView("k", "int", ""),
    FieldView("batch", "tuple[int, ...]", ""),
    FieldView("a_batch", "tuple[int, ...]", "  # extents of A's batch modes: 1 where all batches share A"),
    FieldView("b_batch", "tuple[int, ...]", ""),
    FieldView("a_stride", "tuple[int, ...]", "  # of (m, k, *batch), in elements"),
    FieldView("b_stride", "tuple[int, ...]", "  # of (n, k, *batch)"),
    FieldView("d_stride", "tuple[int, ...]", "  # of (m, n, *batch)"),
)
_SHARED_FIELDS = ("a_batch", "b_batch")
_TILE_FIELDS = (FieldView("load_path", "str", ""), *(FieldView(n, "int", "") for n in ("tile_m", "tile_n", "tile_k")))
_WGMMA_FIELDS = (
    FieldView("wg_m", "int", "  # consumer warp groups along m"),
    FieldView("wg_n", "int", "  # consumer warp groups along n"),
    FieldView("cluster_m", "int", "  # CTAs that share one B tile"),
    FieldView("cluster_n", "int", "  # CTAs that share one A tile"),
    FieldView("stages", "int", ""),
    FieldView("group", "int", "  # cluster tiles walked side by side"),
    FieldView("group_along", "str", '  # "m" or "n"'),
    FieldView("producer_registers", "int", ""),
    FieldView("consumer_registers", "int", ""),
)
_STORE_FIELDS = (
    FieldView("store_n", "int", "  # columns of one TMA store"),
    FieldView("store_buffers", "int", ""),
)
_STAGED_FIELDS = (
    FieldView("a_vector", "int = 1", "  # elements of one load: divides leading dimension, extent and base"),
    FieldView("b_vector", "int = 1", ""),
    FieldView("in_flight", "int = 0", "  # elements that a producer thread loads before it waits for the first"),
)


def fields_of(plan: GemmPlan, fused: tuple[str, ...]) -> tuple[FieldView, ...]:
    """Return the fields of the emitted `Variant`; `fused` names the epilogue's tensors."""
    kinds = {kind_of(v) for v in plan.variants}
    stride = "  # of (m, n, *batch); 0 along an axis that the tensor does not have"
    extra = tuple(FieldView(f"{name}_stride", "tuple[int, ...]", stride) for name in fused)
    if "no_k" in kinds:
        return (*(f for f in _PROBLEM_FIELDS if f.name in ("m", "n", "batch", "d_stride")), *extra, *_TILE_FIELDS)
    problem = _PROBLEM_FIELDS if "tma" in kinds else tuple(f for f in _PROBLEM_FIELDS if f.name not in _SHARED_FIELDS)
    if "simt" in kinds:
        return (*problem, *extra, *_TILE_FIELDS)
    store = _STORE_FIELDS if plan.variants[0].store_path == "tma" else ()
    staged = _STAGED_FIELDS if "staged" in kinds else ()
    return (*problem, *extra, *_TILE_FIELDS, *_WGMMA_FIELDS, *store, *staged)


def kind_of(variant: GemmVariant) -> str:
    """Return which kernel text serves a variant: its load path, or `no_k` where no operand is read."""
    return "no_k" if variant.facts.k == 0 else variant.load_path


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
        "b_stride": tuple_text((form.b.outer, form.b.k, *(s or 0 for s in form.b.batch))),
        "d_stride": tuple_text(_stride(form.d)),
    }
    values |= {f"{t.name}_stride": tuple_text(_stride(t.source)) for t in fused}
    taken = {f.name for f in fields}
    note = ": its result is empty, so that no kernel runs; 0 stands as 1" if form.is_empty else ""
    return CaseView(
        constant_of(case), f"case {case}{note}", tuple(ValueView(n, text) for n, text in values.items() if n in taken)
    )


def row_view(variant: GemmVariant) -> RowView:
    """Return the row of one variant."""
    choice = variant.choice
    reasons = [
        f"predicted {choice.time_us:.1f} us, bound by {choice.bound_by}: {choice.waves} grid waves, "
        f"{choice.wave_efficiency:.0%} full; {variant.guard}"
    ]
    if variant.runners_up:
        second = variant.runners_up[0]
        reasons.append(f"next best: {second.candidate.size}, predicted {second.time_us:.1f} us")
    values = _tile_values(variant)
    if variant.load_path != "simt":
        values = (*values, *_wgmma_values(variant))
    return RowView(variant.name, constant_of(variant.case), tuple(reasons), values)


def gemm_rules(variant: GemmVariant, plan: GemmPlan) -> RulesView:
    """Return the rules of a variant's load path as the kernel carries them."""
    point = dict(variant.choice.candidate.choices)
    bound = bind_gemm(variant.facts, plan.device)
    kept = _SIMT_KEPT if variant.load_path == "simt" else tuple(KEPT)
    rules = kernel_rules(bound, point, kept, lambda name: f"v.{KEPT[name]}" if name in kept else name)
    return rules_view(kind_of(variant), rules)


def constant_of(case: str) -> str:
    """Return the name of a case's constant."""
    return "CASE_" + "".join(c if c.isalnum() else "_" for c in case).upper()


def _extents(form: GemmForm, operand: MatrixAccess) -> tuple[int, ...]:
    return tuple(extent if s is not None else 1 for extent, s in zip(form.batch, operand.batch, strict=True))


def _stride(access: OutputAccess) -> tuple[int, ...]:
    return (access.m, access.n, *access.batch)


def _tile_values(variant: GemmVariant) -> tuple[ValueView, ...]:
    candidate = variant.choice.candidate
    return (
        ValueView("load_path", f'"{kind_of(variant)}"'),
        *(ValueView(name, str(candidate.number(name))) for name in ("tile_m", "tile_n", "tile_k")),
    )


def _wgmma_values(variant: GemmVariant) -> tuple[ValueView, ...]:
    candidate, raster = variant.choice.candidate, variant.choice.raster
    smem = f"  # {candidate.number('smem_bytes')} bytes of smem in all"
    accumulators = f"  # {candidate.number('acc_regs')} of them accumulators"
    values = [ValueView(name, str(candidate.number(name))) for name in ("wg_m", "wg_n", "cluster_m", "cluster_n")]
    values += [
        ValueView("stages", str(candidate.number("stages")), smem),
        ValueView("group", str(raster.group), "  # keeps what one grid wave reads in L2"),
        ValueView("group_along", f'"{raster.group_along}"'),
        ValueView("producer_registers", str(candidate.number("producer_regs"))),
        ValueView("consumer_registers", str(candidate.number("consumer_regs")), accumulators),
    ]
    if variant.store_path == "tma":
        values.append(ValueView("store_n", str(candidate.number("store_n"))))
        values.append(ValueView("store_buffers", str(STORE_BUFFERS)))
    if variant.load_path == "staged":
        form, facts = variant.form, variant.facts
        values.append(ValueView("a_vector", str(_vector(form.a, form.m, form.k, facts.a_align))))
        values.append(ValueView("b_vector", str(_vector(form.b, form.n, form.k, facts.b_align))))
        values.append(ValueView("in_flight", str(IN_FLIGHT[candidate.number("consumer_wgs")])))
    return tuple(values)


def _vector(operand: MatrixAccess, outer: int, k: int, align: int) -> int:
    """Return how many elements one staged load takes: as many as are contiguous, aligned and inside of the operand."""
    if 1 not in (operand.k, operand.outer):
        return 1
    return gcd(max(align // operand.dtype.bytes, 1), k if operand.k == 1 else outer)
