"""Give the axes of a Problem other names."""

from collections.abc import Mapping
from dataclasses import replace

from kgen.ir.access import Access, Affine, Bound
from kgen.ir.problem import Contract, Gather, Index, Load, Map, Problem, Reduce, Scan, Statement, Store


def renamed(problem: Problem, names: Mapping[str, str]) -> Problem:
    """Return the problem with its axes renamed."""
    axes = tuple(replace(axis, name=names[axis.name]) for axis in problem.axes)
    return replace(problem, axes=axes, body=tuple(_statement(s, names) for s in problem.body))


def _statement(statement: Statement, names: Mapping[str, str]) -> Statement:
    match statement:
        case Load() | Store() | Gather():
            return replace(statement, access=_access(statement.access, names))
        case Contract() | Reduce():
            return replace(statement, axes=tuple(names[a] for a in statement.axes))
        case Scan() | Index():
            return replace(statement, axis=names[statement.axis])
        case Map():
            return statement


def _access(access: Access, names: Mapping[str, str]) -> Access:
    indices = tuple(_index(i, names) for i in access.indices)
    valid = tuple(Bound(_index(b.index, names), _index(b.lo, names), _index(b.hi, names)) for b in access.valid)
    return replace(access, indices=indices, valid=valid)


def _index(index: Affine, names: Mapping[str, str]) -> Affine:
    return replace(index, terms=tuple((names[a], c) for a, c in index.terms))
