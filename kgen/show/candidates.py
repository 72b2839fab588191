"""`kgen solve` for a terminal: the ranked candidates, what the rules removed, and one tile explained."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kgen.planning.candidates import RESOURCES, Candidates, RankedCandidate
from kgen.rules.explain import RuleCheck, Verdict
from kgen.rules.solve import Point, RuleRejection
from kgen.solution import Solution, Why, behind, shares

_FROM_STAGES = ("stages", "cluster", "warp groups", "loads", "stores")
_OF_TIME = ("us", "TFLOP/s", "bound by", "waves", "full", "inside D")
_OF_CTA = ("smem bytes", "acc regs", "behind the first by")


def solution_view(solution: Solution) -> RenderableType:
    """Return everything that `kgen solve` found for one product and device."""
    found, facts = solution.candidates, solution.facts
    head = (
        f"{solution.title} on {solution.device.title} ({solution.device.compute_units} units): "
        f"{found.legal_count:,} of {found.total_points:,} points are legal"
    )
    flops = 2 * facts.m * facts.n * facts.k * facts.batch
    parts = [Text(head, "bold"), _ranking(found, flops), _first(found), _rejections(found)]
    if solution.why is not None:
        parts.append(_why(solution.why, found.ranked[0]))
    return Group(*parts)


def _ranking(found: Candidates, flops: int) -> Table:
    table = Table("", "tile", *_FROM_STAGES, *_OF_TIME, *_OF_CTA, title="ranked", title_justify="left")
    for rank, ranked in enumerate(found.ranked, 1):
        table.add_row(str(rank), *_row(ranked, flops), _losses(ranked, found.ranked[0]) if rank > 1 else "")
    return table


def _row(ranked: RankedCandidate, flops: int) -> tuple[str, ...]:
    c = ranked.candidate
    return (
        str(c.size),
        str(c.value("stages")),
        f"{c.value('cluster_m')}x{c.value('cluster_n')}",
        f"{c.value('wg_m')}x{c.value('wg_n')}",
        str(c.value("load_path")),
        str(c.value("store_path")),
        f"{ranked.time_us:.1f}",
        f"{flops / ranked.time_us / 1e6:.0f}" if ranked.time_us else "",
        ranked.bound_by,
        str(ranked.waves),
        f"{ranked.wave_efficiency:.0%}",
        f"{ranked.padding_efficiency:.0%}",
        f"{c.number('smem_bytes'):,}",
        f"{c.number('acc_regs')}",
    )


def _losses(ranked: RankedCandidate, first: RankedCandidate) -> str:
    """Return the largest differences in time from the first."""
    differences = behind(ranked, first)
    if not differences:
        return "equal time; ties go to more threads and stages"
    shown = sorted(differences, key=lambda item: -abs(item[1]))[:2]
    return ", ".join(f"{time:+.1f} {name}" for name, time in shown)


def _first(found: Candidates) -> RenderableType:
    """Return why the first is first: where its time goes, and what bounds a tile's mainloop."""
    first = found.ranked[0]
    times = ", ".join(f"{name} {time:.1f}" for name, time in shares(first).items() if time >= 0.05)
    resources = sorted(((first.term(r), r) for r in RESOURCES if first.term(r)), reverse=True)
    tile = ", ".join(f"{name} {time:.2f}" for time, name in resources)
    return Text(
        f"the first: predicted {first.time_us:.1f} us = {times}\n"
        f"  one tile's mainloop {first.term('mainloop'):.2f} us, bound by {first.bound_by}: {tile}\n"
        f"  {first.waves} grid waves {first.wave_efficiency:.0%} full, tiles {first.raster}"
    )


def _rejections(found: Candidates) -> Table:
    table = Table("rule", "removed", "why", "place", "edge", title="what the rules removed", title_justify="left")
    for rejection in found.rejections:
        reason = f"{rejection.text}\n{rejection.because}"
        place = f"{rejection.file}:{rejection.line}"
        table.add_row(rejection.rule, f"{rejection.removed:,}", Text(reason), place, _edge(rejection))
    return table


def _edge(rejection: RuleRejection) -> str:
    """Return the boundary example: the axis whose step crosses the rule, from the kept to the removed point."""
    removed = dict(rejection.removed_point)
    if rejection.kept_point is None:
        return f"e.g. {_short(rejection.removed_point)}"
    changed = [f"{axis} {value} kept, {removed[axis]} removed" for axis, value in rejection.kept_point
               if removed[axis] != value]  # fmt: skip
    return ", ".join(changed)


def _short(point: Point) -> str:
    return ", ".join(f"{axis} = {value}" for axis, value in point[-3:])


def _why(why: Why, first: RankedCandidate) -> RenderableType:
    if why.ranked is None or why.rank is None:
        return Group(Text(f"not legal: {_point(why)}", "bold red"), *map(_broken, why.explanation.broken))
    head = Text(f"legal, rank {why.rank}: {_point(why)}", "bold")
    met = [c for c in why.explanation.checks if c.verdict is Verdict.MET]
    note = Text(f"{len(met)} rules hold, {len(why.explanation.checks) - len(met)} do not apply to it")
    if why.rank == 1:
        return Group(head, note)
    slower = why.ranked.time_us - first.time_us
    line = ", ".join(f"{time:+.2f} us {name}" for name, time in why.behind) or "a tie, broken by the order of ties"
    reason = Text(f"{slower:+.2f} us against the first ({slower / first.time_us:+.1%}): {line}")
    return Group(head, note, reason, _side_by_side(why.ranked, first))


def _side_by_side(ranked: RankedCandidate, first: RankedCandidate) -> Table:
    table = Table("us", "this tile", "the first", title="where the time goes", title_justify="left")
    for (name, mine), (_, other) in zip(shares(ranked).items(), shares(first).items(), strict=True):
        table.add_row(name, f"{mine:.2f}", f"{other:.2f}")
    table.add_row("predicted", f"{ranked.time_us:.2f}", f"{first.time_us:.2f}", style="bold")
    for name in (*RESOURCES, "mainloop", "epilogue"):
        table.add_row(f"one tile: {name}", f"{ranked.term(name):.3f}", f"{first.term(name):.3f}")
    table.add_row("bound by", ranked.bound_by, first.bound_by)
    table.add_row("grid waves", _waves(ranked), _waves(first))
    return table


def _waves(ranked: RankedCandidate) -> str:
    return f"{ranked.waves}, {ranked.wave_efficiency:.0%} full"


def _point(why: Why) -> str:
    return ", ".join(f"{axis} = {value}" for axis, value in why.explanation.point)


def _broken(check: RuleCheck) -> Text:
    lines = [f"{check.rule} ({check.place}): {check.text}", f"    {check.because}"]
    lines += [f"    {side.text}: {side.left} against {side.right}" for side in check.sides if not side.holds]
    for near in check.nearest[:2]:
        lines.append(
            f"    nearest {'legal' if near.legal else 'value for this rule alone'}: {near.axis} = {near.value}"
        )
    return Text("\n".join(lines))
