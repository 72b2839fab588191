"""Problem -> the form of the family that it belongs to: what the body holds decides."""

from kgen.families.gemm.classify import classify_gemm
from kgen.families.gemm.form import GemmForm
from kgen.families.strided.classify import classify_loop
from kgen.families.strided.form import LoopForm
from kgen.ir.problem import Contract, Problem


def classify(problem: Problem) -> GemmForm | LoopForm:
    """Return the form of a Problem. Raises an `UnsupportedError` naming what stands in the way of its family."""
    if any(isinstance(s, Contract) for s in problem.body):
        return classify_gemm(problem)
    return classify_loop(problem)
