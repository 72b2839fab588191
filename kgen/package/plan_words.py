"""A plan in words: the rows about variants, rules, sources and unsure facts that several texts of a package print."""

from collections.abc import Iterator

from kgen.families.attention.cost import FITTED as FITTED_OF_ATTENTION
from kgen.families.gemm.cost import FITTED
from kgen.package.parts import product_dtype
from kgen.package.views import RejectionRow, SourceRow, VariantRow
from kgen.planning.dynamic_words import served
from kgen.planning.plan import Plan, Variant
from kgen.planning.plan_attention import AttentionVariant
from kgen.planning.plan_gemm import GemmVariant
from kgen.target import Confidence, Device, Quantity, load_sources

_FITTED_OF_BOTH = ("fitted.launch", "fitted.unit_bandwidth")


def variant_rows(plan: Plan) -> tuple[VariantRow, ...]:
    """Return the kernels of a plan in the order the host tries them."""
    return tuple(_variant_row(v, served(plan, v)) for v in plan.variants)


def rejection_rows(plan: Plan) -> tuple[RejectionRow, ...]:
    """Return what each rule removed: one number where all variants agree, else one for each that it concerns."""
    removed: dict[tuple[str, str, str], dict[str, int]] = {}
    for variant in plan.variants:
        for r in variant.candidates.rejections:
            removed.setdefault((r.rule, r.because, r.place), {})[variant.name] = r.removed
    return tuple(
        RejectionRow(rule, _by_variant(counts, len(plan.variants)), because, place)
        for (rule, because, place), counts in removed.items()
    )


def _by_variant(counts: dict[str, int], variants: int) -> str:
    if len(counts) == variants and len(set(counts.values())) == 1:
        return str(next(iter(counts.values())))
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def number_text(quantity: Quantity) -> str:
    """Return a quantity's number with its unit, as far as it has one."""
    unit = "" if quantity.unit in ("count", "ratio") else f" {quantity.unit}"
    return f"{quantity.value:g}{unit}"


def quantities_used(plan: Plan) -> tuple[tuple[str, Quantity], ...]:
    """Return the device's numbers that a plan rests on: of the peaks one, of the fitted ones those of its families."""
    peak = plan.device.dense_peak(product_dtype(plan))
    left_out = {name for name, _ in plan.device.quantities if name.startswith("dense_peak.")}
    left_out |= {name for name, _ in plan.device.quantities if name.startswith(("fitted.", "measured."))}
    left_out -= {name for variant in plan.variants for name in _fitted(plan.device, variant)}
    return tuple((name, q) for name, q in plan.device.quantities if name not in left_out or q is peak)


def _fitted(device: Device, variant: Variant) -> tuple[str, ...]:
    """Return the fitted numbers that the cost model of a variant's family reads."""
    if isinstance(variant, AttentionVariant):
        return FITTED_OF_ATTENTION
    is_product = isinstance(variant, GemmVariant)
    everything = (name for name, _ in device.quantities if name.startswith("fitted."))
    return tuple(n for n in everything if n in _FITTED_OF_BOTH or (n in FITTED) is is_product)


def source_rows(plan: Plan) -> tuple[SourceRow, ...]:
    """Return the register's entries that the plan's numbers cite, by id."""
    register = load_sources()
    ids = {q.source for _, q in quantities_used(plan)}
    ids |= {q.source for _, q in plan.device.arch.limits}
    rows = [register[name] for name in sorted(ids) if name in register]
    return tuple(SourceRow(s.id, s.document, s.revision, s.evidence) for s in rows)


def missing_facts(plan: Plan) -> tuple[str, ...]:
    """Return what is not known, or not well enough to decide anything."""
    return tuple(_missing(plan)) or ("none known",)


def _missing(plan: Plan) -> Iterator[str]:
    device, dtype = plan.device, product_dtype(plan)
    if device.dense_peak(dtype) is None:
        yield f"the dense peak of the {device.title} for {dtype}"
    for name, quantity in (*quantities_used(plan), *device.arch.limits):
        if quantity.confidence is Confidence.LOW:
            note = f"; {quantity.note}" if quantity.note else ""
            yield f"{words(name)}: {number_text(quantity)} is of low confidence [{quantity.source}]{note}"
    yield "measured times: none are in this folder until a run writes them"


def words(name: str) -> str:
    """Return a quantity's name as it reads in a sentence."""
    section, _, field = name.rpartition(".")
    spelled = field.replace("_", " ")
    return {"dense_peak": f"dense peak {spelled}", "fitted": f"fitted {spelled}"}.get(section, spelled)


def _order(variant: GemmVariant) -> str:
    return f"{variant.choice.raster}{variant.choice.start_words}"


def _variant_row(variant: Variant, case: str) -> VariantRow:
    choice, candidate = variant.choice, variant.choice.candidate
    has_smem = "smem_bytes" in dict(candidate.derived)
    smem = f", {candidate.number('smem_bytes')} bytes of smem" if has_smem else ""
    tiles = f"{choice.waves} grid wave{'s' if choice.waves != 1 else ''}, {choice.wave_efficiency:.0%} full"
    return VariantRow(
        name=variant.name,
        case=case,
        guard=str(variant.guard),
        choice=str(candidate),
        resources=f"{candidate.number('threads')} threads{smem}",
        grid=f"{tiles}, tiles {_order(variant)}" if isinstance(variant, GemmVariant) else tiles,
        predicted=f"{choice.time_us:.1f} us, bound by {choice.bound_by}",
    )
