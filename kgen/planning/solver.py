"""What can be asked of one kernel on one device, whatever its family: its candidates, a point explained, its rank."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kgen.families.attention.cost import attention_time
from kgen.families.attention.facts import facts_of as attention_facts
from kgen.families.attention.form import AttentionForm
from kgen.families.attention.rules_facts import AttentionFacts
from kgen.families.classify import Form
from kgen.families.gemm.facts import MAX_ALIGN_BYTES
from kgen.families.gemm.facts import facts_of as gemm_facts
from kgen.families.gemm.form import GemmForm
from kgen.families.gemm.rules_facts import GemmFacts
from kgen.families.strided.cost import loop_time
from kgen.families.strided.facts import MAX_ACCESS_BYTES, LoopFacts
from kgen.families.strided.facts import facts_of as loop_facts
from kgen.planning.attention import attention_preferences, explain_attention, legal_attentions, solve_attention
from kgen.planning.candidates import explain_gemm, legal_set, solve_gemm
from kgen.planning.choice import Candidates, Ordered
from kgen.planning.loops import explain_loop, legal_loops, loop_preferences, solve_loop
from kgen.planning.plan import Facts, Variant
from kgen.planning.rank import rank_gemm
from kgen.rules.explain import Explanation
from kgen.rules.model import Value
from kgen.target import Device

Point = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Solver:
    """One kernel on one device: `flops` and `bytes` are its least work, `facts` those of aligned base addresses.

    `solve` takes fixed axes and how many candidates to list (None: all). `explain` takes a point that may leave axes
    open. Both raise `NoLegalCandidateError`.
    """

    family: str
    facts: Facts
    flops: int
    bytes: int
    solve: Callable[[Point, int | None], Candidates]
    explain: Callable[[Point], Explanation]
    ordered: Callable[[Point], Ordered]  # fixed axes -> the legal set, with what orders it

    def rank(self, fixed: Point, point: Point) -> int:
        """Return the rank, from 1, of a legal point that gives every axis, among all candidates with the fixed axes."""
        found = self.ordered(fixed)
        row = found.row_of(point)
        return next(i for i, each in enumerate(found.rows, 1) if each == row)


def solver_of(form: Form, device: Device) -> Solver:
    """Return what answers for a kernel whose tensors lie at aligned addresses."""
    if isinstance(form, GemmForm):
        return gemm_solver(gemm_facts(form, MAX_ALIGN_BYTES), device, form.bytes)
    if isinstance(form, AttentionForm):
        return attention_solver(attention_facts(form, MAX_ALIGN_BYTES), device, (form.flops, form.bytes))
    return loop_solver(form.family, loop_facts(form, MAX_ACCESS_BYTES), device, (form.flops, form.bytes))


def solver_of_variant(variant: Variant, device: Device) -> Solver:
    """Return what answers for a variant of a plan, with the base addresses that its guard lets in, on any device."""
    form, facts = variant.form, variant.facts
    if isinstance(facts, GemmFacts):
        return gemm_solver(facts, device, form.bytes)
    if isinstance(facts, AttentionFacts):
        return attention_solver(facts, device, (form.flops, form.bytes))
    assert isinstance(facts, LoopFacts)
    return loop_solver(form.family, facts, device, (form.flops, form.bytes))


def gemm_solver(facts: GemmFacts, device: Device, least_bytes: int) -> Solver:
    """Return what answers for a product."""

    def ordered(fixed: Point) -> Ordered:
        legal = legal_set(facts, device, fixed=fixed)
        return Ordered(legal, rank_gemm(legal.columns, facts, device).preferences)

    return Solver(
        family="gemm",
        facts=facts,
        flops=2 * facts.m * facts.n * facts.k * facts.batch,
        bytes=least_bytes,
        solve=lambda fixed, top: solve_gemm(facts, device, fixed=fixed, top=top),
        explain=lambda point: explain_gemm(facts, device, point),
        ordered=ordered,
    )


def attention_solver(facts: AttentionFacts, device: Device, work: tuple[int, int]) -> Solver:
    """Return what answers for an attention; `work` are its least flops and bytes."""

    def ordered(fixed: Point) -> Ordered:
        legal = legal_attentions(facts, device, fixed=fixed)
        return Ordered(legal, attention_preferences(legal.columns, attention_time(legal.columns, facts, device)))

    return Solver(
        family="attention",
        facts=facts,
        flops=work[0],
        bytes=work[1],
        solve=lambda fixed, top: solve_attention(facts, device, fixed=fixed, top=top),
        explain=lambda point: explain_attention(facts, device, point),
        ordered=ordered,
    )


def loop_solver(family: str, facts: LoopFacts, device: Device, work: tuple[int, int]) -> Solver:
    """Return what answers for a loop kernel; `work` are its least flops and bytes."""

    def ordered(fixed: Point) -> Ordered:
        legal = legal_loops(family, facts, device, fixed=fixed)
        columns = legal.named
        return Ordered(legal, loop_preferences(columns, loop_time(columns, facts, device)))

    return Solver(
        family=family,
        facts=facts,
        flops=work[0],
        bytes=work[1],
        solve=lambda fixed, top: solve_loop(family, facts, device, fixed=fixed, top=top),
        explain=lambda point: explain_loop(family, facts, device, point),
        ordered=ordered,
    )
