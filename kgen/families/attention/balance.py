"""In which order the tiles of an attention walk, how evenly that deals their work, and how many keys they see.

CTAs stay on their SMs and take every n-th tile, back and forth. Heads walk in sections, side by side; in a section the
row blocks that see the most keys come first. How even that is depends on how the length of a section and the number of
CTAs meet, so that the section is chosen for it; among equals, K and V of a section lie in L2 together.
"""

from dataclasses import dataclass

import numpy as np

from kgen.families.attention.rules_facts import AttentionFacts
from kgen.rules.arithmetic import ceil_div
from kgen.target import Device

_RESIDENT = 0.5  # of the L2: what K and V of the heads that walk side by side may take
_MOST_TURNS = 64  # tiles of one CTA: with more of them, no order is uneven enough to matter
_MOST_SECTIONS = 64  # sizes of a section that are tried
_START = 1.0  # what a tile takes besides its keys, in tiles of keys


@dataclass(frozen=True, slots=True)
class Walk:
    """`section` heads of K and V side by side; the busiest CTA has `share` times the mean of all CTAs' work.

    `steps` are the tiles of keys that an average tile of rows visits.
    """

    section: int
    share: float
    steps: float


def walk_of(facts: AttentionFacts, device: Device, tile_m: int, tile_n: int) -> Walk:
    """Return how tiles of these extents walk over the SMs of a device."""
    resident, steps = most_heads_in_l2(facts, device), _steps(facts, tile_m, tile_n)
    mean = float(steps.mean())
    tiles, ctas = len(steps) * facts.ratio * facts.batch, device.compute_units
    if not (facts.bounded and len(steps) > 1 and ctas < tiles <= _MOST_TURNS * ctas):
        return Walk(resident, 1.0, mean)
    sizes = sorted(range(1, facts.batch + 1), key=lambda size: abs(size - resident))[:_MOST_SECTIONS]
    walks = [Walk(n, _share(steps + _START, facts.ratio * n, facts.ratio * facts.batch, ctas), mean) for n in sizes]
    return min(walks, key=lambda walk: round(walk.share, 2))


def most_heads_in_l2(facts: AttentionFacts, device: Device) -> int:
    """Return how many heads of K and V the L2 holds, beside what streams through it."""
    head = facts.keys * (facts.d + facts.dv) * facts.in_bytes
    budget = _RESIDENT * device.value("quantities.l2") * 1e6
    return max(min(int(budget // max(head, 1)), facts.batch), 1)


def _steps(facts: AttentionFacts, tile_m: int, tile_n: int) -> np.ndarray:
    """Return the tiles of keys that each row block visits, the most first.

    What a row sees grows evenly from the first one to the last. In a window, which all rows see in full, the rows of a
    block see it at different places.
    """
    blocks = max(ceil_div(facts.queries, tile_m), 1)
    if not facts.bounded:
        return np.full(blocks, float(ceil_div(facts.keys, tile_n)))
    least = 2 * facts.mean_keys - facts.most_keys  # of a row
    row = np.minimum((np.arange(blocks)[::-1] + 1) * tile_m, max(facts.queries, 1)) - 1  # the last one of a block
    seen = least + (facts.most_keys - least) * row / max(facts.queries - 1, 1)
    seen += tile_m * max(least - 1, 0) / max(facts.most_keys, 1)
    return np.asarray(np.ceil(np.clip(seen, 1, max(facts.keys, 1)) / tile_n))


def _share(lengths: np.ndarray, side_by_side: int, heads: int, ctas: int) -> float:
    """Return the work of the busiest CTA over the mean."""
    sections = [min(side_by_side, heads - first) for first in range(0, heads, side_by_side)]
    work = np.concatenate([np.repeat(lengths, size) for size in sections])
    turns = np.pad(work, (0, -len(work) % ctas)).reshape(-1, ctas)
    turns[1::2] = turns[1::2, ::-1]
    return float(turns.sum(0).max() / (work.sum() / ctas))
