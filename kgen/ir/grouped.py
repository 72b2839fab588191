"""Groups in a Problem: rows of one operand that each pick a matrix of the other, by how many groups have ended.

    group = reduce.sum[e] (ends[e] <= row);  B[group, k, n]

A group may be empty. Rows behind the last end are in no group: what the product is there means nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kgen.ir.pointwise import PointwiseOp as Op
from kgen.ir.problem import (
    Combine,
    Const,
    Contract,
    Definition,
    Gather,
    Index,
    Load,
    Map,
    Operand,
    Problem,
    Reduce,
    Store,
)


@dataclass(frozen=True, slots=True)
class RowGroups:
    """How rows find their matrix.

    `ends` reads where each group ends, `axis` counts the groups; a row is the sum of `row`'s axes, each times its
    number. `picked` are the operands' elements, whose index is their row's group.
    """

    ends: Load
    axis: str
    row: Mapping[str, int]
    picked: tuple[Gather, ...]


def row_groups(problem: Problem) -> RowGroups | None:
    """Return the groups of a Problem's rows, or None where no operand of a product is picked by such."""
    definitions = problem.definitions()
    operands = {o for p in problem.body if isinstance(p, Contract) for o in (p.lhs, p.rhs)}
    needed = {s for o in operands for s in problem.needed(o)}
    gathers = [s for s in problem.body if isinstance(s, Gather) and s in needed]
    for index in dict.fromkeys(s.index for s in gathers):
        match definitions[index]:
            case Reduce(combine=Combine.SUM, operand=counted, axes=(axis,)):
                picked = tuple(s for s in gathers if s.index == index)
                return _counted(definitions, counted, axis, picked)
    return None


def _counted(
    definitions: Mapping[str, Definition], value: str, axis: str, picked: tuple[Gather, ...]
) -> RowGroups | None:
    match _uncast(definitions, value):
        case Map(op=Op.LE, operands=(str(end), row)):
            ends, at = _uncast(definitions, end), _row(definitions, row)
            if isinstance(ends, Load) and not ends.access.valid and at:
                return RowGroups(ends, axis, at, picked)
    return None


def without_groups(problem: Problem) -> Problem:
    """Return the product of one group's matrix and all rows where rows come in groups, else the Problem itself."""
    groups = row_groups(problem)
    return of_one_group(problem, groups) if groups else problem


def of_one_group(problem: Problem, groups: RowGroups) -> Problem:
    """Return the product of the first group's matrix and all rows: the same, without what picks a matrix."""
    loads = {s: Load(s.result, s.access, s.dtype) for s in groups.picked}
    plain = replace(problem, body=tuple(loads.get(s, s) if isinstance(s, Gather) else s for s in problem.body))
    used = {s for store in plain.body if isinstance(store, Store) for s in plain.needed(store.value)}
    return replace(plain, body=tuple(s for s in plain.body if isinstance(s, Store) or s in used))


def _uncast(definitions: Mapping[str, Definition], value: str) -> Definition:
    found = definitions[value]
    while isinstance(found, Map) and found.op is Op.CAST and isinstance(operand := found.operands[0], str):
        found = definitions[operand]
    return found


def _row(definitions: Mapping[str, Definition], value: Operand) -> dict[str, int] | None:
    """Return the number of each axis in a sum of coordinates, or None where it is anything else."""
    match definitions[value] if isinstance(value, str) else value:
        case Index(axis=axis):
            return {axis: 1}
        case Map(op=Op.MUL, operands=(part, Const(value=int(step)))):
            found = _row(definitions, part)
            return {axis: step * number for axis, number in found.items()} if found else None
        case Map(op=Op.ADD, operands=(one, other)):
            first, second = _row(definitions, one), _row(definitions, other)
            return {**first, **second} if first and second and not first.keys() & second.keys() else None
    return None
