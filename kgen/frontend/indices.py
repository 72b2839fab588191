"""Index arithmetic of lowering: affine indices over axes of known extents, and reshapes as mixed-radix digits.

A reshape that cuts an axis in two cannot be written as an affine index. Then the axis itself has to be split: the
functions here raise `AxisSplit`, and lowering starts again with the finer axis.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kgen.ir.access import Affine

Indices = tuple[Affine, ...]
ZERO = Affine()


class AxisSplit(Exception):
    """The axis has to become two: (extent / inner) x inner."""

    def __init__(self, axis: str, inner: int) -> None:
        super().__init__(axis, inner)
        self.axis, self.inner = axis, inner


class NotAffineError(Exception):
    """The indices of a view are no affine function of the axes; the message says why."""


class NotOneKernel(Exception):
    """The values asked for do not form one kernel; the message says why."""


def add(*parts: Affine, offset: int = 0) -> Affine:
    """Return the sum of indices and an offset, each axis once, axes in order of first use."""
    if any(p.divisor != 1 for p in parts):
        (whole, *others) = (p for p in parts if p != ZERO)
        if others or offset:
            raise NotOneKernel(f"the index {whole} is one among others")
        return whole
    terms: dict[str, int] = {}
    for part in parts:
        for axis, coefficient in part.terms:
            terms[axis] = terms.get(axis, 0) + coefficient
    kept = tuple((a, c) for a, c in terms.items() if c)
    return Affine(kept, sum(p.offset for p in parts) + offset)


def scale(index: Affine, factor: int) -> Affine:
    """Return an index times a number."""
    if factor == 1:
        return index
    if index.divisor != 1:
        raise NotOneKernel(f"the index {index} is multiplied")
    return Affine(tuple((a, c * factor) for a, c in index.terms if factor), index.offset * factor)


@dataclass(frozen=True, slots=True)
class Reshape:
    """Maps indices of a tensor of shape `target` to those of the same elements in shape `source`."""

    source: tuple[int, ...]
    target: tuple[int, ...]
    extents: Mapping[str, int]

    def pull(self, indices: Indices) -> Indices:
        """Return the source indices; raise `AxisSplit` or `NotAffineError`."""
        if 0 in self.source and [e for e in self.source if e != 1] != [e for e in self.target if e != 1]:
            return tuple(ZERO for _ in self.source)
        found: list[Affine] = []
        i = j = 0
        while i < len(self.source) or j < len(self.target):
            src, dst = self.source[i : i + 1], self.target[j : j + 1]
            if src == dst:
                found, i, j = [*found, indices[j]], i + 1, j + 1
            elif src == (1,):
                found, i = [*found, ZERO], i + 1
            elif dst == (1,):
                j += 1
            else:
                ends = self._segment(i, j)
                linear = _linear(indices[j : ends[1]], self.target[j : ends[1]])
                found += _digits(linear, self.source[i : ends[0]], self.extents)
                i, j = ends
        return tuple(found)

    def _segment(self, i: int, j: int) -> tuple[int, int]:
        """Return the ends of the shortest runs of axes, from i and j, that hold equally many elements."""
        a, b = self.source[i], self.target[j]
        i, j = i + 1, j + 1
        while a != b:
            if a < b:
                a, i = a * self.source[i], i + 1
            else:
                b, j = b * self.target[j], j + 1
        return i, j


def _linear(indices: Indices, shape: tuple[int, ...]) -> Affine:
    total = ZERO
    for index, extent in zip(indices, shape, strict=True):
        total = add(scale(total, extent), index)
    return total


def _digits(linear: Affine, shape: tuple[int, ...], extents: Mapping[str, int]) -> Indices:
    """Return the mixed-radix digits of an index, innermost last."""
    digits: list[Affine] = []
    for extent in reversed(shape[1:]):
        linear, digit = divide(linear, extent, extents)
        digits.append(digit)
    return (linear, *reversed(digits))


def span(index: Affine, extents: Mapping[str, int]) -> tuple[int, int]:
    """Return the least and the greatest value of an index over axes that are not empty."""
    ends = [(c * (extents[a] - 1), c) for a, c in index.terms]
    return index.offset + sum(e for e, c in ends if c < 0), index.offset + sum(e for e, c in ends if c > 0)


def divide(index: Affine, divisor: int, extents: Mapping[str, int]) -> tuple[Affine, Affine]:
    """Return quotient and remainder of an index, both affine."""
    if index.divisor != 1:
        raise NotOneKernel(f"the index {index} is divided")
    terms = [(a, c) for a, c in index.terms if extents[a] != 1]
    high = tuple((a, c // divisor) for a, c in terms if c % divisor == 0)
    low = tuple((a, c) for a, c in terms if c % divisor)
    quotient, remainder = divmod(index.offset, divisor)
    least = remainder + sum(min(c, 0) * (extents[a] - 1) for a, c in low)
    most = remainder + sum(max(c, 0) * (extents[a] - 1) for a, c in low)
    if least >= 0 and most < divisor:
        return Affine(high, quotient), Affine(low, remainder)
    for axis, coefficient in low:
        inner = divisor // abs(coefficient)
        if divisor % abs(coefficient) == 0 and inner < extents[axis] and extents[axis] % inner == 0:
            raise AxisSplit(axis, inner)
    raise NotAffineError(f"the index {index} does not split into runs of {divisor}")
