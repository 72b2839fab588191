"""Scales of a product's operands: how many rows, and how much of k, share one element of the tensor that holds them.

A step of `classify`, after the axes have their roles.
"""

from collections.abc import Mapping
from itertools import pairwise
from math import prod
from typing import Never

from kgen.errors.family import NotOneProductError
from kgen.families.extents import static_extents
from kgen.families.gemm.form import BlockScale, InputOps
from kgen.ir.problem import Load, Map, Problem

Fold = tuple[str, ...]  # axes that act as one, outermost first


def factor_ops(problem: Problem, value: str) -> InputOps:
    """Return a factor of a scaled operand as pointwise ops on the one element that it is made of."""
    needed = problem.needed(value)
    (load,) = (s for s in needed if isinstance(s, Load))
    return InputOps(load.result, tuple(s for s in needed if isinstance(s, Map)), value)


def block_scale(
    problem: Problem,
    ops: InputOps,
    along: Mapping[str, int],
    offset: int,
    folds: tuple[Fold, Fold, tuple[Fold, ...]],
) -> BlockScale:
    """Return how a factor is read along the folds of its operand: rows, k, and the batch modes.

    `along` and `offset` are the strides and the start of its access, in elements. Raises `NotOneProductError` where
    runs of rows or of k do not share elements evenly.
    """
    load = problem.definitions()[ops.source]
    assert isinstance(load, Load)
    rows, k, batch = folds
    axes = _Axes(problem, load, along)
    axes.require_within((*rows, *k, *(a for fold in batch for a in fold)))
    shared_rows, row_stride = axes.blocks(rows)
    shared_k, k_stride = axes.blocks(k)
    return BlockScale(
        ops=ops,
        tensor=load.access.tensor,
        dtype=load.dtype,
        offset=offset,
        rows=shared_rows if row_stride else 0,
        k=shared_k,
        stride=(row_stride, k_stride, *(axes.stride(fold) for fold in batch)),
    )


class _Axes:
    """The axes of a problem as a scale walks them."""

    def __init__(self, problem: Problem, load: Load, along: Mapping[str, int]) -> None:
        self.problem, self.load, self.along = problem, load, along
        self.extents = static_extents(problem)

    def require_within(self, known: Fold) -> None:
        """Require that the scale varies along axes of its operand alone."""
        for axis, stride in self.along.items():
            if stride and self.extents[axis] != 1 and axis not in known:
                self.refuse(f"varies along {axis}, and the operand that it scales does not")

    def blocks(self, fold: Fold) -> tuple[int, int]:
        """Return how many neighbours along a fold share an element, and the stride from one run of them to the next."""
        live = [a for a in fold if self.extents[a] != 1]
        runs = list(live)
        while runs and not self.along.get(runs[-1]):
            runs.pop()
        for outer, inner in pairwise(runs):
            if self.along.get(outer, 0) != self.along[inner] * self.extents[inner]:
                self.refuse(f"has no one stride along {' and '.join(live)}")
        return prod(self.extents[a] for a in live[len(runs) :]), self.along[runs[-1]] if runs else 0

    def stride(self, fold: Fold) -> int:
        """Return the stride along a batch mode."""
        run, stride = self.blocks(fold)
        if stride and run != 1:
            self.refuse("is shared by some of a batch")
        return stride

    def refuse(self, found: str) -> Never:
        """Say what stands in the way."""
        raise NotOneProductError(problem=self.problem.name, found=f"the scale {self.load.access} {found}")
