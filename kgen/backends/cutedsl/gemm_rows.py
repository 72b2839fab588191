"""The rows of VARIANTS: a case's extents and strides, and the choices of a variant, each with its reason."""

from kgen.backends.cutedsl.gemm_dynamic import EXCHANGED_FIELD, mixes
from kgen.backends.cutedsl.gemm_overlap import FIELD as OVERLAPS_FIELD
from kgen.backends.cutedsl.gemm_overlap import overlap_values, overlaps
from kgen.backends.cutedsl.gemm_scales import ScaleTensor, scale_fields
from kgen.backends.source.file_text import rules_view
from kgen.backends.source.file_views import RulesView, ValueView
from kgen.backends.source.fused import FusedTensor
from kgen.backends.source.gemm_rows import B_OFFSETS, constant_of, offset_field, reasons_of
from kgen.backends.source.gemm_views import FieldView, RowView
from kgen.families.gemm.facts import vector_of
from kgen.families.gemm.rules import bind_gemm
from kgen.planning.plan_gemm import GemmPlan, GemmVariant
from kgen.planning.planes import cut_operands
from kgen.rules.specialise import kernel_rules

# What a row keeps as numbers that an engineer may edit: axes and lets of the rules, and their names in the row.
KEPT = {
    **{name: name for name in ("tile_m", "tile_n", "tile_k", "wg_m", "wg_n", "cluster_m", "cluster_n", "stages")},
    "store_n": "store_n",
    "producer_regs": "producer_registers",
    "consumer_regs": "consumer_registers",
}
# Kept by the rows that split k over a cluster.
_OF_PARTS = {name: name for name in ("cluster_k", "shares_m", "shares_n")}
# Kept by the rows whose CTAs write parts of sums; such are of these kinds.
_OF_WRITTEN_PARTS = {"split_k": "split_k"}
WRITES_PARTS = ("parts", "planes_parts")
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
_GROUP_FIELDS = (
    *(f for f in _PROBLEM_FIELDS if f.name in ("m", "n", "k", "batch", "a_stride", "d_stride")),
    FieldView("groups", "int", "  # of rows of A and D, with a B each"),
    FieldView("ends_stride", "int", "  # of the rows behind each group's last one"),
    FieldView("b_stride", "tuple[int, ...]", "  # of (n, k, group)"),
)
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
_PART_FIELDS = (
    FieldView("cluster_k", "int", "  # CTAs of a cluster that sum a part of k each"),
    FieldView("shares_m", "int", "  # shares of a tile, along m and along n, that one of those CTAs finishes each"),
    FieldView("shares_n", "int", ""),
)
_SPLIT_FIELD = FieldView("split_k", "int", "  # CTAs that write sums over a part of k each: `sum_parts` adds them up")
_RESIDENT_FIELD = FieldView("resident", "int", "  # CTAs that one SM runs at once")
_GATE_TILE_N = FieldView("tile_n", "int", "  # rows of both Bs: a tile of D has half as many columns")
_STORE_FIELDS = (
    FieldView("store_n", "int", "  # columns of one TMA store"),
    FieldView("store_buffers", "int", ""),
)
_VECTOR_FIELDS = (
    FieldView("a_vector", "int = 1", "  # elements of one load: divides leading dimension, extent and base"),
    FieldView("b_vector", "int = 1", ""),
)
_CUT_FIELDS = (
    *_VECTOR_FIELDS,
    FieldView("a_pieces", "int = 1", "  # CTAs that cut the same rows, a piece of k each"),
    FieldView("b_pieces", "int = 1", ""),
)
_STAGED_FIELDS = (
    *_VECTOR_FIELDS,
    FieldView("in_flight", "int = 0", "  # elements that a producer thread loads before it waits for the first"),
)


BY_TMA = frozenset({"tma", "split", "gated", "grouped", "planes", *WRITES_PARTS})


def fields_of(
    plan: GemmPlan, fused: tuple[FusedTensor, ...], scales: tuple[ScaleTensor, ...] = ()
) -> tuple[FieldView, ...]:
    """Return the fields of the emitted `Variant`; `fused` are the epilogue's tensors, `scales` those of operands."""
    kinds = set(kinds_of(plan))
    exchanged = (EXCHANGED_FIELD,) if mixes(plan) else ()
    stride = "  # of (m, n, *batch); 0 along an axis that the tensor does not have"
    extra = tuple(FieldView(f"{f.name}_stride", "tuple[int, ...]", stride) for f in fused)
    tile = _TILE_FIELDS
    if plan.variants[0].form.products == 2:
        extra = (*extra, *_offset_fields(fused))
        tile = tuple(_GATE_TILE_N if f.name == "tile_n" else f for f in _TILE_FIELDS)
    if "no_k" in kinds:
        return (*(f for f in _PROBLEM_FIELDS if f.name in ("m", "n", "batch", "d_stride")), *extra, *_TILE_FIELDS)
    extra = (*extra, *scale_fields(scales))
    problem = _PROBLEM_FIELDS if kinds & BY_TMA else tuple(f for f in _PROBLEM_FIELDS if f.name not in _SHARED_FIELDS)
    if "grouped" in kinds:
        problem = _GROUP_FIELDS
    if "simt" in kinds:
        return (*problem, *extra, *_TILE_FIELDS)
    store = _STORE_FIELDS if plan.variants[0].store_path == "tma" else ()
    staged = _STAGED_FIELDS if "staged" in kinds else _CUT_FIELDS if plan.variants[0].cuts else ()
    parts = _PART_FIELDS if has_parts(plan) else ()
    parts = (*parts, _SPLIT_FIELD) if writes_parts(plan) else parts
    resident = (_RESIDENT_FIELD,) if shares_units(plan) else ()
    overlap = (OVERLAPS_FIELD,) if overlaps(plan) else ()
    return (*problem, *extra, *exchanged, *tile, *_WGMMA_FIELDS, *parts, *resident, *overlap, *store, *staged)


def _offset_fields(fused: tuple[FusedTensor, ...]) -> tuple[FieldView, ...]:
    """Return the fields of what parts of tensors a gate reads: cases have them in other places."""
    found = (FieldView(offset_field(f), "int", "  # where it starts, in elements") for f in fused if f.source.offset)
    return (FieldView(B_OFFSETS, "tuple[int, int]", "  # where both Bs start, in elements"), *found)


def has_parts(plan: GemmPlan) -> bool:
    """Return whether any variant splits k over the CTAs of a cluster."""
    return any(v.cluster_k > 1 for v in plan.variants)


def writes_parts(plan: GemmPlan) -> bool:
    """Return whether CTAs of any variant write sums over a part of k for a second kernel."""
    return any(v.split_k > 1 for v in plan.variants)


def shares_units(plan: GemmPlan) -> bool:
    """Return whether any variant runs several CTAs on one SM."""
    return any(v.resident > 1 for v in plan.variants)


def kind_of(variant: GemmVariant) -> str:
    """Return which kernel text serves a variant: its load path, or `no_k` without k.

    Of those that load by TMA, `split` where a cluster splits k, `parts` where the grid does, `gated` where there are
    two products, `grouped` where groups of rows have a B each, `planes` and `planes_parts` of fp32 operands.
    """
    if variant.facts.k == 0:
        return "no_k"
    if variant.split_k > 1:
        return "planes_parts" if variant.cuts else "parts"
    if variant.cuts:
        return "planes"
    if variant.form.groups:
        return "grouped"
    if variant.form.products == 2 and variant.load_path == "tma":
        return "gated"
    return "split" if variant.cluster_k > 1 else variant.load_path


def kinds_of(plan: GemmPlan) -> tuple[str, ...]:
    """Return which kernel texts a plan needs, in the order of its variants."""
    return tuple(dict.fromkeys(kind_of(v) for v in plan.variants))


def row_view(variant: GemmVariant, plan: GemmPlan) -> RowView:
    """Return the row of one variant of a plan."""
    values = _tile_values(variant)
    if variant.load_path != "simt":
        values = (*values, *_wgmma_values(variant, plan))
    return RowView(variant.name, constant_of(variant.case), reasons_of(variant), values)


def gemm_rules(variant: GemmVariant, plan: GemmPlan) -> RulesView:
    """Return the rules of a variant's load path as the kernel carries them."""
    point = dict(variant.choice.candidate.choices)
    bound = bind_gemm(variant.facts, plan.device)
    names = {**KEPT, **_OF_PARTS} if variant.cluster_k > 1 else KEPT
    names = {**names, **_OF_WRITTEN_PARTS} if variant.split_k > 1 else names
    kept = _SIMT_KEPT if variant.load_path == "simt" else tuple(names)
    rules = kernel_rules(bound, point, kept, lambda name: f"v.{names[name]}" if name in kept else name)
    return rules_view(kind_of(variant), rules)


def _tile_values(variant: GemmVariant) -> tuple[ValueView, ...]:
    candidate = variant.choice.candidate
    return (
        ValueView("load_path", f'"{kind_of(variant)}"'),
        *(ValueView(name, str(candidate.number(name))) for name in ("tile_m", "tile_n", "tile_k")),
    )


def _wgmma_values(variant: GemmVariant, plan: GemmPlan) -> tuple[ValueView, ...]:
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
    if has_parts(plan):
        values += [ValueView(name, str(candidate.number(name))) for name in _OF_PARTS]
    if writes_parts(plan):
        values.append(ValueView("split_k", str(variant.split_k)))
    if shares_units(plan):
        values.append(ValueView("resident", str(variant.resident)))
    values += overlap_values(variant, plan)
    if variant.store_path == "tma":
        values.append(ValueView("store_n", str(candidate.number("store_n"))))
        values.append(ValueView("store_buffers", str(STORE_BUFFERS)))
    if variant.load_path == "staged" or variant.cuts:
        form, aligns = variant.form, (variant.facts.a_align, variant.facts.b_align)
        a_align, b_align = reversed(aligns) if variant.is_exchanged else aligns
        values.append(ValueView("a_vector", str(vector_of(form.a, form.m, form.k, a_align))))
        values.append(ValueView("b_vector", str(vector_of(form.b, form.n, form.k, b_align))))
    if variant.cuts:
        a, b = cut_operands(variant.form, variant.facts)
        values += [ValueView("a_pieces", str(a.pieces)), ValueView("b_pieces", str(b.pieces))]
    if variant.load_path == "staged":
        values.append(ValueView("in_flight", str(IN_FLIGHT[candidate.number("consumer_wgs")])))
    return tuple(values)
