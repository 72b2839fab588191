"""A product with a vector as a loop: rows that are multiplied and summed, with no tile that pads the vector."""

from collections.abc import Iterator
from dataclasses import replace

from kgen.ir.access import Access, Affine, Bound
from kgen.ir.dtype import DType
from kgen.ir.pointwise import PointwiseOp as Op
from kgen.ir.problem import Combine, Contract, Gather, Load, Map, Problem, Reduce, Statement, Store

PRODUCT = "product"


def as_loop(problem: Problem) -> Problem:
    """Return a problem of one contraction as one of products and their sum, with no axes of extent 1.

    Each product is taken in the type of the sums, so that it means the same; the order of a sum is another.
    """
    single = frozenset(axis.name for axis in problem.axes if axis.extent == 1)
    types = {s.result: s.dtype for s in problem.body if not isinstance(s, Store)}
    body = [new for s in problem.body for new in _statements(s, types, single)]
    return replace(problem, axes=tuple(a for a in problem.axes if a.name not in single), body=tuple(body))


def _statements(s: Statement, types: dict[str, DType], single: frozenset[str]) -> Iterator[Statement]:
    match s:
        case Contract():
            factors = []
            for number, value in enumerate((s.lhs, s.rhs)):
                if types[value] != s.dtype:
                    value = f"{s.result}_{PRODUCT}_{number}"
                    yield Map(value, Op.CAST, ((s.lhs, s.rhs)[number],), s.dtype)
                factors.append(value)
            yield Map(f"{s.result}_{PRODUCT}", Op.MUL, tuple(factors), s.dtype)
            axes = tuple(axis for axis in s.axes if axis not in single)
            yield Reduce(s.result, Combine.SUM, f"{s.result}_{PRODUCT}", axes, s.dtype)
        case Load() | Gather() | Store():
            yield replace(s, access=_access(s.access, single))
        case _:
            yield s


def _access(access: Access, single: frozenset[str]) -> Access:
    valid = tuple(Bound(*(_affine(side, single) for side in (b.index, b.lo, b.hi))) for b in access.valid)
    return replace(access, indices=tuple(_affine(index, single) for index in access.indices), valid=valid)


def _affine(index: Affine, single: frozenset[str]) -> Affine:
    return replace(index, terms=tuple(term for term in index.terms if term[0] not in single))
