"""A plan in words: the rows about variants, rules, sources and unsure facts that several texts of a package print."""

from collections.abc import Iterator

from kgen.package.views import RejectionRow, SourceRow, VariantRow
from kgen.planning.plan import Plan, Variant
from kgen.target import Confidence, Device, Quantity, load_sources


def variant_rows(plan: Plan) -> tuple[VariantRow, ...]:
    """Return the kernels of a plan in the order the host tries them."""
    return tuple(_variant_row(v) for v in plan.variants)


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


def quantities_used(device: Device, dtype: str) -> tuple[tuple[str, Quantity], ...]:
    """Return the device's numbers that a plan for products of `dtype` rests on."""
    peak = device.dense_peak(dtype)
    return tuple((name, q) for name, q in device.quantities if not name.startswith("dense_peak.") or q is peak)


def source_rows(plan: Plan) -> tuple[SourceRow, ...]:
    """Return the register's entries that the plan's numbers cite, by id."""
    register = load_sources()
    dtype = str(plan.variants[0].form.mma_dtype)
    ids = {q.source for _, q in quantities_used(plan.device, dtype)}
    ids |= {q.source for _, q in plan.device.arch.limits}
    rows = [register[name] for name in sorted(ids) if name in register]
    return tuple(SourceRow(s.id, s.document, s.revision, s.evidence) for s in rows)


def missing_facts(plan: Plan) -> tuple[str, ...]:
    """Return what is not known, or not well enough to decide anything."""
    device, dtype = plan.device, str(plan.variants[0].form.mma_dtype)
    return tuple(_missing(device, dtype)) or ("none known",)


def _missing(device: Device, dtype: str) -> Iterator[str]:
    if device.dense_peak(dtype) is None:
        yield f"the dense peak of the {device.title} for {dtype} products"
    for name, quantity in (*quantities_used(device, dtype), *device.arch.limits):
        if quantity.confidence is Confidence.LOW:
            note = f"; {quantity.note}" if quantity.note else ""
            yield f"{words(name)}: {number_text(quantity)} is of low confidence [{quantity.source}]{note}"
    yield "measured times: none are in this folder until a run writes them"


def words(name: str) -> str:
    """Return a quantity's name as it reads in a sentence."""
    section, _, field = name.rpartition(".")
    spelled = field.replace("_", " ")
    return {"dense_peak": f"dense peak {spelled}", "fitted": f"fitted {spelled}"}.get(section, spelled)


def _variant_row(variant: Variant) -> VariantRow:
    choice, candidate = variant.choice, variant.choice.candidate
    tiles = f"{choice.waves} grid wave{'s' if choice.waves != 1 else ''}, {choice.wave_efficiency:.0%} full"
    return VariantRow(
        name=variant.name,
        case=variant.case,
        guard=str(variant.guard),
        choice=str(candidate),
        resources=f"{candidate.number('threads')} threads, {candidate.number('smem_bytes')} bytes of smem",
        grid=f"{tiles}, tiles {choice.raster}",
        predicted=f"{choice.time_us:.1f} us, bound by {choice.bound_by}",
    )
