"""AttentionForms -> variants: one a case, which asks the host for base addresses that bulk copies can take.

A kernel is one text in all its cases: tiles of queries that see their keys, or few rows, a CTA for each head and part
of their keys. Where cases differ in that, tiles of queries serve all of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kgen.families.attention.balance import walk_of
from kgen.families.attention.facts import MAX_ALIGN_BYTES, facts_of
from kgen.families.attention.form import AttentionForm
from kgen.families.attention.rules_facts import AttentionFacts
from kgen.ir.dtype import DType
from kgen.ir.tensor import TensorType
from kgen.planning.attention import solve_attention
from kgen.planning.choice import Candidates, RankedCandidate
from kgen.planning.plan import RUNNERS_UP, Guard, Plan, Variant
from kgen.rules.model import Value
from kgen.target import Device


@dataclass(frozen=True, slots=True)
class AttentionVariant(Variant):
    """A variant of an attention kernel; `section` is how many heads of K and V walk side by side.

    `combined`: parts of the keys go to a second kernel, in this case or in another one of the same kernel.
    """

    form: AttentionForm
    facts: AttentionFacts
    choice: RankedCandidate
    runners_up: tuple[RankedCandidate, ...]
    candidates: Candidates
    section: int
    combined: bool = False

    @property
    def few_rows(self) -> bool:
        """Whether all rows that share keys are one tile, as in decoding."""
        return self.choice.candidate.value("store_path") == "direct"

    @property
    def splits(self) -> int:
        """In how many parts the keys are dealt."""
        return self.choice.candidate.number("splits")

    @property
    def ranges_keys(self) -> bool:
        """Whether a kernel before this one finds the keys of each row block by the numbers of their sequences.

        Where a number in memory bounds the keys, tiles stop at that one alone.
        """
        return not self.few_rows and self.form.sequences is not None and self.form.length is None

    @property
    def workspace(self) -> Mapping[str, TensorType]:
        """What its kernels leave to one another.

        Splits leave `parts`, rows of O for each part of each head, and `sums`, log2 of their sums; `ranges` are the
        first key of a row block and the one behind its last, and the same of those that need no mask.
        """
        found: dict[str, TensorType] = {}
        if self.combined:
            shape = (self.splits * self.form.batch_count, self.form.m * self.form.ratio)
            found["parts"] = TensorType.contiguous(DType.FP32, (*shape, self.form.dv))
            found["sums"] = TensorType.contiguous(DType.FP32, shape)
        if self.ranges_keys:
            row_blocks = -(-self.form.m // self.choice.candidate.number("tile_m"))
            found["ranges"] = TensorType.contiguous(DType.INT32, (max(row_blocks, 1), 4))
        return found


@dataclass(frozen=True, slots=True)
class AttentionPlan(Plan):
    """The attention variants of a plan."""

    variants: tuple[AttentionVariant, ...]


def attention_plan(plan: Plan) -> AttentionPlan:
    """Return a plan with its attention variants alone."""
    variants = tuple(v for v in plan.variants if isinstance(v, AttentionVariant))
    return AttentionPlan(plan.name, plan.device, variants, plan.cut)


def plan_attentions(
    kernel: str,
    forms: Mapping[str, AttentionForm],
    device: Device,
    fixed: Mapping[str, Mapping[str, Value]],
    made: frozenset[str],
) -> tuple[AttentionVariant, ...]:
    """Return the variants of one kernel by case; `made` names the tensors that the host function allocates.

    Raises `NoLegalCandidateError` with the rules that reject all candidates of a case.
    """
    found = [plan_attention(case, kernel, form, device, fixed[case], made) for case, form in forms.items()]
    if len({(v.few_rows, v.choice.candidate.number("pack_gqa")) for v in found}) > 1:
        tiled = {case: {"store_path": "tma", **fixed[case]} for case in forms}
        found = [plan_attention(case, kernel, form, device, tiled[case], made) for case, form in forms.items()]
    return tuple(replace(v, combined=any(o.splits > 1 for o in found)) for v in found)


def plan_attention(
    case: str, kernel: str, form: AttentionForm, device: Device, fixed: Mapping[str, Value], made: frozenset[str]
) -> AttentionVariant:
    """Return the variant of an attention in one case. Raises `NoLegalCandidateError`."""
    facts = facts_of(form, MAX_ALIGN_BYTES)
    candidates = solve_attention(facts, device, fixed=fixed, top=RUNNERS_UP + 1)
    choice, *others = candidates.ranked
    tile = (choice.candidate.number("tile_m"), choice.candidate.number("tile_n"))
    few_rows = choice.candidate.value("store_path") == "direct"
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
        section=(form.batch or (1,))[-1] if few_rows else walk_of(facts, device, *tile).section,
    )
