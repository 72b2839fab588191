"""LoopForms -> variants of one kernel: the aligned one, and one for any base address where that needs another."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace

from kgen.families.strided.caching import Eviction, evictions_of
from kgen.families.strided.facts import MAX_ACCESS_BYTES, LoopFacts, facts_of, width_of
from kgen.families.strided.form import Access, Layout, LoopForm
from kgen.planning.choice import Candidate
from kgen.planning.loops import solve_loop
from kgen.planning.plan import RUNNERS_UP, Guard, Plan, Variant
from kgen.rules.model import Value
from kgen.target import Device

# Of the time, what starting CTAs may take where they start early, and wait. On H200 a million CTAs of 64 threads, whose
# start is 0.6 of it, took a quarter longer, 32,768 of 256 threads 0.5 % less.
EARLY_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class LoopVariant(Variant):
    """A variant of a loop kernel.

    `base_align` is what its accesses assume of base addresses, in bytes; `evictions` what the L2 is told of its loads.
    """

    form: LoopForm
    facts: LoopFacts
    base_align: int
    evictions: tuple[tuple[Access, Eviction], ...]

    @property
    def schedule(self) -> str:
        """Which kernel text serves it."""
        return _schedule_of(self.choice.candidate)

    @property
    def starts_early(self) -> bool:
        """Whether it is launched before the kernel before it has ended; nobody measured that of pointwise kernels."""
        starting = dict(self.choice.terms)["ctas"]
        return self.form.layout is not Layout.FLAT and starting <= EARLY_SHARE * self.choice.time_us

    @property
    def ahead(self) -> int:
        """How many vectors of what rows share are loaded before they are needed; 0 where rules have no such axis."""
        return int(dict(self.choice.candidate.choices).get("ahead", 0))


def loop_variants(plan: Plan) -> tuple[LoopVariant, ...]:
    """Return the variants of a plan's loop kernels."""
    return tuple(v for v in plan.variants if isinstance(v, LoopVariant))


def plan_loop(
    case: str,
    kernel: str,
    form: LoopForm,
    device: Device,
    fixed: Mapping[str, Value],
    base_align: int,
    allocated: Set[str] = frozenset(),
    later: Set[str] = frozenset(),
) -> tuple[LoopVariant, ...]:
    """Return the variants of one loop kernel in one case.

    The host function allocates the `allocated` tensors; kernels after this one read the `later` tensors.
    """
    form = replace(form, given=tuple(t for t in form.given if t not in allocated))
    aligned = _variant(case, kernel, form, device, fixed, MAX_ACCESS_BYTES, later)
    if base_align >= MAX_ACCESS_BYTES or not aligned.guard.base_align:
        return (aligned,)
    if form.is_empty:
        return (_variant(case, kernel, form, device, fixed, base_align, later),)
    open_axes = {axis: value for axis, value in fixed.items() if axis != "vec" and value != "staged"}  # of alignment
    return (aligned, _variant(case, kernel, form, device, open_axes, base_align, later))


def _variant(
    case: str,
    kernel: str,
    form: LoopForm,
    device: Device,
    fixed: Mapping[str, Value],
    base_align: int,
    later: Set[str],
) -> LoopVariant:
    facts = facts_of(form, base_align)
    candidates = solve_loop(form.family, facts, device, fixed=fixed, top=RUNNERS_UP + 1)
    choice, *others = candidates.ranked
    wide = base_align >= MAX_ACCESS_BYTES
    vec = choice.candidate.number("vec")
    given = (a for a in (*form.loads, *form.stores) if a.tensor in form.given)
    guarded = dict.fromkeys(a.tensor for a in given if width_of(a, form, vec, base_align) > 1)
    schedule = _schedule_of(choice.candidate)
    return LoopVariant(
        name=f"{case}_{schedule}{'' if wide and guarded else '_any'}",
        case=case,
        kernel=kernel,
        guard=Guard(tuple((tensor, MAX_ACCESS_BYTES) for tensor in guarded)) if wide else Guard(()),
        form=form,
        facts=facts,
        choice=choice,
        runners_up=tuple(others),
        candidates=candidates,
        fixed=tuple(fixed.items()),
        base_align=base_align,
        evictions=evictions_of(form, facts, device, schedule, vec, base_align, later),
    )


def _schedule_of(candidate: Candidate) -> str:
    return str(dict(candidate.choices).get("schedule", "flat"))
