"""LDS bank conflicts: how many more cycles an access takes than the lanes of each pass need at least.

The lanes of a wave are served in passes; within a pass every bank serves one 4-byte word. Lanes that read the same word
share it. Passes and banks:
- gfx942, 32 banks: b32 takes 2 passes of 32 lanes, b64 4 of 16, b128 8 of 8; reads of b128 pair each 4 lanes with the 4
  that ROCm's blog "Avoiding LDS Bank Conflicts on AMD GPUs Using CK-Tile Framework" lists (0-3 with 20-23, ...).
- gfx950: reads have 64 banks: b64 2 passes of 32 lanes, b128 4 of 16 (0-3, 12-15, 20-27; ...), as the HipKittens
  project measured (analysis/paper_experiments/phases); b32 is taken as one pass of 64. Writes have 32 banks and the
  passes of gfx942 (measured there for b64).
- b96: 32 banks, 8 lanes a pass; reads pair their lanes as b128 of gfx942 does (measured on gfx950).
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from kgen.simulator.arrays import Array, Rows

WORD = 4


@dataclass(frozen=True, slots=True)
class Passes:
    """How the lanes of a wave are served."""

    banks: int
    lanes: tuple[tuple[int, ...], ...]


def in_order(count: int) -> tuple[tuple[int, ...], ...]:
    """Return passes of `count` neighbouring lanes."""
    return tuple(tuple(range(first, first + count)) for first in range(0, 64, count))


def quads(*groups: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Return passes made of groups of 4 lanes, given by their first lanes."""
    return tuple(tuple(first + lane for first in group for lane in range(4)) for group in groups)


READ_B128_GFX942 = quads((0, 20), (4, 16), (8, 28), (12, 24), (32, 52), (36, 48), (40, 60), (44, 56))
READ_B128_GFX950 = quads((0, 12, 20, 24), (4, 8, 16, 28), (32, 44, 52, 56), (36, 40, 48, 60))


@cache
def passes(arch: str, size: int, write: bool) -> Passes:
    """Return the passes of an access of `size` bytes a lane."""
    width = 4 if size <= 4 else 8 if size <= 8 else 16
    if size == 12 and not write:
        return Passes(32, READ_B128_GFX942)
    if arch == "gfx950" and not write:
        return Passes(64, {4: in_order(64), 8: in_order(32), 16: READ_B128_GFX950}[width])
    if write:
        return Passes(32, in_order(128 // width))
    return Passes(32, {4: in_order(32), 8: in_order(16), 16: READ_B128_GFX942}[width])


def conflict_cycles(arch: str, size: int, write: bool, addresses: Rows, active: Array) -> int:
    """Return the lost cycles of accesses [w, lane] of `size` bytes."""
    scheme = passes(arch, size, write)
    words = max(1, size // WORD)
    order = np.array(scheme.lanes)
    first = np.where(active, addresses // WORD, -1)[:, order]  # [w, pass, lane]
    if words in (2, 4) and np.all(addresses[active] % size == 0):  # whole groups of banks: one unit a lane is enough
        return lost(first // words, scheme.banks // words)
    touched = first[..., None] + np.arange(words)
    touched = np.where(first[..., None] < 0, -1, touched).reshape(*first.shape[:2], -1)
    return lost(touched, scheme.banks)


def lost(words: Array, banks: int) -> int:
    """Return, summed over passes, by how much the words of the fullest bank exceed one; -1 stands for no access."""
    rows = np.sort(words.reshape(-1, words.shape[-1]), axis=1)
    distinct = rows >= 0
    distinct[:, 1:] &= rows[:, 1:] != rows[:, :-1]
    number = np.arange(len(rows))[:, None] * banks + rows % banks
    counts = np.bincount(number[distinct], minlength=len(rows) * banks).reshape(len(rows), banks)
    return int(np.maximum(counts.max(axis=1) - 1, 0).sum())
