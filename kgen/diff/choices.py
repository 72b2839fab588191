"""Why a variant's choice is not the other side's: that choice judged on this side, by its rules and its cost model."""

from collections.abc import Mapping, Sequence
from itertools import islice

from kgen.diff.figures import Figure, with_figures
from kgen.diff.reasons import Cause, Fed, Judged, Reason
from kgen.errors.rules import NoLegalCandidateError
from kgen.planning.candidates import RankedGemm
from kgen.planning.choice import RankedCandidate
from kgen.planning.fixed import rules_of
from kgen.planning.loops import CLUSTER_GAIN, STAGED_GAIN
from kgen.planning.plan import Variant
from kgen.planning.solver import Solver, solver_of_variant
from kgen.rules.explain import RuleCheck
from kgen.rules.model import Value
from kgen.rules.printer import print_domain
from kgen.solution import behind
from kgen.target import Device

Choice = Mapping[str, Value]
_TIME = "predicted time"  # how the preferences for less time begin
_GAP_RESOLUTION_US = 0.001
_SHOWN_RULES = 3


def judge(choice: Choice, variant: Variant, device: Device, whose: str) -> Reason:
    """Return why a variant of a plan on a device has not that choice; `whose` says whose choice it is, e.g. "A's"."""
    unknown, lacking, point = _known_axes(choice, variant, device)
    solver = solver_of_variant(variant, device)
    reason = _judged(point, variant, solver, f"{whose} choice on {device.name}")
    if not (unknown or lacking):
        return reason
    parts = [f"{device.arch.isa} has no {', '.join(unknown)}"] if unknown else []
    parts += [f"{whose} choice has no {', '.join(lacking)}"] if lacking else []
    text = f"{'; '.join(parts)}; what both have: {reason.text}"
    return Reason(Cause.AXIS, text, reason.rules, reason.judged)


def _known_axes(choice: Choice, variant: Variant, device: Device) -> tuple[list[str], list[str], dict[str, Value]]:
    """Return what the rules of a device have not of a choice, in words, which axes it lacks, and what both have."""
    rules = rules_of(variant.family, device.arch)
    unknown, point = [], dict[str, Value]()
    for name, value in choice.items():
        axis = rules.axis(name)
        if axis is None:
            unknown.append(name)
        elif value not in axis.domain.values:
            unknown.append(f"{name} = {value} ({print_domain(axis.domain)}, {axis.file}:{axis.axis.span.line})")
        else:
            point[name] = value
    lacking = [axis.name for axis in rules.axes if axis.name not in choice]
    return unknown, lacking, point


def _judged(point: Choice, variant: Variant, solver: Solver, what: str) -> Reason:
    explanation = solver.explain(point)
    if not explanation.legal:
        broken = explanation.broken
        return Reason(Cause.RULE, f"{what} breaks {_rules_text(broken)}", rules=broken)
    fixed, made, full = dict(variant.fixed), variant.choice, dict(explanation.point)
    (ranked,) = solver.solve(full, 1).ranked
    if full == dict(made.candidate.choices):
        return _same_choice(made, what)
    held = {axis: value for axis, value in fixed.items() if full[axis] != value}
    if held:
        names = ", ".join(f"{axis} = {value}" for axis, value in held.items())
        judged = Judged(solver.rank({}, full), ranked.time_us, made.time_us, behind(ranked, made))
        return Reason(Cause.HELD, f"{names}: decided for all variants of the kernel; {what} is {judged}", judged=judged)
    return _ordered_reason(full, variant, solver, ranked, what)


def _ordered_reason(full: Choice, variant: Variant, solver: Solver, ranked: RankedCandidate, what: str) -> Reason:
    made = variant.choice
    ordered = solver.ordered(dict(variant.fixed))
    mine, first = ordered.row_of(full), ordered.row_of(dict(made.candidate.choices))
    assert mine is not None and first is not None
    rank = next(i for i, row in enumerate(ordered.rows, 1) if row == mine)
    judged = Judged(rank, ranked.time_us, made.time_us, behind(ranked, made))
    decisive = ordered.decisive(mine, first)
    if decisive is not None and decisive.name.startswith(_TIME) and judged.gap_us > 0:
        return Reason(Cause.TERM, f"{what} is rank {rank}: {judged}", judged=judged)
    if decisive is None:
        by = "as fast as the model can tell, and later in the order of the axes"
    else:
        values = f"{decisive.shown(mine):g} against {decisive.shown(first):g}"
        by = f"as fast as the model can tell, and {decisive.name} decide, {values}"
        if decisive.name == _TIME:
            by = f"but a cluster has to be {CLUSTER_GAIN:.0%} faster, staging in smem {STAGED_GAIN:.0%}"
    return Reason(Cause.PREFERENCE, f"{what} is rank {rank}: {judged}, {by}", judged=judged)


def _same_choice(made: RankedCandidate, what: str) -> Reason:
    """Return what is left to differ where the choices do not: of a product, the order of its tiles.

    It follows from the choice and the device's caches.
    """
    text = f"{what} is the one made"
    if isinstance(made, RankedGemm):
        read = f"memory takes {made.term('memory'):.2f} us of each tile"
        text = f"{text}; tiles {made.raster} read the fewest bytes past the L2 there: {read}"
    return Reason(Cause.ORDER, text)


def _rules_text(broken: Sequence[RuleCheck]) -> str:
    parts = []
    for check in islice(broken, _SHOWN_RULES):
        sides = "; ".join(f"{s.text}: {s.left} against {s.right}" for s in check.sides if not s.holds)
        parts.append(f"{check.rule} ({check.place}: {check.because}){', ' if sides else ''}{sides}")
    more = len(broken) - _SHOWN_RULES
    return "; and ".join(parts) + (f"; and {more} more rules" if more > 0 else "")


def fed_by(
    choice: Choice, variant: Variant, device: Device, other: Device, figures: Sequence[Figure]
) -> tuple[Fed, ...]:
    """Return the figures on which the gap hangs by which a choice loses on a device, the furthest-reaching first.

    Each is put in with its value of the `other` device, alone.
    """
    now = _gap(choice, variant, device)
    found = []
    for figure in figures:
        then = _gap(choice, variant, with_figures(device, other, (figure.name,)))
        if now is None or then is None or abs(then - now) >= _GAP_RESOLUTION_US:
            found.append(Fed(figure, then))
    return tuple(sorted(found, key=lambda fed: -abs((fed.gap_us or 0.0) - (now or 0.0))))


def _gap(choice: Choice, variant: Variant, device: Device) -> float | None:
    """Return how much slower a choice is than the one that was made, in microseconds; None where one is not legal."""
    solver = solver_of_variant(variant, device)
    try:
        (theirs,), (made,) = (
            solver.solve(point, 1).ranked for point in (choice, dict(variant.choice.candidate.choices))
        )
    except NoLegalCandidateError:
        return None
    return round(theirs.time_us - made.time_us, 3)
