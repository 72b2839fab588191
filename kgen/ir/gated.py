"""Gates in a Problem: one value, made by pointwise operations of two contractions that share an operand."""

from kgen.ir.grouped import without_groups
from kgen.ir.problem import Contract, Problem, Reduce


def is_gated(problem: Problem) -> bool:
    """Return whether a body has the two contractions of a gate: nothing is reduced besides."""
    body = without_groups(problem).body
    reduces = any(isinstance(s, Reduce) for s in body)
    return not reduces and sum(isinstance(s, Contract) for s in body) == 2
