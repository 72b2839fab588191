"""The extents of a Problem as numbers, which every family needs."""

from kgen.errors.family import RangedExtentError
from kgen.ir.problem import Problem


def static_extents(problem: Problem) -> dict[str, int]:
    """Return the extent of every axis. Raises `RangedExtentError` for one that is a range."""
    found: dict[str, int] = {}
    for axis in problem.axes:
        if not isinstance(axis.extent, int):
            raise RangedExtentError(axis=axis.name, problem=problem.name, extent=axis.extent)
        found[axis.name] = axis.extent
    return found
