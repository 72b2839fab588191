"""The axes of one kernel: which axis an index of a tensor runs along, and where two tensors share one."""

from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass, field

from kgen.frontend.indices import ZERO, AxisSplit, Indices, NotOneKernel, add, scale
from kgen.ir.access import Affine


@dataclass(slots=True)
class Axes:
    """The axes of the iteration space: each tensor axis is one or, once it had to be split, several of them.

    `candidates` are axes that are only looked at, `dynamic` index values that were read from memory. `may_divide`: an
    index may be that of the run that an axis is in, where the runs do not divide its extent.
    """

    splits: Mapping[str, tuple[int, ...]]
    keeps_units: bool = True
    may_divide: bool = False
    extents: dict[str, int] = field(default_factory=dict)
    candidates: dict[str, int] = field(default_factory=dict)
    dynamic: dict[str, int] = field(default_factory=dict)

    @property
    def known(self) -> Mapping[str, int]:
        """The extent of everything an index may run along."""
        return ChainMap(self.extents, self.candidates, self.dynamic)

    def index(self, root: str, extent: int) -> Affine:
        """Return the index of a tensor axis over its kernel axes, which are created at the first call."""
        found = self.candidate(root, extent)
        for axis in found.axes:
            self.extents[axis] = self.candidates.pop(axis) if axis in self.candidates else self.extents[axis]
        return found

    def candidate(self, root: str, extent: int) -> Affine:
        """Return the index that `index` would, without creating axes."""
        factors = self.splits.get(root, (extent,))
        total = ZERO
        for position, factor in enumerate(factors):
            total = scale(total, factor)
            if factor == 1 and not self.keeps_units:
                continue
            name = root if len(factors) == 1 else f"{root}.{position}"
            if name not in self.extents:
                self.candidates[name] = factor
            total = add(total, Affine.of(name))
        return total


def split_axis(splits: dict[str, tuple[int, ...]], axes: Axes, split: AxisSplit) -> None:
    """Record that an axis becomes two; an axis that is a factor already is split within its tensor axis."""
    if split.axis in axes.dynamic:
        raise NotOneKernel("an index that is read from memory would have to be split")
    root, _, position = split.axis.rpartition(".")
    extent = axes.known[split.axis]
    halves = (extent // split.inner, split.inner)
    if root in splits:
        factors, at = splits[root], int(position)
        splits[root] = (*factors[:at], *halves, *factors[at + 1 :])
    else:
        splits[split.axis] = halves


def match_indices(wanted: Indices, known: Indices, axes: Axes, free: set[str]) -> dict[str, str] | None:
    """Return the known axis for each free axis of `wanted` under which both are the same indices, or None.

    Raises `AxisSplit` where one of two axes is finer than the other.
    """
    bound: dict[str, str] = {}
    finer: AxisSplit | None = None
    for one, other in zip(wanted, known, strict=True):
        if not free.intersection(one.axes):
            if one != other:
                return None
            continue
        if one.offset != other.offset or one.divisor != other.divisor:
            return None
        found = _match_terms(one, other, axes, free)
        if found is None or any(bound.get(a, b) != b for a, b in found.items()):
            finer = finer or _finer(one, other, axes, free)
            if found is None and finer is None:
                return None
            continue
        bound.update(found)
    if finer is not None:
        raise finer
    return bound if len(set(bound.values())) == len(bound) else None


def _match_terms(one: Affine, other: Affine, axes: Axes, free: set[str]) -> dict[str, str] | None:
    by_step = {c: a for a, c in other.terms}
    if len(one.terms) != len(other.terms) or len(by_step) != len(other.terms):
        return None
    found: dict[str, str] = {}
    for axis, step in one.terms:
        partner = by_step.get(step)
        if partner is None or axes.known[partner] != axes.known[axis]:
            return None
        if axis in free:
            found[axis] = partner
        elif axis != partner:
            return None
    return found


def _finer(one: Affine, other: Affine, axes: Axes, free: set[str]) -> AxisSplit | None:
    """Return the split that brings two indices, of which one has finer axes, closer; None if they are not alike."""
    extent = axes.known
    mine = sorted((c, a) for a, c in one.terms if a in free)
    theirs = sorted((c, a) for a, c in other.terms if a not in one.axes)
    if not mine or not theirs or len(mine) == len(theirs) or mine[0][0] != theirs[0][0]:
        return None
    (_, a), (_, b) = mine[0], theirs[0]
    coarse, fine = (a, b) if extent[a] > extent[b] else (b, a)
    if extent[fine] <= 1 or extent[coarse] == extent[fine] or extent[coarse] % extent[fine]:
        return None
    return AxisSplit(coarse, extent[fine]) if coarse not in axes.dynamic else None
