"""Problem -> the form of the family that it belongs to: what the body holds decides."""

from kgen.families.gemm.classify import classify_gemm
from kgen.families.gemm.form import GemmForm
from kgen.families.gemm.rules import narrow_products
from kgen.families.strided.classify import classify_loop
from kgen.families.strided.form import LoopForm
from kgen.ir.problem import Contract, Problem
from kgen.target import Device


def classify(problem: Problem, device: Device) -> GemmForm | LoopForm:
    """Return the form of a Problem. Raises an `UnsupportedError` naming what stands in the way of its family.

    A product of widened values is one of the narrow ones where the device multiplies those.
    """
    if any(isinstance(s, Contract) for s in problem.body):
        return classify_gemm(problem, narrow_products(device))
    return classify_loop(problem)
