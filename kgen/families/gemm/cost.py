"""How long one tile of a GEMM takes, and in which order the tiles should run; docs/cost_model.md derives it.

Works on whole columns of candidates and reads only tile, stages, the lets that every gemm.rules defines and those
columns of `OPTIONAL_COLUMNS`.
It never rejects. `kgen.planning.rank` multiplies by the grid waves.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kgen.families.gemm.groups import mean_rows, merged_share, multiplied_share, operand_bytes, row_tiles
from kgen.families.gemm.rules_facts import OPTIONAL_COLUMNS, GemmFacts
from kgen.rules.arithmetic import ceil_div
from kgen.target import Device

Columns = Mapping[str, np.ndarray]
Array = Any  # np.ndarray of floats or ints, one entry per candidate

RASTER_GROUPS = (1, 2, 4, 8, 16)
PARTIAL_BYTES = 4  # of an element of D that a part of k writes for the second kernel
GROUP_TILES = 16  # of a group of rows that are walked side by side: as many rows as columns run at once
L2_SHARE = 0.8  # of the L2 that operands may fill before they evict one another
CONTENTION = 8  # exponent of the generalised mean that joins resources: near the slowest, worse when several are busy
OUTSIDE_SLACK = 8  # rows of a tile outside of D that bulk loads fill at no cost
OUTSIDE_SERIAL = 0.4  # of the time of rows outside: the rest is the loads', which a memory that is busier hides
CUT_LAUNCHES = 2  # beside the product of planes: the kernel that cuts both operands, and the one that looks after it
CLUSTER_COUPLING = 0.015  # loss for each further CTA whose stage a multicast has to wait for
PART_COUPLING = 0.2  # the same where CTAs multiply parts of k, whose loads come from memory at times of their own
PART_REQUESTS = 0.8  # of the L2's time, where CTAs that multiply one part of k ask one L2 for the same rows at once

# What it reads of the fitted numbers of a device file.
FITTED = (
    "fitted.launch",
    "fitted.cluster_start",
    "fitted.load_latency",
    "fitted.memory_latency",
    "fitted.mma_efficiency",
    "fitted.simt_efficiency",
    "fitted.memory_efficiency",
    "fitted.unit_bandwidth",
    "fitted.l2_bandwidth",
    "fitted.epilogue_step",
    "fitted.epilogue_rate",
    "fitted.mma_latency",
    "fitted.direct_rate",
    "fitted.staged_rate",
    "fitted.part_latency",
    "fitted.part_rate",
)


@dataclass(frozen=True, slots=True, eq=False)
class TileGrid:
    """The output in clusters of tiles: along m, along n, in all, parts of k too; CTAs per cluster and compute unit."""

    clusters_m: Array
    clusters_n: Array
    clusters: Array
    cluster_size: Array
    ctas_per_unit: Array


@dataclass(frozen=True, slots=True, eq=False)
class Raster:
    """Order of the clusters: bands `group` clusters wide, walked along m or n; and the bytes it reads from memory."""

    along_m: Array
    group: Array
    memory_bytes: Array


@dataclass(frozen=True, slots=True, eq=False)
class Launch:
    """How the tiles run: their order, the grid waves they take, how many CTAs are active at once, and on one unit."""

    raster: Raster
    waves: Array
    active: Array
    ctas_per_unit: Array


@dataclass(frozen=True, slots=True, eq=False)
class TileTime:
    """Microseconds of one tile: what each resource alone would take, mainloop, exchange and epilogue; once: the rest.

    `exchange` adds up what the CTAs of a cluster hold of one tile; such CTAs start anew for each tile, so that `fill`
    counts as often. `sum_parts` is the second kernel of a split along k, with what the first one writes for it. `cut`
    are the kernels that make planes of operands before the product, and that look for what these cannot hold after it.
    """

    mma: Array
    smem: Array
    l2: Array
    memory: Array
    latency: Array
    staged: Array
    mainloop: Array
    exchange: Array
    epilogue: Array
    fill: Array
    sum_parts: Array
    cut: Array
    launch: float


def completed(columns: Columns) -> Columns:
    """Return candidates with the columns that their arch may lack: all that the functions below take."""
    return {**{name: np.full_like(columns["tile_m"], count) for name, count in OPTIONAL_COLUMNS.items()}, **columns}


def sides(columns: Columns, facts: GemmFacts) -> tuple[Array, Array]:
    """Return the extents that tile_m and tile_n divide: m and n, or n and m where operands are exchanged."""
    exchanged = columns["swap"] == 1
    return np.where(exchanged, facts.n, facts.m), np.where(exchanged, facts.m, facts.n)


def tile_grid(columns: Columns, facts: GemmFacts) -> TileGrid:
    """Return how the output divides into clusters of tiles."""
    m, n = sides(columns, facts)
    tiles_m = row_tiles(facts, columns["tile_m"]) if facts.groups else ceil_div(m, columns["tile_m"])
    clusters_m = ceil_div(tiles_m, columns["cluster_m"])
    clusters_n = ceil_div(ceil_div(n, columns["tile_n"]), columns["cluster_n"])
    return TileGrid(
        clusters_m=clusters_m,
        clusters_n=clusters_n,
        clusters=clusters_m * clusters_n * facts.batch * columns["split_k"],
        cluster_size=columns["cluster_m"] * columns["cluster_n"] * columns["cluster_k"],
        ctas_per_unit=np.maximum(columns["ctas_per_unit"], 1).astype(np.int64),
    )


def choose_raster(columns: Columns, facts: GemmFacts, device: Device, slots: Array) -> Raster:
    """Return the order of tiles that reads the fewest bytes past L2, per candidate.

    Each die has an L2 of its own and a contiguous share of the tiles. A cache behind them all that holds both operands
    leaves of their traffic to memory what has to be read once.
    """
    grid = tile_grid(columns, facts)
    if facts.groups:
        across_m = np.zeros_like(grid.clusters, dtype=bool)
        return Raster(across_m, np.full_like(grid.clusters, GROUP_TILES), across_m + operand_bytes(facts))
    dies = int(device.value("quantities.dies"))
    best: Raster | None = None
    for along_m in (True, False):
        for group in RASTER_GROUPS:
            walk = _Walk(grid, np.maximum(slots // dies, 1), along_m, group)
            moved = _operand_traffic(columns, facts, device.value("quantities.l2") / dies, walk)
            here = Raster(np.full(moved.shape, along_m), np.full(moved.shape, group), moved)
            best = here if best is None else _fewer(best, here)
    assert best is not None
    behind, least = device.quantity("quantities.last_level_cache"), (facts.m + facts.n) * facts.k * facts.in_bytes
    if behind is not None and least <= L2_SHARE * behind.value * 1e6:
        return replace(best, memory_bytes=np.minimum(best.memory_bytes, float(least * facts.batch)))
    return best


def _fewer(first: Raster, second: Raster) -> Raster:
    better = second.memory_bytes < first.memory_bytes * (1 - 1e-9)
    return Raster(
        np.where(better, second.along_m, first.along_m),
        np.where(better, second.group, first.group),
        np.where(better, second.memory_bytes, first.memory_bytes),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Walk:
    """One order of tiles: how many clusters along m and n run at once."""

    grid: TileGrid
    slots: Array
    along_m: bool
    group: int

    @property
    def resident(self) -> tuple[Array, Array, Array]:
        """Clusters along m and n of one batch entry that run at once, and the waves each batch entry takes."""
        along, across = self.grid.clusters_m, self.grid.clusters_n
        if not self.along_m:
            along, across = across, along
        one_batch = np.maximum(along * across, 1)
        at_once = np.minimum(self.slots, one_batch)
        wide = np.minimum(across, np.maximum(self.group, ceil_div(at_once, np.maximum(along, 1))))
        deep = np.minimum(along, ceil_div(at_once, np.maximum(wide, 1)))
        sides = (deep, wide) if self.along_m else (wide, deep)
        return *sides, one_batch / at_once


def _operand_traffic(columns: Columns, facts: GemmFacts, l2_megabytes: float, walk: _Walk) -> Array:
    """Return the bytes of A and B read past L2: each wave reads its rows and columns once, unless L2 keeps all."""
    at_m, at_n, waves = walk.resident
    row_bytes = facts.k * facts.in_bytes
    m, n = sides(columns, facts)
    rows = np.minimum(at_m * columns["cluster_m"] * columns["tile_m"], m)
    cols = np.minimum(at_n * columns["cluster_n"] * columns["tile_n"], n)
    least_a, least_b = m * row_bytes, n * row_bytes
    keeps_all = (facts.m + facts.n) * row_bytes <= L2_SHARE * l2_megabytes * 1e6
    if keeps_all:
        return np.full(rows.shape, float((facts.m + facts.n) * row_bytes * facts.batch))
    moved = np.maximum(rows * row_bytes * waves, least_a) + np.maximum(cols * row_bytes * waves, least_b)
    return np.asarray(moved * facts.batch, np.float64)


def tile_time(columns: Columns, facts: GemmFacts, device: Device, launch: Launch) -> TileTime:
    """Return the time of one tile among all that its launch runs."""
    resources = _resources(columns, facts, device, launch)
    loss = np.where(columns["split_k"] > 1, PART_COUPLING, CLUSTER_COUPLING)
    coupling = 1 + loss * (columns["cluster_m"] * columns["cluster_n"] - 1)
    return TileTime(
        **resources,
        mainloop=coupling * _contended(*resources.values()) + OUTSIDE_SERIAL * _outside(columns, facts, device, launch),
        exchange=_exchange(columns, device),
        epilogue=_epilogue(columns, facts, device, launch.active),
        fill=_fill(columns, facts, device, launch.active),
        sum_parts=_sum_parts(columns, facts, device),
        cut=_cut(columns, facts, device),
        launch=device.value("fitted.launch"),
    )


def _resources(columns: Columns, facts: GemmFacts, device: Device, launch: Launch) -> dict[str, Array]:
    """Return what each resource alone would take for the mainloop of one tile."""
    cycles_per_us, boost = device.value("quantities.clock") * 1e3, device.value("quantities.boost_clock") * 1e3
    k_steps = _k_steps(columns, facts)
    tensor = columns["mma_cycles"] / device.value("fitted.mma_efficiency")
    tensor = tensor * multiplied_share(facts, columns["tile_m"]) if facts.groups else tensor
    simt = columns["simt_cycles"] / device.value("fitted.simt_efficiency")
    smem_rate = device.arch.limit("smem_bytes_per_cycle").value
    smem_bytes = (columns["smem_read_bytes"] + columns["stage_bytes"]) * launch.ctas_per_unit
    staged = columns["staged_elements"] * launch.ctas_per_unit / (device.value("fitted.staged_rate") * 1e3)
    asks_at_once = (columns["split_k"] > 1) & (device.value("quantities.dies") == 1)
    requests = np.where(asks_at_once, PART_REQUESTS, 1.0)
    arrival = _load_latency(columns, facts, device) / np.maximum(columns["stages"] - 1, 1)
    chain = columns["mma_chain"] * device.value("fitted.mma_latency") / boost
    outside = _outside(columns, facts, device, launch)
    return {
        "mma": k_steps * (tensor + simt) * launch.ctas_per_unit / cycles_per_us,
        "smem": k_steps * smem_bytes / smem_rate / boost,
        "l2": k_steps * _l2_step(columns, facts, device, launch.active) * requests + (1 - OUTSIDE_SERIAL) * outside,
        "memory": _memory(facts, device, launch),
        "latency": k_steps * np.maximum(arrival, chain),
        "staged": k_steps * staged,
    }


def _outside(columns: Columns, facts: GemmFacts, device: Device, launch: Launch) -> Array:
    """Return the time that bulk loads take to fill rows of tiles that lie outside of A and B; 0 where none are known.

    With one wave the last tiles count, which have the most of them, with many the mean.
    """
    cost = device.quantity("fitted.outside_row")
    if cost is None:
        return np.zeros_like(columns["tile_m"], np.float64)
    rows = np.zeros_like(columns["tile_m"], np.float64)
    for extent, tile in zip(sides(columns, facts), ("tile_m", "tile_n"), strict=True):
        empty = ceil_div(extent, columns[tile]) * columns[tile] - extent
        here = np.where(launch.waves > 1, empty / np.maximum(ceil_div(extent, columns[tile]), 1), empty)
        rows += np.maximum(here - OUTSIDE_SLACK, 0)
    is_bulk = (columns["staged_elements"] == 0) & (columns["simt_cycles"] == 0)
    return np.where(is_bulk, _k_steps(columns, facts) * rows * cost.value * 1e-3, 0.0)


def _k_steps(columns: Columns, facts: GemmFacts) -> Array:
    """Return the steps of the mainloop of one CTA."""
    return ceil_div(ceil_div(facts.k, columns["tile_k"]), columns["split_k"] * columns["cluster_k"])


def _memory(facts: GemmFacts, device: Device, launch: Launch) -> Array:
    """Return a tile's share of the time of all bytes past L2; few units cannot draw all that the memory gives."""
    units = np.clip(launch.active, 1, device.compute_units)
    rate = np.minimum(_memory_rate(device), units * device.value("fitted.unit_bandwidth") * 1e3)
    output = facts.m * facts.n / facts.products * facts.batch * (facts.out_bytes + facts.epilogue_load_bytes)
    return (launch.raster.memory_bytes + output) / rate / np.maximum(launch.waves, 1)


def _load_latency(columns: Columns, facts: GemmFacts, device: Device) -> Array:
    """Return how long a stage's loads take: longer, where few tiles read an operand, so that most come from memory."""
    m, n = sides(columns, facts) if not facts.groups else (mean_rows(facts), facts.n)
    readers = np.minimum(ceil_div(m, columns["tile_m"]), ceil_div(n, columns["tile_n"]))
    return np.maximum(
        device.value("fitted.load_latency"), device.value("fitted.memory_latency") / np.maximum(readers, 1)
    )


def _sum_parts(columns: Columns, facts: GemmFacts, device: Device) -> Array:
    """Return the time of writing all parts of a split along k, and of the kernel that sums them; 0 without a split.

    They come back from the L2 that all units share, where they fit: each of several dies reads what others wrote.
    """
    parts = facts.m * facts.n * facts.batch * PARTIAL_BYTES * columns["split_k"]
    kept = L2_SHARE * device.value("quantities.l2") * 1e6 if device.value("quantities.dies") == 1 else 0.0
    read_rate = np.where(parts <= kept, device.value("fitted.l2_bandwidth") * 1e6, _memory_rate(device))
    times = parts / _memory_rate(device) + parts / read_rate + device.value("fitted.launch")
    return np.where(columns["split_k"] > 1, times, 0.0)


def _cut(columns: Columns, facts: GemmFacts, device: Device) -> Array:
    """Return the time of cutting both operands into planes and of the kernel after them; 0 without planes.

    Each operand is read twice, for its rows' largest values first; the planes have as many bytes as it.
    """
    moved = 3 * (facts.m + facts.n) * facts.k * facts.in_bytes * facts.batch
    kernels = CUT_LAUNCHES * device.value("fitted.launch")
    return np.where(columns["planes"] > 0, moved / _memory_rate(device) + kernels, 0.0)


def launches(columns: Columns) -> Array:
    """Return how many kernels run in turn."""
    return np.where(columns["planes"] > 0, 1 + CUT_LAUNCHES, 1)


def _exchange(columns: Columns, device: Device) -> Array:
    """Return the time until a CTA has what the others of its cluster hold of its share of a tile."""
    arriving = columns["exchange_bytes"] / (device.value("fitted.part_rate") * 1e3)
    return np.where(columns["cluster_k"] > 1, device.value("fitted.part_latency") + arriving, 0.0)


def _contended(*times: Array) -> Array:
    """Join the times of resources that work side by side."""
    slowest = np.maximum(np.maximum.reduce(times), 1e-9)
    return slowest * np.sum([(time / slowest) ** CONTENTION for time in times], axis=0) ** (1 / CONTENTION)


def _fill(columns: Columns, facts: GemmFacts, device: Device, active: Array) -> Array:
    """Return the time until the first product: the cluster's start and the first stage's arrival."""
    others = columns["cluster_m"] * columns["cluster_n"] * columns["cluster_k"] - 1
    start = device.value("fitted.load_latency") + device.value("fitted.cluster_start") * others
    return start + _l2_step(columns, facts, device, active)


def _loaded(columns: Columns, facts: GemmFacts) -> Array:
    """Return the bytes that one CTA loads in one k step; rows outside of D come from nowhere (see `_outside`)."""
    share_m = columns["tile_m"] / columns["cluster_n"]
    share_n = columns["tile_n"] / columns["cluster_m"]
    m, n = sides(columns, facts)
    inside = share_m * np.minimum(1, m / columns["tile_m"]) + share_n * np.minimum(1, n / columns["tile_n"])
    if facts.groups:
        return columns["load_bytes"] * merged_share(facts, columns["tile_m"], share_m / (share_m + share_n))
    return columns["load_bytes"] * inside / (share_m + share_n)


def _l2_step(columns: Columns, facts: GemmFacts, device: Device, active: Array) -> Array:
    """Return the time to bring one k step from L2 while all active CTAs do the same."""
    loaded = _loaded(columns, facts)
    unit_rate = device.arch.limit("l2_bytes_per_cycle").value * device.value("quantities.boost_clock") * 1e3
    at_unit = loaded * columns["resident"] / unit_rate
    return np.maximum(loaded * active / (device.value("fitted.l2_bandwidth") * 1e6), at_unit)


def _epilogue(columns: Columns, facts: GemmFacts, device: Device, active: Array) -> Array:
    """Return the time from the last product to the last store of a tile, with what the epilogue loads."""
    elements = columns["tile_m"] * columns["tile_n"] / columns["shares"]
    per_us = device.value("fitted.epilogue_rate") * 1e3
    steps = columns["epilogue_steps"] * device.value("fitted.epilogue_step")
    direct = columns["direct_elements"] / (device.value("fitted.direct_rate") * 1e3)
    stored = steps + elements / per_us + direct
    return stored + elements / facts.products * active * facts.epilogue_load_bytes / _memory_rate(device)


def _memory_rate(device: Device) -> float:
    """Return the bytes that the memory moves in a microsecond when every unit asks for them."""
    return device.value("quantities.memory_bandwidth") * 1e6 * device.value("fitted.memory_efficiency")
