"""What can be asked of one kernel on one device, whatever its family: its candidates, a point explained, its rank."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from kgen.families.attention.facts import facts_of as attention_facts
from kgen.families.attention.form import AttentionForm
from kgen.families.classify import Form
from kgen.families.gemm.facts import MAX_ALIGN_BYTES
from kgen.families.gemm.facts import facts_of as gemm_facts
from kgen.families.gemm.form import GemmForm
from kgen.families.gemm.rules_facts import GemmFacts
from kgen.families.strided.facts import MAX_ACCESS_BYTES
from kgen.families.strided.facts import facts_of as loop_facts
from kgen.families.strided.form import LoopForm
from kgen.planning.attention import explain_attention, legal_attentions, ordered_attentions, solve_attention
from kgen.planning.candidates import explain_gemm, legal_set, solve_gemm
from kgen.planning.choice import Candidates
from kgen.planning.loops import explain_loop, legal_loops, ordered_loops, solve_loop
from kgen.planning.plan import Facts
from kgen.planning.rank import rank_gemm
from kgen.rules.explain import Explanation
from kgen.rules.model import Value
from kgen.rules.solve import LegalSet
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
    ordered: Callable[[Point], tuple[LegalSet, np.ndarray]]  # fixed axes -> the legal set, and its rows best first

    def rank(self, fixed: Point, point: Point) -> int:
        """Return the rank, from 1, of a legal point that gives every axis, among all candidates with the fixed axes."""
        legal, order = self.ordered(fixed)
        return next(i for i, row in enumerate(order, 1) if dict(legal.point(int(row))) == dict(point))


def solver_of(form: Form, device: Device) -> Solver:
    """Return what answers for a kernel whose tensors lie at aligned addresses."""
    if isinstance(form, GemmForm):
        return gemm_solver(gemm_facts(form, MAX_ALIGN_BYTES), device, form.bytes)
    if isinstance(form, AttentionForm):
        return _attention_solver(form, device)
    return _loop_solver(form, device)


def gemm_solver(facts: GemmFacts, device: Device, least_bytes: int) -> Solver:
    """Return what answers for a product."""

    def ordered(fixed: Point) -> tuple[LegalSet, np.ndarray]:
        legal = legal_set(facts, device, fixed=fixed)
        return legal, rank_gemm(legal.columns, facts, device).order

    return Solver(
        family="gemm",
        facts=facts,
        flops=2 * facts.m * facts.n * facts.k * facts.batch,
        bytes=least_bytes,
        solve=lambda fixed, top: solve_gemm(facts, device, fixed=fixed, top=top),
        explain=lambda point: explain_gemm(facts, device, point),
        ordered=ordered,
    )


def _attention_solver(form: AttentionForm, device: Device) -> Solver:
    facts = attention_facts(form, MAX_ALIGN_BYTES)

    def ordered(fixed: Point) -> tuple[LegalSet, np.ndarray]:
        legal = legal_attentions(facts, device, fixed=fixed)
        return legal, ordered_attentions(legal, facts, device)[1]

    return Solver(
        family="attention",
        facts=facts,
        flops=form.flops,
        bytes=form.bytes,
        solve=lambda fixed, top: solve_attention(facts, device, fixed=fixed, top=top),
        explain=lambda point: explain_attention(facts, device, point),
        ordered=ordered,
    )


def _loop_solver(form: LoopForm, device: Device) -> Solver:
    family, facts = form.family, loop_facts(form, MAX_ACCESS_BYTES)

    def ordered(fixed: Point) -> tuple[LegalSet, np.ndarray]:
        legal = legal_loops(family, facts, device, fixed=fixed)
        return legal, ordered_loops(legal, facts, device)[1]

    return Solver(
        family=family,
        facts=facts,
        flops=form.flops,
        bytes=form.bytes,
        solve=lambda fixed, top: solve_loop(family, facts, device, fixed=fixed, top=top),
        explain=lambda point: explain_loop(family, facts, device, point),
        ordered=ordered,
    )
