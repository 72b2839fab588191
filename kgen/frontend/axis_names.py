"""Names of a kernel's axes: the user's extent names where they fit, else letters by what an axis does.

A matrix product has m, n, k and b, an attention m for queries, n for keys, k for the head dim of both and v for that of
the values; another kernel has i, j, ... for axes that it keeps and r, s, ... for those it reduces.
"""

import re
from collections import Counter
from itertools import chain, count

from kgen.ir.problem import Contract, Gather, Load, Problem, Reduce, Scan, Store
from kgen.spec.model import Spec

_ROLES = ("b", "m", "n", "k")
_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
_KEPT, _REDUCED = "ijkl", "rstuv"


def axis_names(problem: Problem, spec: Spec) -> dict[str, str]:
    """Return the final name of every axis of a problem whose axes still have working names."""
    wanted = _extent_names(problem, spec)
    if not any(isinstance(s, Contract) for s in problem.body):
        return _letters(problem, wanted)
    roles = _roles(problem)
    reserved = {*_ROLES, *roles.values()}
    counts, counted = Counter(wanted.values()), Counter(roles.values())

    def fits(name: str, role: str) -> bool:
        free = name not in reserved or name == role or (name == "b" and not counted["b"])
        return counts[name] == 1 and free

    names = {axis: name for axis, name in wanted.items() if fits(name, roles[axis])}
    for axis in (a.name for a in problem.axes if a.name not in names):
        role = roles[axis]
        plain = (role,) if counted[role] == 1 else ()
        free = (n for n in (*plain, *(f"{role}{i}" for i in range(len(roles)))) if n not in names.values())
        names[axis] = next(free)
    return names


def _letters(problem: Problem, wanted: dict[str, str]) -> dict[str, str]:
    """Return the names of a kernel without a product."""
    reduced = {a for s in problem.body if isinstance(s, Reduce) for a in s.axes}
    reduced |= {s.axis for s in problem.body if isinstance(s, Scan)}
    counts = Counter(wanted.values())
    names = {axis: name for axis, name in wanted.items() if counts[name] == 1}
    for axis in (a.name for a in problem.axes if a.name not in names):
        letters = _REDUCED if axis in reduced else _KEPT
        free = chain(letters, (f"{letters[0]}{i}" for i in count(1)))
        names[axis] = next(n for n in free if n not in names.values())
    return names


def _roles(problem: Problem) -> dict[str, str]:
    """Return b, m, n or k for each axis: in both operands, in the first, in the second, summed; v: of a second product.

    Of an attention it is Q that has m.
    """
    varies: dict[str, set[str]] = {}
    sides: list[tuple[set[str], set[str]]] = []
    products = [s for s in problem.body if isinstance(s, Contract)]
    for statement in problem.body:
        match statement:
            case Load(result=result, access=access):
                varies[result] = set(access.axes)
            case Gather(result=result, access=access, index=index):
                varies[result] = set(access.axes) | varies.get(index, set())
            case Contract(lhs=left, rhs=right):
                sides.append((varies.get(left, set()), varies.get(right, set())))
                varies[statement.result] = set()
            case Store():
                pass
            case _:
                operands = getattr(statement, "operands", ())
                varies[statement.result] = set().union(*(varies.get(o, set()) for o in operands))
    lhs, rhs = sides[0]
    if products[0] is not products[-1]:
        keys = set(products[-1].axes)
        lhs, rhs = (rhs, lhs) if keys & lhs else (lhs, rhs)

    def role(axis: str) -> str:
        if axis in products[0].axes:
            return "k"
        if axis in lhs or axis in rhs or products[0] is products[-1]:
            return "b" if (axis in lhs) == (axis in rhs) else "m" if axis in lhs else "n"
        return "v"

    return {axis.name: role(axis.name) for axis in problem.axes}


def _extent_names(problem: Problem, spec: Spec) -> dict[str, str]:
    """Return the lower-case extent name that an input's shape gives to an axis, if all inputs agree on it."""
    dimensions = {i.name: i.shape for i in spec.inputs}
    found: dict[str, set[str]] = {}
    for statement in problem.body:
        if not isinstance(statement, Load):
            continue
        shape = dimensions.get(statement.access.tensor, ())
        for index, dimension in zip(statement.access.indices, shape, strict=False):
            if index.axis and isinstance(dimension, str):
                found.setdefault(index.axis, set()).add(dimension.lower())
    agreed = {axis: next(iter(names)) for axis, names in found.items() if len(names) == 1}
    return {axis: name for axis, name in agreed.items() if _NAME.match(name)}
