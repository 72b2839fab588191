"""The rows of VARIANTS for loop kernels: extents, accesses, and the choices of a variant, each with its reason."""

import textwrap

from kgen.backends.loops.body import HELD
from kgen.backends.loops.device import DeviceText
from kgen.backends.loops.dialect import AHEAD, LoopDialect
from kgen.backends.loops.symbols import NamedAccess
from kgen.backends.loops.views import LoopRowView
from kgen.backends.source.file_text import rules_view
from kgen.backends.source.file_views import RulesView, ValueView
from kgen.backends.source.lines import Lines, tuple_text
from kgen.families.strided.facts import width_of
from kgen.families.strided.form import Layout
from kgen.families.strided.rules import bind_loop
from kgen.planning.plan_loops import LoopVariant
from kgen.rules.specialise import kernel_rules
from kgen.target import Device


def loop_row(variant: LoopVariant, device: DeviceText, dialect: LoopDialect, kept: Lines, warp: int) -> LoopRowView:
    """Return the row of one variant, with the `kept` axes.

    `device` is the function that it runs, `warp` the threads of a warp.
    """
    choice, form = variant.choice, variant.form
    reasons = [f"predicted {choice.time_us:.1f} us, bound by {choice.bound_by}; {variant.guard}"]
    if variant.runners_up:
        second = variant.runners_up[0]
        reasons.append(f"next best: {second.candidate}, predicted {second.time_us:.1f} us")
    chosen = {name: _chosen(variant, name) for name in kept}
    values = [
        ValueView("launch", f'"{device.launch}"'),
        ValueView("rows", tuple_text(form.kept[::-1])),
        ValueView("cols", tuple_text(form.reduced[::-1])),
        *(ValueView(name, str(value)) for name, value in chosen.items()),
        ValueView("ctas", str(max(choice.ctas, 1))),
        ValueView("exact", str(_is_exact(variant, chosen))),
        ValueView("exchanged", str(_exchanged(variant, chosen, warp))),
    ]
    accesses = [_access(named, variant, dialect) for named in device.accesses]
    shown = tuple(part for reason in reasons for part in textwrap.wrap(reason, 110))
    return LoopRowView(variant.name, shown, tuple(values), tuple(accesses))


def loop_rules(variant: LoopVariant, device: Device, dialect: LoopDialect) -> RulesView:
    """Return the rules of a variant as the kernel carries them."""
    point = dict(variant.choice.candidate.choices)
    bound = bind_loop(variant.form.family, variant.facts, device)
    kept = tuple(name for name in dialect.kept if name in point and (variant.ahead or name != AHEAD))
    rules = kernel_rules(bound, point, kept, lambda name: f"v.{name}" if name in kept else name)
    return rules_view(variant.name, rules)


def _chosen(variant: LoopVariant, name: str) -> int:
    choices = dict(variant.choice.candidate.choices)
    return int(choices[name]) if name in choices else 1


def _access(named: NamedAccess, variant: LoopVariant, dialect: LoopDialect) -> str:
    walk = named.walk
    parts = [f"rows={tuple_text(walk.kept[::-1])}", f"cols={tuple_text(walk.reduced[::-1])}"]
    parts += [f"base={walk.base}"] if walk.base else []
    if named.access is not None:
        width = width_of(named.access, variant.form, _chosen(variant, "vec"), variant.base_align)
        parts += [f"width={width}"] if width != 1 else []
    told = (dialect.evictions.get(e) for a, e in variant.evictions if (a.tensor, a.walk) == (named.tensor, walk))
    parts += [f"l2={word}" for word in told if word][:1]
    return f"Access({', '.join(parts)}),  # {named.name}"


def _span(variant: LoopVariant, chosen: dict[str, int]) -> int:
    lanes = chosen["row_threads"] * chosen.get("cluster", 1) * chosen["steps"]
    return lanes * (chosen["vec"] if variant.form.layout is Layout.ROWS else 1)


def _is_exact(variant: LoopVariant, chosen: dict[str, int]) -> bool:
    """Return whether every vector of every chunk lies inside of its row."""
    cols = variant.form.cols
    if variant.schedule in HELD:
        return _span(variant, chosen) == cols
    return cols % _span(variant, chosen) == 0


def _exchanged(variant: LoopVariant, chosen: dict[str, int], warp: int) -> int:
    """Return how many states of one kind lie in smem at once."""
    if variant.form.layout is Layout.ROWS:
        rounds = chosen["steps"] if variant.schedule == "scan" else 1
        return rounds * chosen.get("cluster", 1) * max(chosen["threads"] // warp, 1)
    return chosen["threads"] * chosen["vec"]
