"""The table of ranked candidates of one kernel, with the columns of its family."""

from rich.table import Table

from kgen.planning.candidates import RankedGemm
from kgen.planning.choice import RankedCandidate
from kgen.solution import Solution, behind

_FROM_STAGES = ("stages", "cluster", "warp groups", "loads", "stores")
_OF_TIME = ("us", "TFLOP/s", "bound by", "waves", "full", "inside D")
_OF_CTA = ("smem bytes", "acc regs", "behind the first by")
_OF_LOOP = ("us", "TB/s", "bound by", "CTAs", "waves", "full", "access bytes", "behind the first by")


def ranking(solution: Solution) -> Table:
    """Return the ranked candidates, a row each."""
    ranked, solver = solution.candidates.ranked, solution.question.solver
    if isinstance(ranked[0], RankedGemm):
        table = Table("", "tile", *_FROM_STAGES, *_OF_TIME, *_OF_CTA, title="ranked", title_justify="left")
    else:
        axes = [axis for axis, _ in ranked[0].candidate.choices]
        table = Table("", *axes, *_OF_LOOP, title="ranked", title_justify="left")
    for rank, candidate in enumerate(ranked, 1):
        row = _product(candidate, solver.flops) if isinstance(candidate, RankedGemm) else _loop(candidate, solver.bytes)
        table.add_row(str(rank), *row, _losses(candidate, ranked[0]) if rank > 1 else "")
    return table


def _product(ranked: RankedGemm, flops: int) -> tuple[str, ...]:
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


def _loop(ranked: RankedCandidate, least_bytes: int) -> tuple[str, ...]:
    return (
        *(str(value) for _, value in ranked.candidate.choices),
        f"{ranked.time_us:.1f}",
        f"{least_bytes / ranked.time_us / 1e6:.2f}" if ranked.time_us else "",
        ranked.bound_by,
        f"{ranked.ctas:,}",
        str(ranked.waves),
        f"{ranked.wave_efficiency:.0%}",
        str(ranked.candidate.number("access_bytes")),
    )


def _losses(ranked: RankedCandidate, first: RankedCandidate) -> str:
    """Return the largest differences in time from the first."""
    differences = behind(ranked, first)
    if not differences:
        return "equal time: a tie, broken by the order of ties"
    shown = sorted(differences, key=lambda item: -abs(item[1]))[:2]
    return ", ".join(f"{time:+.1f} {name}" for name, time in shown)
