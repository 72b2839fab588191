"""Grid waves: how often the device fills up until every cluster of tiles has run. Neutral to family and device."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kgen.rules.arithmetic import Numbers, ceil_div


@dataclass(frozen=True, slots=True, eq=False)
class GridWaves:
    """`waves` of `slots` clusters at once; `efficiency` is the filled share of all waves."""

    slots: Numbers
    waves: Numbers
    efficiency: Numbers


def cluster_slots(cluster_size: Numbers, compute_units: int, groups: int, known: Mapping[int, int]) -> Numbers:
    """Return how many clusters fit the device at once.

    A cluster stays inside one of `groups` groups of units (GPCs). Pairs fit everywhere; larger clusters leave the
    remainder of each group idle. Groups are as uneven as the units that a card lacks: what the driver says of a size of
    clusters is `known`, and holds for the sizes below it that it says nothing of.
    """
    size = np.maximum(cluster_size, 1)
    slots = groups * (compute_units // groups // size)
    for largest in sorted(known, reverse=True):
        slots = np.where(size <= largest, known[largest], slots)
    return np.maximum(np.where(size > 2, slots, compute_units // size), 1)


def grid_waves(clusters: Numbers, slots: Numbers) -> GridWaves:
    """Return the waves of a grid of which `slots` clusters run at once."""
    waves = ceil_div(clusters, slots)
    efficiency = clusters / np.maximum(waves * slots, 1)
    return GridWaves(slots, waves, efficiency)
