"""The order of a pointwise kernel's axes where a large tensor is shared along an outer one.

CTAs follow the axes, innermost first. A tensor that an outer axis repeats is read again only after all that lies
inside of that axis; if this is more than a cache holds, every repetition comes from memory. So the innermost axis is
taken in pieces, and the repetitions of a piece follow one another.
"""

from dataclasses import replace
from math import gcd, prod

from kgen.families.strided.form import Access, Layout, LoopForm, Walk

LOST_BYTES = 16 * 2**20  # after so much has passed, a cache of some 50 MB that others use, too, is not relied on
SHARED_BYTES = 2**20  # a smaller tensor is kept by use
PIECE = 32768  # elements at most, a power of two: some CTAs
LEAST_PIECE = 4096


def interleaved(form: LoopForm) -> LoopForm:
    """Return a form whose CTAs read a piece of a shared tensor for all that share it; others as they are."""
    if form.layout is not Layout.FLAT or len(form.kept) < 2:
        return form
    piece = gcd(form.kept[-1], PIECE)
    axis = _repeating_axis(form)
    if axis is None or piece < LEAST_PIECE:
        return form

    def moved(walk: Walk) -> Walk:
        kept = walk.kept
        return replace(walk, kept=(*kept[:axis], *kept[axis + 1 : -1], kept[-1] * piece, kept[axis], kept[-1]))

    def placed(access: Access) -> Access:
        return replace(access, walk=moved(access.walk), guards=tuple(map(moved, access.guards)))

    extents = form.kept
    return replace(
        form,
        kept=(*extents[:axis], *extents[axis + 1 : -1], extents[-1] // piece, extents[axis], piece),
        loads=tuple(map(placed, form.loads)),
        stores=tuple(map(placed, form.stores)),
        coordinates=tuple((value, moved(walk)) for value, walk in form.coordinates),
    )


def _repeating_axis(form: LoopForm) -> int | None:
    """Return the outer axis that repeats the most bytes which a cache has lost by then, or None."""
    accesses = {(a.tensor, a.walk): a for a in (*form.loads, *form.stores)}.values()
    found: dict[int, int] = {}
    for axis, extent in enumerate(form.kept[:-1]):
        inside = prod(form.kept[axis + 1 :])
        passing = inside * sum(a.dtype.bytes for a in accesses if a.walk.kept[-1])
        shared = [a for a in form.loads if not a.walk.kept[axis] and a.walk.kept[-1]]
        large = [b for a in shared if (b := form.points_of(a.walk) * a.dtype.bytes) >= SHARED_BYTES]
        if passing > LOST_BYTES and large:
            found[axis] = (extent - 1) * sum(large)
    return max(found, key=lambda axis: found[axis], default=None)
