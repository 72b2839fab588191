"""The table of ranked candidates of one kernel, with the columns of its family."""

from rich.table import Table

from kgen.planning.attention import RankedAttention
from kgen.planning.candidates import RankedGemm
from kgen.planning.choice import RankedCandidate
from kgen.solution import Solution, behind

# The columns of a product's choices: title and axes, whose values are joined by "x". A target has those of its axes.
_CHOICES = (
    ("stages", ("stages",)),
    ("cluster", ("cluster_m", "cluster_n")),
    ("warp groups", ("wg_m", "wg_n")),
    ("warps", ("warps_m", "warps_n")),
    ("MFMA", ("mma",)),
    ("parts of k", ("split_k",)),
    ("loads", ("load_path",)),
    ("stores", ("store_path",)),
)
_OF_TIME = ("us", "TFLOP/s", "bound by", "waves", "full", "inside D")
_OF_CTA = ("smem bytes", "acc regs", "behind the first by")
_OF_LOOP = ("us", "TB/s", "bound by", "CTAs", "waves", "full", "access bytes", "behind the first by")
_OF_ATTENTION = ("us", "TFLOP/s", "TB/s", "bound by", "CTAs", "full", "smem bytes", "behind the first by")


def ranking(solution: Solution) -> Table:
    """Return the ranked candidates, a row each."""
    ranked, solver = solution.candidates.ranked, solution.question.solver
    if isinstance(ranked[0], RankedGemm):
        titles = [title for title, _ in _choices(ranked[0])]
        table = Table("", "tile", *titles, *_OF_TIME, *_OF_CTA, title="ranked", title_justify="left")
    else:
        axes = [axis for axis, _ in ranked[0].candidate.choices]
        columns = _OF_ATTENTION if isinstance(ranked[0], RankedAttention) else _OF_LOOP
        table = Table("", *axes, *columns, title="ranked", title_justify="left")
    for rank, candidate in enumerate(ranked, 1):
        row = _row(candidate, solver.flops, solver.bytes)
        table.add_row(str(rank), *row, _losses(candidate, ranked[0]) if rank > 1 else "")
    return table


def _row(ranked: RankedCandidate, flops: int, least_bytes: int) -> tuple[str, ...]:
    if isinstance(ranked, RankedGemm):
        return _product(ranked, flops)
    if isinstance(ranked, RankedAttention):
        return _attention(ranked, flops, least_bytes)
    return _loop(ranked, least_bytes)


def _choices(ranked: RankedGemm) -> tuple[tuple[str, str], ...]:
    """Return title and text of the columns of choices that the candidate's target has."""
    chosen = dict(ranked.candidate.choices)
    held = [(title, axes) for title, axes in _CHOICES if axes[0] in chosen]
    return tuple((title, "x".join(str(chosen[axis]) for axis in axes)) for title, axes in held)


def _product(ranked: RankedGemm, flops: int) -> tuple[str, ...]:
    c = ranked.candidate
    return (
        str(c.size),
        *(text for _, text in _choices(ranked)),
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


def _attention(ranked: RankedAttention, flops: int, least_bytes: int) -> tuple[str, ...]:
    return (
        *(str(value) for _, value in ranked.candidate.choices),
        f"{ranked.time_us:.1f}",
        f"{flops / ranked.time_us / 1e6:.0f}",
        f"{least_bytes / ranked.time_us / 1e6:.2f}",
        ranked.bound_by,
        f"{ranked.ctas:,}",
        f"{ranked.wave_efficiency:.0%}",
        f"{ranked.candidate.number('smem_bytes'):,}",
    )


def _losses(ranked: RankedCandidate, first: RankedCandidate) -> str:
    """Return the largest differences in time from the first."""
    differences = behind(ranked, first)
    if not differences:
        return "equal time: a tie, broken by the order of ties"
    shown = sorted(differences, key=lambda item: -abs(item[1]))[:2]
    return ", ".join(f"{time:+.1f} {name}" for name, time in shown)
