"""Order the legal candidates of a GEMM by predicted time, best first, the same way in every run."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kgen.families.gemm.cost import (
    Launch,
    Raster,
    TileGrid,
    TileTime,
    choose_raster,
    completed,
    launches,
    tile_grid,
    tile_time,
)
from kgen.families.gemm.overlap import early_start
from kgen.families.gemm.rules_facts import GemmFacts
from kgen.planning.choice import Preference, Preferences, order_of
from kgen.planning.waves import GridWaves, cluster_slots, grid_waves
from kgen.rules.arithmetic import Numbers, ceil_div
from kgen.target import Device

CLUSTER_SIZES = (4, 8, 16)  # that a device file may say how many fit of


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """Columns of the cost model, one entry per candidate, and what orders the candidates."""

    preferences: Preferences
    total: np.ndarray
    ctas: np.ndarray  # tiles, those that fill up the last clusters included
    waves: GridWaves
    starts: np.ndarray  # how often CTAs start in turn: once where they are persistent
    tile: TileTime
    overlap: np.ndarray  # what each kernel of the launch saves by starting while the one before it ends; 0 where none
    raster: Raster
    padding: np.ndarray  # share of the computed tiles' area that is inside of D

    @property
    def order(self) -> np.ndarray:
        """The rows, best first."""
        return order_of(self.preferences)


def rank_gemm(columns: Mapping[str, np.ndarray], facts: GemmFacts, device: Device) -> Ranking:
    """Rank candidates given as columns of axes and lets."""
    columns = completed(columns)
    grid = tile_grid(columns, facts)
    slots = _cluster_slots(grid, device)
    waves = grid_waves(grid.clusters, slots * grid.ctas_per_unit)
    raster = choose_raster(columns, facts, device, waves.slots)
    active = np.minimum(waves.slots, grid.clusters) * grid.cluster_size
    side_by_side = np.minimum(grid.ctas_per_unit, np.maximum(ceil_div(grid.clusters, slots), 1))
    launch = Launch(raster, waves.waves, active, side_by_side)
    tile = tile_time(columns, facts, device, launch)
    starts = np.where(columns["cluster_k"] > 1, waves.waves, 1)
    per_tile = tile.mainloop + tile.exchange + tile.epilogue
    total = tile.launch + starts * tile.fill + tile.sum_parts + tile.cut + waves.waves * per_tile
    overlap = early_start(columns, facts, device, launch, tile, total)
    total = total - launches(columns) * overlap
    ctas = grid.clusters * grid.cluster_size
    area = ctas * columns["tile_m"] * columns["tile_n"] / (columns["split_k"] * columns["cluster_k"])
    padding = facts.m * facts.n * facts.batch / np.maximum(area, 1)
    return Ranking(_preferences(columns, total), total, ctas, waves, starts, tile, overlap, raster, padding)


def _cluster_slots(grid: TileGrid, device: Device) -> Numbers:
    """Return how many clusters of each candidate run at once, as far as the device file says."""
    groups = device.quantity("quantities.gpcs")
    said = {size: device.quantity(f"quantities.clusters_of_{size}") for size in CLUSTER_SIZES}
    known = {size: int(found.value) for size, found in said.items() if found is not None}
    return cluster_slots(grid.cluster_size, device.compute_units, int(groups.value) if groups else 1, known)


def _preferences(columns: Mapping[str, np.ndarray], total: np.ndarray) -> Preferences:
    """Return what orders candidates: the time, then smaller clusters, more threads and stages, larger tiles."""
    # A nanosecond is far below what the model resolves; without rounding, ties would hang on the last bit.
    return (
        Preference("predicted time", np.round(total, 3)),
        Preference("CTAs of a cluster", columns["cluster_m"] * columns["cluster_n"] * columns["cluster_k"]),
        Preference("threads", -columns["threads"], columns["threads"]),
        Preference("stages", -columns["stages"], columns["stages"]),
        Preference("elements of a tile", -columns["tile_m"] * columns["tile_n"], columns["tile_m"] * columns["tile_n"]),
    )
