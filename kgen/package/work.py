"""Least work of a case: operations, and the bytes of a kernel that touches every element of the reference once."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from kgen.ir.problem import Const, Contract, Gather, Index, Load, Map, Problem, Reduce, Scan, Store, TensorRole
from kgen.ir.program import Program
from kgen.ir.tensor import TensorType
from kgen.package.parts import PackageParts


@dataclass(frozen=True, slots=True)
class Work:
    """Least work of one case: operations, and bytes when every element is touched once."""

    case: str
    flops: int
    bytes_read: int
    bytes_written: int

    @property
    def bytes(self) -> int:
        """All bytes."""
        return self.bytes_read + self.bytes_written


def work_of(parts: PackageParts) -> tuple[Work, ...]:
    """Return the least work of every case; buffers between kernels are not counted, for a better cut avoids them."""
    return tuple(_work(parts, case, program) for case, program in parts.programs)


def _work(parts: PackageParts, case: str, program: Program) -> Work:
    plan = parts.plan
    flops = sum(plan.variants_of(case, kernel)[0].form.flops for kernel in plan.kernels_of(case))
    made = {buffer.name for buffer in program.buffers}
    read, written, types = dict[str, int](), dict[str, int](), dict[str, TensorType]()
    for problem in program.problems:
        types |= {t.name: t.type for t in problem.tensors}
        for tensor, count in _read(problem):
            if tensor not in made:
                read[tensor] = read.get(tensor, 0) + count
        for store in (s for s in problem.body if isinstance(s, Store)):
            tensor = store.access.tensor
            written[tensor] = written.get(tensor, 0) + _points(problem, store.access.axes)
        made |= {t.name for t in problem.tensors if t.role is TensorRole.OUTPUT}  # what follows reads it from there
    for buffer in program.buffers:
        written.pop(buffer.name, None)
    counts = (sum(_at_most(types[tensor], count) for tensor, count in found.items()) for found in (read, written))
    return Work(case, flops, *counts)


def _read(problem: Problem) -> Iterator[tuple[str, int]]:
    """Yield each reading of a tensor and how many of its elements it meets, those of rows that an index picks expected.

    An index is as likely to name one row as another, as in the inputs of the test.
    """
    axes = _axes_of_values(problem)
    for s in problem.body:
        match s:
            case Load():
                yield s.access.tensor, _points(problem, s.access.axes)
            case Gather():
                rows = problem.tensor(s.access.tensor).type.static_shape[s.position]
                each = _points(problem, s.access.axes)
                draws = _points(problem, axes[s.result]) // max(each, 1)
                yield s.access.tensor, int(each * rows * (1 - (1 - 1 / max(rows, 1)) ** draws))
            case _:
                pass


def _axes_of_values(problem: Problem) -> dict[str, tuple[str, ...]]:
    """Return the axes that each value varies along."""
    found: dict[str, tuple[str, ...]] = {}
    for s in problem.body:
        match s:
            case Load():
                found[s.result] = s.access.axes
            case Index():
                found[s.result] = (s.axis,)
            case Gather():
                found[s.result] = tuple(dict.fromkeys((*s.access.axes, *found[s.index])))
            case Map():
                operands = [o for o in s.operands if not isinstance(o, Const)]
                found[s.result] = tuple(dict.fromkeys(axis for o in operands for axis in found[o]))
            case Scan():
                found[s.result] = found[s.operand]
            case Reduce():
                found[s.result] = tuple(axis for axis in found[s.operand] if axis not in s.axes)
            case Contract():
                both = dict.fromkeys((*found[s.lhs], *found[s.rhs]))
                found[s.result] = tuple(axis for axis in both if axis not in s.axes)
            case Store():
                pass
    return found


def _points(problem: Problem, axes: tuple[str, ...]) -> int:
    extents = [problem.axis(axis).extent for axis in axes]
    return prod(extent for extent in extents if isinstance(extent, int))


def _at_most(tensor: TensorType, elements: int) -> int:
    """Return the bytes of so many accesses: an element that is read in several places counts once."""
    return min(elements * tensor.dtype.bytes, touched_bytes(tensor))


def touched_bytes(tensor: TensorType) -> int:
    """Return the bytes of the distinct elements of a tensor; an axis of stride 0 repeats one."""
    pairs = zip(tensor.static_shape, tensor.strides, strict=True)
    return tensor.dtype.bytes * prod(extent if stride or not extent else 1 for extent, stride in pairs)
