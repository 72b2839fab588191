"""Names of a kernel's axes: the user's extent names where they fit, else m, n, k and b by what an axis does."""

import re
from collections import Counter

from kgen.ir.problem import Contract, Load, Problem, Store
from kgen.spec.model import Spec

_ROLES = ("b", "m", "n", "k")
_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")


def axis_names(problem: Problem, spec: Spec) -> dict[str, str]:
    """Return the final name of every axis of a problem whose axes still have working names."""
    roles = _roles(problem)
    wanted = _extent_names(problem, spec)
    counts, counted = Counter(wanted.values()), Counter(roles.values())

    def fits(name: str, role: str) -> bool:
        free = name not in _ROLES or name == role or (name == "b" and not counted["b"])
        return counts[name] == 1 and free

    names = {axis: name for axis, name in wanted.items() if fits(name, roles[axis])}
    for axis in (a.name for a in problem.axes if a.name not in names):
        role = roles[axis]
        plain = (role,) if counted[role] == 1 else ()
        free = (n for n in (*plain, *(f"{role}{i}" for i in range(len(roles)))) if n not in names.values())
        names[axis] = next(free)
    return names


def _roles(problem: Problem) -> dict[str, str]:
    """Return b, m, n or k for each axis: in both operands, in the first, in the second, summed."""
    varies: dict[str, set[str]] = {}
    product: Contract | None = None
    for statement in problem.body:
        match statement:
            case Load(result=result, access=access):
                varies[result] = set(access.axes)
            case Contract():
                product = product or statement
                varies[statement.result] = set()
            case Store():
                pass
            case _:
                operands = getattr(statement, "operands", ())
                varies[statement.result] = set().union(*(varies.get(o, set()) for o in operands))
    lhs = varies.get(product.lhs, set()) if product else set()
    rhs = varies.get(product.rhs, set()) if product else set()

    def role(axis: str) -> str:
        if product and axis in product.axes:
            return "k"
        if (axis in lhs) == (axis in rhs):
            return "b"
        return "m" if axis in lhs else "n"

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
