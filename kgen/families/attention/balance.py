"""In which order the tiles of an attention walk, and how evenly that deals their work to the CTAs.

Heads walk in sections whose K and V stay in L2 together; in a section the row blocks that see the most keys come first.
A CTA for each tile is started when another one ends, so that the work of the SMs ends evenly. CTAs that stay take every
n-th tile, back and forth, and how even that is depends on how the length of a section and the number of CTAs meet:
the section is chosen for it.
"""

from dataclasses import dataclass

import numpy as np

from kgen.families.attention.rules_facts import AttentionFacts
from kgen.rules.arithmetic import ceil_div
from kgen.target import Device

_RESIDENT = 0.5  # of the L2: what K and V of the heads that walk side by side may take
_MOST_TURNS = 64  # tiles of one CTA: with more of them, no order is uneven enough to matter
_MOST_SECTIONS = 48  # sizes of a section that are tried
_START = 1.0  # what a tile takes besides its keys, in tiles of keys


@dataclass(frozen=True, slots=True)
class Walk:
    """`section` heads of K and V side by side; the busiest CTA has `share` times the mean of all CTAs' work."""

    section: int
    share: float


def walk_of(facts: AttentionFacts, device: Device, tile_m: int, tile_n: int, *, persistent: bool) -> Walk:
    """Return how the tiles of these extents walk."""
    most = most_heads_in_l2(facts, device)
    tiles, ctas = ceil_div(facts.queries, tile_m) * facts.ratio * facts.batch, device.compute_units
    if not (persistent and facts.bounded and ctas < tiles <= _MOST_TURNS * ctas):
        return Walk(most, 1.0)
    lengths = _lengths(facts, tile_m, tile_n)
    sizes = range(most, max(most - _MOST_SECTIONS, 0), -1)
    walks = [Walk(size, _share(lengths, facts.ratio * size, facts.ratio * facts.batch, ctas)) for size in sizes]
    return min(walks, key=lambda walk: round(walk.share, 2))  # the largest section among equals


def most_heads_in_l2(facts: AttentionFacts, device: Device) -> int:
    """Return how many heads of K and V the L2 holds, beside what streams through it."""
    head = facts.keys * (facts.d + facts.dv) * facts.in_bytes
    budget = _RESIDENT * device.value("quantities.l2") * 1e6
    return max(min(int(budget // max(head, 1)), facts.batch), 1)


def _lengths(facts: AttentionFacts, tile_m: int, tile_n: int) -> np.ndarray:
    """Return the work of each row block, the longest first: what they see grows evenly around its mean."""
    blocks = ceil_div(facts.queries, tile_m)
    place = (np.arange(blocks)[::-1] + 1) / blocks
    keys = np.clip(facts.most_keys * place + (2 * facts.mean_keys - facts.most_keys) * (1 - place), 1, facts.keys)
    return np.asarray(np.ceil(keys / tile_n) + _START)


def _share(lengths: np.ndarray, side_by_side: int, heads: int, ctas: int) -> float:
    """Return the work of the busiest CTA over the mean."""
    sections = [min(side_by_side, heads - first) for first in range(0, heads, side_by_side)]
    work = np.concatenate([np.repeat(lengths, size) for size in sections])
    turns = np.pad(work, (0, -len(work) % ctas)).reshape(-1, ctas)
    turns[1::2] = turns[1::2, ::-1]
    return float(turns.sum(0).max() / (work.sum() / ctas))
