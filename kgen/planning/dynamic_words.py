"""An extent of run time in words: what plan.json and `kgen solve` say of its table and of the plans in it."""

from dataclasses import asdict

from kgen.planning.plan import Plan, Variant


def dynamic_json(plan: Plan) -> dict[str, object]:
    """Return what plan.json says of the extent: its values, what follows from it, and the table."""
    dynamic = plan.dynamic
    assert dynamic is not None
    extent, (tensor, axis) = dynamic.extent, dynamic.source
    return {
        "extent": extent.name,
        "range": [extent.lo, extent.hi],
        "multiple_of": extent.multiple_of,
        "source": {"tensor": tensor, "axis": axis},
        "kernel": {"axis": dynamic.axis, "scale": dynamic.scale, "offset": dynamic.offset},
        "table": [asdict(interval) for interval in dynamic.intervals],
    }


def served(plan: Plan, variant: Variant) -> str:
    """Return the case of a variant, or the values of the extent of run time that it serves."""
    if plan.dynamic is None:
        return variant.case
    runs: list[tuple[int, int]] = []
    for i in plan.dynamic.intervals:
        if variant.name in i.variants:
            joins = bool(runs) and runs[-1][1] + plan.dynamic.extent.multiple_of >= i.first
            runs = [*runs[:-1], (runs[-1][0], i.last)] if joins else [*runs, (i.first, i.last)]
    return f"{plan.dynamic.extent.name} in {', '.join(values_text(*run) for run in runs)}"


def values_text(first: int, last: int) -> str:
    """Return a run of neighbouring values."""
    return str(first) if first == last else f"{first}..{last}"
