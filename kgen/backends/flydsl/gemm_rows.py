"""The rows of VARIANTS of a product on CDNA: the choices of a variant with their reasons, and the rules they keep."""

import textwrap
from math import gcd

from kgen.backends.source.file_text import rules_view
from kgen.backends.source.file_views import RulesView, ValueView
from kgen.backends.source.fused import FusedTensor
from kgen.backends.source.gemm_rows import constant_of, reasons_of
from kgen.backends.source.gemm_views import FieldView, RowView
from kgen.families.gemm.facts import vector_of
from kgen.families.gemm.rules import bind_gemm
from kgen.planning.plan_gemm import GemmPlan, GemmVariant
from kgen.rules.specialise import kernel_rules

# What a row keeps as numbers that an engineer may edit: axes of the rules under their own names.
KEPT = ("mma", "warps_m", "warps_n", "tile_m", "tile_n", "tile_k", "stages", "split_k")
_SIMDS, _REGISTERS = 4, 512  # of a compute unit, and of a lane when one warp has all of a SIMD
_SPARE = 1.5  # registers that the compiler may need for each one of the estimate
_REASON = 112  # columns of a comment over a row
QUAD = 4  # neighbouring columns of D that a lane holds

_STRIDE = "  # of (m, n, *batch); 0 along an axis that the tensor does not have"
_PROBLEM_FIELDS = (
    FieldView("m", "int", ""),
    FieldView("n", "int", ""),
    FieldView("k", "int", ""),
    FieldView("batch", "tuple[int, ...]", ""),
    FieldView("a_stride", "tuple[int, ...]", "  # of (m, k, *batch), in elements; 0 where all batches share A"),
    FieldView("b_stride", "tuple[int, ...]", "  # of (n, k, *batch)"),
    FieldView("d_stride", "tuple[int, ...]", "  # of (m, n, *batch)"),
)
_OF_OPERANDS = ("k", "a_stride", "b_stride")
_CHOICE_FIELDS = (
    FieldView("load_path", "str", ""),
    FieldView("tile_m", "int", ""),
    FieldView("tile_n", "int", ""),
    FieldView("tile_k", "int", ""),
    FieldView("warps_m", "int", ""),
    FieldView("warps_n", "int", ""),
    FieldView("mma", "int", "  # rows and columns of one MFMA"),
    FieldView("stages", "int", "  # k steps that LDS holds"),
    FieldView("split_k", "int", "  # workgroups that share a tile of D"),
    FieldView("group", "int", "  # tiles walked side by side"),
    FieldView("group_along", "str", '  # "m" or "n"'),
    FieldView("waves", "int", "  # warps that a SIMD holds at once"),
    FieldView("a_vector", "int", "  # elements of one load"),
    FieldView("b_vector", "int", ""),
    FieldView("d_vector", "int", "  # columns of one store"),
)
_WITHOUT_K = ("tile_k", "stages", "a_vector", "b_vector")


def kind_of(variant: GemmVariant) -> str:
    """Return which kernel text serves a variant: its load path, in parts of k where it splits, `no_k` without one."""
    if variant.facts.k == 0:
        return "no_k"
    return f"{variant.load_path}_split" if variant.choice.candidate.number("split_k") > 1 else variant.load_path


def fields_of(plan: GemmPlan, fused: tuple[str, ...]) -> tuple[FieldView, ...]:
    """Return the fields of the emitted `Variant`; `fused` names the epilogue's tensors."""
    without_k = all(v.facts.k == 0 for v in plan.variants)
    problem = tuple(f for f in _PROBLEM_FIELDS if not (without_k and f.name in _OF_OPERANDS))
    choices = tuple(f for f in _CHOICE_FIELDS if not (without_k and f.name in _WITHOUT_K))
    strides = tuple(FieldView(f"{name}_stride", "tuple[int, ...]", _STRIDE) for name in fused)
    vectors = tuple(FieldView(f"{name}_vector", "int", "  # elements of one load") for name in fused)
    return (*problem, *strides, *choices, *vectors)


def row_view(variant: GemmVariant, fused: tuple[FusedTensor, ...], fields: tuple[FieldView, ...]) -> RowView:
    """Return the row of one variant."""
    candidate, raster, form, facts = variant.choice.candidate, variant.choice.raster, variant.form, variant.facts
    lds = f"  # {candidate.number('smem_bytes')} bytes of LDS in all"
    registers = f"  # with {candidate.number('acc_regs')} registers of sums in each"
    values = [
        ValueView("load_path", f'"{kind_of(variant)}"'),
        *(ValueView(n, str(candidate.number(n))) for n in ("tile_m", "tile_n", "tile_k", "warps_m", "warps_n", "mma")),
        ValueView("stages", str(candidate.number("stages")), lds),
        ValueView("split_k", str(candidate.number("split_k"))),
        ValueView("group", str(raster.group), "  # keeps what one grid wave reads in the L2 of a die"),
        ValueView("group_along", f'"{raster.group_along}"'),
        ValueView("waves", str(waves_of(variant)), registers),
        ValueView("a_vector", str(vector_of(form.a, form.m, form.k, facts.a_align))),
        ValueView("b_vector", str(vector_of(form.b, form.n, form.k, facts.b_align))),
        ValueView("d_vector", str(d_vector(variant))),
        *(ValueView(f"{t.name}_vector", str(_fused_vector(variant, t))) for t in fused),
    ]
    taken = {f.name for f in fields}
    shown = tuple(v for v in values if v.name in taken)
    reasons = tuple(line for reason in reasons_of(variant) for line in textwrap.wrap(reason, _REASON))
    return RowView(variant.name, constant_of(variant.case), reasons, shown)


def gemm_rules(plan: GemmPlan) -> dict[str, RulesView]:
    """Return the rules of each variant as the kernel carries them; variants with the same ones share a function.

    They depend on how well a variant's operands are aligned, and so on more than its kind.
    """
    found: dict[str, RulesView] = {}
    for variant in plan.variants:
        bound = bind_gemm(variant.facts, plan.device)
        kept = tuple(n for n in KEPT if variant.facts.k or n not in _WITHOUT_K)
        point = dict(variant.choice.candidate.choices)
        view = rules_view(variant.name, kernel_rules(bound, point, kept, _spelled))
        same = (r for r in found.values() if (r.derived, r.checks) == (view.derived, view.checks))
        found[variant.name] = next(same, view)
    return found


def _spelled(name: str) -> str:
    return f"v.{name}" if name in KEPT else name


def waves_of(variant: GemmVariant) -> int:
    """Return the warps of a SIMD that the compiler has to leave registers for.

    They are fewer than what the rules' estimate of registers allows, by `_SPARE`: held to the estimate, the compiler
    spills where it is off. They are those of whole workgroups, and the workgroup's own ones always fit.
    """
    candidate = variant.choice.candidate
    warps = candidate.number("warps")
    own = -(-warps // _SIMDS)
    together = warps * candidate.number("ctas_per_unit") // _SIMDS
    allowed = int(_REGISTERS // (_SPARE * dict(candidate.derived)["lane_regs"]))
    return max(min(together, allowed) // own, 1) * own


def d_vector(variant: GemmVariant) -> int:
    """Return how many columns of D are stored at once."""
    return QUAD if variant.store_path == "vector" else 1


def _fused_vector(variant: GemmVariant, tensor: FusedTensor) -> int:
    """Return how many elements of an epilogue's tensor are loaded at once: a piece, or one where it is unaligned."""
    source, wide = tensor.source, d_vector(variant)
    aligned = dict(variant.guard.base_align).get(source.tensor, 1)
    steps = (source.offset, source.m, *source.batch)
    span = wide * source.dtype.bytes
    is_whole = source.n == 1 and gcd(aligned, *(s * source.dtype.bytes for s in steps)) % min(span, 16) == 0
    return wide if is_whole else 1
