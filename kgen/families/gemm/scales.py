"""Scales of a product's operands: how many rows, and how much of k, share one element of the tensor that holds them.

A step of `classify`, after the axes have their roles.
"""

from itertools import pairwise
from math import prod
from typing import Never

from kgen.errors.family import NotOneProductError
from kgen.families.extents import static_extents
from kgen.families.gemm.form import BlockScale, InputOps
from kgen.ir.problem import Load, Map, Problem

Fold = tuple[str, ...]  # axes that act as one, outermost first


def block_scale(problem: Problem, value: str, folds: tuple[Fold, Fold, tuple[Fold, ...]]) -> BlockScale:
    """Return how a factor is read along the folds of its operand: rows, k, and the batch modes.

    Raises `NotOneProductError` where runs of rows or of k do not share elements evenly.
    """
    needed = problem.needed(value)
    (load,) = (s for s in needed if isinstance(s, Load))
    rows, k, batch = folds
    axes = _Axes(problem, load)
    axes.require_within((*rows, *k, *(a for fold in batch for a in fold)))
    shared_rows, row_stride = axes.blocks(rows)
    shared_k, k_stride = axes.blocks(k)
    return BlockScale(
        ops=InputOps(load.result, tuple(s for s in needed if isinstance(s, Map)), value),
        tensor=load.access.tensor,
        dtype=load.dtype,
        offset=axes.offset,
        rows=shared_rows if row_stride else 0,
        k=shared_k,
        stride=(row_stride, k_stride, *(axes.stride(fold) for fold in batch)),
    )


class _Axes:
    """The axes of a problem as a scale walks them: `along` has its stride along each, `runs` who share an element."""

    def __init__(self, problem: Problem, load: Load) -> None:
        self.problem, self.load = problem, load
        self.extents = static_extents(problem)
        self.along: dict[str, int] = {}
        self.runs: dict[str, int] = {}
        self.offset = 0
        access = load.access
        if access.valid or access.gathered:
            self.refuse("is padded or gathered")
        for index, stride in zip(access.indices, problem.tensor(access.tensor).type.strides, strict=True):
            self.offset += index.offset * stride
            for axis, step in index.terms:
                self.along[axis] = self.along.get(axis, 0) + step * stride
                self.runs[axis] = index.divisor * self.runs.get(axis, 1)
        if any(step < 0 for step in self.along.values()):
            self.refuse("runs backwards")

    def require_within(self, known: Fold) -> None:
        """Require that the scale varies along axes of its operand alone."""
        for axis, stride in self.along.items():
            if stride and self.extents[axis] != 1 and axis not in known:
                self.refuse(f"varies along {axis}, and the operand that it scales does not")

    def blocks(self, fold: Fold) -> tuple[int, int]:
        """Return how many neighbours along a fold share an element, and the stride from one run of them to the next."""
        live = [a for a in fold if self.extents[a] != 1]
        varying = list(live)
        while varying and not self.along.get(varying[-1]):
            varying.pop()
        for outer, inner in pairwise(varying):
            one_stride = self.along.get(outer, 0) == self.along[inner] * self.extents[inner]
            if not one_stride or max(self.runs.get(outer, 1), self.runs[inner]) > 1:
                self.refuse(f"has no one stride along {' and '.join(live)}")
        run = prod(self.extents[a] for a in live[len(varying) :])
        return (run * self.runs[varying[-1]], self.along[varying[-1]]) if varying else (run, 0)

    def stride(self, fold: Fold) -> int:
        """Return the stride along a batch mode."""
        run, stride = self.blocks(fold)
        if stride and run != 1:
            self.refuse("is shared by some of a batch")
        return stride

    def refuse(self, found: str) -> Never:
        """Say what stands in the way."""
        raise NotOneProductError(problem=self.problem.name, found=f"the scale {self.load.access} {found}")
