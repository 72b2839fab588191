"""AttentionForms -> variants: one a case, which asks the host for base addresses that bulk copies can take."""

from collections.abc import Mapping
from dataclasses import dataclass

from kgen.families.attention.balance import walk_of
from kgen.families.attention.facts import MAX_ALIGN_BYTES, facts_of
from kgen.families.attention.form import AttentionForm
from kgen.families.attention.rules_facts import AttentionFacts
from kgen.planning.attention import solve_attention
from kgen.planning.choice import Candidates, RankedCandidate
from kgen.planning.plan import RUNNERS_UP, Guard, Plan, Variant
from kgen.rules.model import Value
from kgen.target import Device


@dataclass(frozen=True, slots=True)
class AttentionVariant(Variant):
    """A variant of an attention kernel; `section` is how many heads of K and V walk side by side."""

    form: AttentionForm
    facts: AttentionFacts
    choice: RankedCandidate
    runners_up: tuple[RankedCandidate, ...]
    candidates: Candidates
    section: int


@dataclass(frozen=True, slots=True)
class AttentionPlan(Plan):
    """The attention variants of a plan."""

    variants: tuple[AttentionVariant, ...]


def attention_plan(plan: Plan) -> AttentionPlan:
    """Return a plan with its attention variants alone."""
    variants = tuple(v for v in plan.variants if isinstance(v, AttentionVariant))
    return AttentionPlan(plan.name, plan.device, variants, plan.cut)


def plan_attention(
    case: str, kernel: str, form: AttentionForm, device: Device, fixed: Mapping[str, Value], made: frozenset[str]
) -> AttentionVariant:
    """Return the variant of an attention in one case; `made` names the tensors that the host function allocates.

    Raises `NoLegalCandidateError` with the rules that reject all candidates.
    """
    facts = facts_of(form, MAX_ALIGN_BYTES)
    candidates = solve_attention(facts, device, fixed=fixed, top=RUNNERS_UP + 1)
    choice, *others = candidates.ranked
    tile = (choice.candidate.number("tile_m"), choice.candidate.number("tile_n"))
    given = (t for t in dict.fromkeys((form.q.tensor, form.k.tensor, form.v.tensor)) if t not in made)
    return AttentionVariant(
        name=f"{case}_{choice.candidate.value('load_path')}",
        case=case,
        kernel=kernel,
        guard=Guard(tuple((tensor, MAX_ALIGN_BYTES) for tensor in given)),
        form=form,
        facts=facts,
        choice=choice,
        runners_up=tuple(others),
        candidates=candidates,
        fixed=tuple(fixed.items()),
        section=walk_of(facts, device, *tile, persistent=bool(choice.candidate.number("persistent"))).section,
    )
