"""From which range an integer input is drawn: one that indexes something has to stay inside of it.

Read out of what the kernels do with the input: the row of a `Gather` that it picks, the coordinates that it is compared
with. Integers that are only computed with come from a small range around 0.
"""

from collections.abc import Iterator
from math import prod

from kgen.families.extents import static_extents
from kgen.ir.dtype import DType
from kgen.ir.grouped import row_groups
from kgen.ir.pointwise import PointwiseOp
from kgen.ir.problem import Const, Gather, Index, Load, Map, Problem
from kgen.package.parts import PackageParts
from kgen.spec.model import Spec

_COMPARISONS = frozenset(
    {PointwiseOp.EQ, PointwiseOp.NE, PointwiseOp.LT, PointwiseOp.LE, PointwiseOp.GT, PointwiseOp.GE}
)


def index_extents(parts: PackageParts) -> dict[str, str]:
    """Return of each input that indexes something how many values it may have, as an expression in named extents."""
    integers = {i.name for i in parts.inputs if not i.dtype.is_float and i.dtype is not DType.BOOL}
    by_case: dict[str, list[int]] = {}
    for _, program in parts.programs:
        smallest: dict[str, int] = {}
        for tensor, extent in (pair for problem in program.problems for pair in _uses(problem)):
            if tensor in integers:
                smallest[tensor] = min(smallest.get(tensor, extent), extent)
        for tensor, extent in smallest.items():
            by_case.setdefault(tensor, []).append(extent)
    return {tensor: extent_text(extents, parts.spec) for tensor, extents in by_case.items()}


def grouped_rows(parts: PackageParts) -> dict[str, str]:
    """Return of each input that says where groups of rows end how many rows there are, as an expression.

    One whose range the spec gives is drawn from it.
    """
    drawn = {i.name for i in parts.inputs if i.values is None}
    found: dict[str, list[int]] = {}
    for _, program in parts.programs:
        for problem in program.problems:
            groups = row_groups(problem)
            if groups and groups.ends.access.tensor in drawn:
                extents = static_extents(problem)
                found.setdefault(groups.ends.access.tensor, []).append(prod(extents[a] for a in groups.row))
    return {tensor: extent_text(extents, parts.spec) for tensor, extents in found.items()}


def extent_text(extents: list[int], spec: Spec) -> str:
    """Return an extent by its number, or by the name that has its values in all cases; else its smallest number."""
    if len(set(extents)) > 1:
        for name, _ in spec.extents:
            if [case.value(name) for case in spec.cases] == extents:
                return name
    return str(min(extents))


def _uses(problem: Problem) -> Iterator[tuple[str, int]]:
    """Yield (tensor, extent) for each tensor whose elements pick one of so many rows or coordinates."""
    definitions = problem.definitions()
    for s in problem.body:
        match s:
            case Gather():
                extent = problem.tensor(s.access.tensor).type.static_shape[s.position]
                yield from ((tensor, extent) for tensor in _tensors_behind(s.index, problem))
            case Map() if s.op in _COMPARISONS:
                operands = [o for o in s.operands if not isinstance(o, Const)]
                axes = [d.axis for o in operands if isinstance(d := definitions[o], Index)]
                found = [tensor for o in operands for tensor in _tensors_behind(o, problem)]
                extents = [e for axis in axes if isinstance(e := problem.axis(axis).extent, int)]
                yield from ((tensor, extent) for tensor in found for extent in extents)
            case _:
                pass


def _tensors_behind(value: str, problem: Problem) -> list[str]:
    """Return the tensors whose elements a value is computed from by pointwise ops."""
    definitions = problem.definitions()
    found, stack, seen = [], [value], set[str]()
    while stack:
        name = stack.pop()
        if name in seen:
            continue
        seen.add(name)
        match definitions[name]:
            case Load(access=access):
                found.append(access.tensor)
            case Map(operands=operands):
                stack += [o for o in operands if not isinstance(o, Const)]
            case _:
                pass
    return found
