"""The rows of VARIANTS of an attention on CDNA: extents and strides of each case, choices with reasons, rules."""

from math import gcd

from kgen.backends.source.file_text import rules_view
from kgen.backends.source.file_views import RulesView, ValueView
from kgen.backends.source.gemm_rows import constant_of
from kgen.backends.source.gemm_views import CaseView, FieldView, RowView
from kgen.backends.source.lines import tuple_text
from kgen.families.attention.rules import bind_attention
from kgen.planning.plan_attention import AttentionPlan, AttentionVariant
from kgen.rules.specialise import kernel_rules

# Axes of the rules that a row keeps as numbers, which an engineer may edit.
KEPT = ("warps", "tile_n", "buffers")
_MOST_WAVES = 2  # that the compiler is asked to leave registers for: with more, it would spill what they share
_TYPES = {"scale": "float", "batch": "tuple[int, ...]"}
_COMMENTS = {
    "d": "head dim of Q and K",
    "dv": "of V and O",
    "ratio": "query heads that share a head of K and V",
    "batch": "heads of K and V",
    "q_stride": "of (query, group, *batch), in elements",
    "k_stride": "of (key, *batch)",
    "v_stride": "of (key, *batch)",
    "o_stride": "of (query, group, *batch)",
    "scale": "of the products",
    "least": "a query at m sees no key before m + least",
    "most": "a query at m sees no key after m + most",
    "warps": "of a workgroup, with 32 queries each",
    "tile_n": "keys of one step",
    "buffers": "tiles of K and V in LDS",
    "d_lds": "head dims as they lie in LDS",
    "v_vector": "elements of one load of V",
    "waves": "warps that a SIMD holds at once, at least",
}


def fields_of(variant: AttentionVariant) -> tuple[FieldView, ...]:
    """Return the fields of the emitted `Variant`."""
    return tuple(
        FieldView(name, _type_of(name), f"  # {_COMMENTS[name]}" if name in _COMMENTS else "")
        for name in (*problem_values(variant), *(v.name for v in _chosen(variant)))
    )


def case_view(variant: AttentionVariant) -> CaseView:
    """Return the constant that holds a case's extents and strides; the DSL has no extent of 0."""
    note = ": its result is empty, so that no kernel runs; 0 stands as 1" if variant.form.is_empty else ""
    values = tuple(ValueView(name, text) for name, text in problem_values(variant).items())
    return CaseView(constant_of(variant.case), f"case {variant.case}{note}", values)


def row_view(variant: AttentionVariant) -> RowView:
    """Return the row of one variant."""
    choice = variant.choice
    reasons = [
        f"predicted {choice.time_us:.1f} us, bound by {choice.bound_by}: {choice.waves} grid waves, "
        f"{choice.wave_efficiency:.0%} full; {variant.guard}"
    ]
    if variant.runners_up:
        second = variant.runners_up[0]
        reasons.append(f"next best: {second.candidate}, predicted {second.time_us:.1f} us")
    return RowView(variant.name, constant_of(variant.case), tuple(reasons), _chosen(variant))


def attention_rules(plan: AttentionPlan) -> dict[str, RulesView]:
    """Return the rules of each variant as the kernel carries them; variants with the same ones share a function."""
    found: dict[str, RulesView] = {}
    for variant in plan.variants:
        bound = bind_attention(variant.facts, plan.device)
        view = rules_view(variant.name, kernel_rules(bound, dict(variant.choice.candidate.choices), KEPT, _spelled))
        same = (r for r in found.values() if (r.derived, r.checks) == (view.derived, view.checks))
        found[variant.name] = next(same, view)
    return found


def problem_values(variant: AttentionVariant) -> dict[str, str]:
    """Return the extents, strides and bounds of a case."""
    form = variant.form
    values: dict[str, object] = {
        "queries": max(form.m, 1),
        "keys": max(form.n, 1),
        "d": form.d,
        "dv": max(form.dv, 1),
        "ratio": max(form.ratio, 1),
        "batch": tuple_text(tuple(max(extent, 1) for extent in form.batch)),
        "q_stride": tuple_text((form.q.tokens, form.q.group, *form.q.batch)),
        "k_stride": tuple_text((form.k.tokens, *form.k.batch)),
        "v_stride": tuple_text((form.v.tokens, *form.v.batch)),
        "o_stride": tuple_text((form.out.tokens, form.out.group, *form.out.batch)),
        "scale": repr(form.scale),
    }
    values |= {n: b for n, b in (("least", form.keys.least), ("most", form.keys.most)) if b is not None}
    return {name: str(value) for name, value in values.items()}


def _chosen(variant: AttentionVariant) -> tuple[ValueView, ...]:
    """Return the choices that a row keeps."""
    candidate = variant.choice.candidate
    values = {name: candidate.number(name) for name in (*KEPT, "d_lds", "dv_lds")}
    share = candidate.number("tile_n") * candidate.number("dv_lds") // (4 * candidate.number("threads"))
    values["v_vector"] = gcd(16 // variant.form.mma_dtype.bytes, share)
    values["waves"] = waves_of(variant)
    comments = {"buffers": f"  # {candidate.number('smem_bytes')} bytes of LDS in all"}
    return tuple(ValueView(name, str(value), comments.get(name, "")) for name, value in values.items())


def waves_of(variant: AttentionVariant) -> int:
    """Return the warps of a SIMD that the compiler has to leave registers for: those of whole workgroups."""
    candidate = variant.choice.candidate
    own = -(-candidate.number("warps") // 4)
    together = candidate.number("warps") * candidate.number("ctas_per_unit") // 4
    return max(min(together, _MOST_WAVES), own)


def _spelled(name: str) -> str:
    return f"v.{name}" if name in KEPT else name


def _type_of(name: str) -> str:
    return _TYPES.get(name, "tuple[int, ...]" if name.endswith("_stride") else "int")
