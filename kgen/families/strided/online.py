"""Problem -> Problem: a sum of exponentials about the largest value needs no pass of its own for that value.

Runs before the kernels of a program are cut: what was two phases, the maximum and then the sum, becomes one, in which
threads keep both and rescale the sum when the maximum grows.
"""

from collections.abc import Mapping
from dataclasses import replace

from kgen.ir.pointwise import PointwiseOp
from kgen.ir.problem import Combine, Map, Problem, Reduce, Statement, Store, operands_of


def online(problem: Problem) -> Problem:
    """Return the problem with every `sum(exp(x - max(x)))` as one reduction, and without what nothing needs."""
    defined = problem.definitions()
    body = tuple(part for s in problem.body for part in (_joined(s, defined) if isinstance(s, Reduce) else (s,)))
    return problem if body == problem.body else replace(problem, body=_live(body))


def _joined(s: Reduce, defined: Mapping[str, Statement]) -> tuple[Statement, ...]:
    """Return the sum as a SUMEXP of what the exponents are of, where the maximum over the same axes is taken off.

    `logsumexp` takes 0 off where the maximum is infinite: there the sum is its exponential.
    """
    exponent = _operands(defined.get(s.operand), PointwiseOp.EXP)
    taken = _operands(defined.get(exponent[0]), PointwiseOp.SUB) if exponent else ()
    if s.combine is not Combine.SUM or len(taken) != 2:
        return (s,)
    value, largest = taken
    chosen = _operands(defined.get(largest), PointwiseOp.WHERE)
    if not chosen:
        return (replace(s, combine=Combine.SUMEXP, operand=value),) if _is_max(defined.get(largest), value, s) else (s,)
    is_finite, largest = chosen
    if not _is_max(defined.get(largest), value, s):
        return (s,)
    finite, infinite = f"{s.result}_finite", f"{s.result}_infinite"
    return (
        replace(s, combine=Combine.SUMEXP, operand=value, result=finite),
        Map(infinite, PointwiseOp.EXP, (largest,), s.dtype),
        Map(s.result, PointwiseOp.WHERE, (is_finite, finite, infinite), s.dtype),
    )


def _operands(s: Statement | None, op: PointwiseOp) -> tuple[str, ...]:
    """Return the values that an operation takes, or nothing where the statement is another one."""
    return operands_of(s) if isinstance(s, Map) and s.op is op else ()


def _is_max(s: Statement | None, value: str, total: Reduce) -> bool:
    """Whether a statement is the largest of a value over the axes of a sum."""
    return isinstance(s, Reduce) and (s.combine, s.operand, s.axes) == (Combine.MAX, value, total.axes)


def _live(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """Return the statements that a store needs."""
    wanted: set[str] = set()
    kept: list[Statement] = []
    for s in reversed(body):
        if isinstance(s, Store) or s.result in wanted:
            kept.append(s)
            wanted.update(operands_of(s))
    return tuple(reversed(kept))
