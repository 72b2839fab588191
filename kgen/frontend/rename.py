"""Give the axes of a Problem other names."""

from collections.abc import Mapping
from dataclasses import replace

from kgen.ir.access import Access, Affine
from kgen.ir.problem import Contract, Load, Problem, Statement, Store


def renamed(problem: Problem, names: Mapping[str, str]) -> Problem:
    """Return the problem with its axes renamed; it holds loads, maps, contractions and stores."""
    axes = tuple(replace(axis, name=names[axis.name]) for axis in problem.axes)
    return replace(problem, axes=axes, body=tuple(_statement(s, names) for s in problem.body))


def _statement(statement: Statement, names: Mapping[str, str]) -> Statement:
    match statement:
        case Load() | Store():
            return replace(statement, access=_access(statement.access, names))
        case Contract():
            return replace(statement, axes=tuple(names[a] for a in statement.axes))
    return statement


def _access(access: Access, names: Mapping[str, str]) -> Access:
    return replace(access, indices=tuple(_index(i, names) for i in access.indices))


def _index(index: Affine, names: Mapping[str, str]) -> Affine:
    return replace(index, terms=tuple((names[a], c) for a, c in index.terms))
