"""`kgen solve` for a terminal: the ranked candidates, what the rules removed, and one choice explained."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kgen.planning.candidates import RankedGemm
from kgen.planning.choice import Candidates, RankedCandidate
from kgen.rules.explain import RuleCheck, Verdict
from kgen.rules.solve import Point, RuleRejection
from kgen.show.rankings import ranking
from kgen.solution import Solution, Why, resources_of, shares


def solution_view(solution: Solution) -> RenderableType:
    """Return everything that `kgen solve` found for one kernel and device."""
    found, asked = solution.candidates, solution.question
    head = (
        f"{asked.title} on {asked.device.title} ({asked.device.compute_units} units): "
        f"{found.legal_count:,} of {found.total_points:,} points are legal"
    )
    parts = [Text(head, "bold"), ranking(solution), _first(found), _rejections(found)]
    if solution.why is not None:
        parts.append(_why(solution.why, found.ranked[0]))
    return Group(*parts)


def solutions_view(solutions: Sequence[Solution]) -> RenderableType:
    """Return the answers in order; before the kernels of a program, the reasons why they are these."""
    parts: list[RenderableType] = []
    for solution, last in zip(solutions, (None, *solutions), strict=False):
        asked = solution.question
        if last is None or (asked.cut, asked.device) != (last.question.cut, last.question.device):
            parts += [Text(reason) for reason in asked.cut]
        parts.append(solution_view(solution))
    return Group(*parts)


def _first(found: Candidates) -> RenderableType:
    """Return why the first is first: where its time goes, and what bounds it."""
    first = found.ranked[0]
    times = ", ".join(f"{name} {time:.1f}" for name, time in shares(first).items() if time >= 0.05)
    resources = sorted(((first.term(r), r) for r in resources_of(first) if first.term(r)), reverse=True)
    each = ", ".join(f"{name} {time:.2f}" for time, name in resources)
    waves = f"{first.waves} grid waves {first.wave_efficiency:.0%} full"
    if isinstance(first, RankedGemm):
        bound = f"one tile's mainloop {first.term('mainloop'):.2f} us, bound by {first.bound_by}: {each}"
        waves = f"{waves}, tiles {first.raster}{first.start_words}"
    else:
        bound = f"bound by {first.bound_by}, each alone: {each}"
    return Text(f"the first: predicted {first.time_us:.1f} us = {times}\n  {bound}\n  {waves}")


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
    table = Table("us", "this choice", "the first", title="where the time goes", title_justify="left")
    for (name, mine), (_, other) in zip(shares(ranked).items(), shares(first).items(), strict=True):
        table.add_row(name, f"{mine:.2f}", f"{other:.2f}")
    table.add_row("predicted", f"{ranked.time_us:.2f}", f"{first.time_us:.2f}", style="bold")
    is_product = isinstance(ranked, RankedGemm)
    for name in (*resources_of(ranked), *(("mainloop", "epilogue") if is_product else ())):
        of = "one tile" if is_product else "alone"
        table.add_row(f"{of}: {name}", f"{ranked.term(name):.3f}", f"{first.term(name):.3f}")
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
