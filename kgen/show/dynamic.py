"""`kgen solve` for a spec that leaves an extent to run time: which plan serves which of its values, and why."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kgen.planning.dynamic_words import dynamic_json, served, values_text
from kgen.planning.plan import Plan


def tables_view(plans: Sequence[Plan]) -> RenderableType:
    """Return the table of each plan, a device each, and what its variants are."""
    return Group(*(part for plan in plans for part in (_values(plan), _variants(plan), _hint(plan))))


def tables_json(plans: Sequence[Plan]) -> list[dict[str, object]]:
    """Return the same as JSON objects."""
    return [
        {
            "title": plan.name,
            "device": plan.device.name,
            "family": plan.family,
            **dynamic_json(plan),
            "variants": [
                {"name": v.name, "serves": served(plan, v), "choice": v.choice.to_json()} for v in plan.variants
            ],
        }
        for plan in plans
    ]


def _values(plan: Plan) -> Table:
    assert plan.dynamic is not None
    name = plan.dynamic.extent.name
    title = f"{plan.name} on {plan.device.title}: which plan serves which {name}"
    table = Table(name, "variants, as they are tried", "predicted", "best candidate", "why", title=title)
    table.title_justify = "left"
    for i in plan.dynamic.intervals:
        times = (f"{i.time_us:.1f} us", f"{i.best_us:.1f} us")
        table.add_row(values_text(i.first, i.last), ", then ".join(i.variants), *times, i.because)
    return table


def _variants(plan: Plan) -> Table:
    table = Table("variant", "runs when", "choice", "serves", title="the plans", title_justify="left")
    for v in plan.variants:
        table.add_row(v.name, str(v.guard), str(v.choice.candidate), served(plan, v))
    return table


def _hint(plan: Plan) -> Text:
    case = plan.by_case[-1].case
    return Text(f"`--case {case}` ranks the candidates of one value; test cases have such ids")
