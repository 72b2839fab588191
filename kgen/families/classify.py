"""Problem -> the form of the family that it belongs to: what the body holds decides."""

from kgen.families.attention.classify import classify_attention
from kgen.families.attention.form import AttentionForm
from kgen.families.gemm.classify import classify_gemm
from kgen.families.gemm.form import GemmForm
from kgen.families.gemm.rules import multiplies_tf32, narrow_products
from kgen.families.strided.classify import classify_loop
from kgen.families.strided.form import LoopForm
from kgen.ir.attention import holds_two_products
from kgen.ir.problem import Contract, Problem
from kgen.target import Device

Form = GemmForm | LoopForm | AttentionForm


def classify(problem: Problem, device: Device) -> Form:
    """Return the form of a Problem. Raises an `UnsupportedError` naming what stands in the way of its family.

    A product of widened values is one of the narrow ones where the device multiplies those.
    """
    if holds_two_products(problem):
        return classify_attention(problem)
    if any(isinstance(s, Contract) for s in problem.body):
        return classify_gemm(problem, narrow_products(device), has_tf32=multiplies_tf32(device))
    return classify_loop(problem)
