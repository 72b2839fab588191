"""Scaled operands in a Problem: narrow elements times factors that are constant over runs of the contracted axes.

    (x[m, k] * sx[m, k // 128]) . (w[n, k] * sw[n // 128, k // 128])

A factor that does not vary along an innermost contracted axis can be taken out of the sum over that axis.
"""

from dataclasses import dataclass

from kgen.ir.dtype import DType
from kgen.ir.pointwise import PointwiseOp
from kgen.ir.problem import Contract, Load, Map, Problem


@dataclass(frozen=True, slots=True)
class ScaledOperand:
    """An operand of a product: the narrow `element` that is loaded, and what it is multiplied by once it is fp32."""

    element: str
    factors: tuple[str, ...]


def is_scaled(problem: Problem) -> bool:
    """Return whether a body has one product, of two narrow operands, of which one or both have factors."""
    products = [s for s in problem.body if isinstance(s, Contract)]
    found = scaled_operands(problem, products[0]) if len(products) == 1 else None
    return found is not None and any(operand.factors for operand in found)


def scaled_operands(problem: Problem, product: Contract) -> tuple[ScaledOperand, ScaledOperand] | None:
    """Return both operands of a product as narrow elements and factors; None unless both are, with a run in common."""
    lhs, rhs = _scaled(problem, product.lhs), _scaled(problem, product.rhs)
    if lhs is None or rhs is None:
        return None
    if any(_has_runs(problem, o.element) for o in (lhs, rhs)):
        return None
    factors = {a for f in (*lhs.factors, *rhs.factors) for a in _varies(problem, f)}
    return (lhs, rhs) if set(product.axes) - factors else None


def _scaled(problem: Problem, value: str) -> ScaledOperand | None:
    definitions = problem.definitions()
    elements, factors = [], []
    for part in _multiplied(problem, value):
        match definitions[part]:
            case Map(op=PointwiseOp.CAST, dtype=DType.FP32, operands=(str() as operand,)) if _is_narrow(
                problem, operand
            ):
                elements.append(operand)
            case _:
                factors.append(part)
    if len(elements) != 1 or not all(_is_factor(problem, f) for f in factors):
        return None
    return ScaledOperand(elements[0], tuple(factors))


def _multiplied(problem: Problem, value: str) -> tuple[str, ...]:
    """Return the values that a product of fp32 values is made of, in order."""
    match problem.definitions()[value]:
        case Map(op=PointwiseOp.MUL, dtype=DType.FP32, operands=(str() as a, str() as b)):
            return (*_multiplied(problem, a), *_multiplied(problem, b))
    return (value,)


def _is_narrow(problem: Problem, value: str) -> bool:
    """Return whether a value is an element of 8 bits as it was loaded, whose products are exact in fp32."""
    definition = problem.definitions()[value]
    return isinstance(definition, Load) and definition.dtype.is_float and definition.dtype.bytes == 1


def _is_factor(problem: Problem, value: str) -> bool:
    """Return whether a value is computed from one loaded element alone."""
    needed = problem.needed(value)
    return all(isinstance(s, Load | Map) for s in needed) and sum(isinstance(s, Load) for s in needed) == 1


def _has_runs(problem: Problem, value: str) -> bool:
    """Return whether neighbours along an axis are one loaded element."""
    loads = [s for s in problem.needed(value) if isinstance(s, Load)]
    return any(index.divisor != 1 for s in loads for index in s.access.indices)


def _varies(problem: Problem, value: str) -> set[str]:
    """Return the axes from one element of which to the next a factor is another one."""
    loads = [s for s in problem.needed(value) if isinstance(s, Load)]
    return {a for s in loads for index in s.access.indices if index.divisor == 1 for a in index.axes}
