"""How long one kernel is predicted to take: what programs, cuts and ways to say a product are compared by."""

from functools import lru_cache

from kgen.errors.rules import NoLegalCandidateError
from kgen.families.classify import Form
from kgen.families.gemm import facts as gemm_facts
from kgen.families.gemm.form import GemmForm
from kgen.families.gemm.rules_facts import GemmFacts
from kgen.families.strided import facts as loop_facts
from kgen.families.strided.facts import LoopFacts
from kgen.families.strided.form import LoopForm
from kgen.planning.candidates import solve_gemm
from kgen.planning.loops import solve_loop
from kgen.target import Device

INFINITE = float("inf")


def kernel_us(form: Form, device: Device) -> float:
    """Return the microseconds of a kernel's first candidate on aligned operands, infinite where none is legal.

    Attentions are compared by nobody, and take none.
    """
    match form:
        case GemmForm():
            return _product_us(gemm_facts.facts_of(form, gemm_facts.MAX_ALIGN_BYTES), device)
        case LoopForm():
            return _loop_us(form.family, loop_facts.facts_of(form, loop_facts.MAX_ACCESS_BYTES), device)
    return 0.0


@lru_cache(maxsize=256)
def _product_us(facts: GemmFacts, device: Device) -> float:
    try:
        return solve_gemm(facts, device, top=1).ranked[0].time_us
    except NoLegalCandidateError:
        return INFINITE


@lru_cache(maxsize=256)  # pieces of one program often have equal facts, and so have the cases of a spec
def _loop_us(family: str, facts: LoopFacts, device: Device) -> float:
    try:
        return solve_loop(family, facts, device, top=1).ranked[0].time_us
    except NoLegalCandidateError:
        return INFINITE
