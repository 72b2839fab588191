"""How long an attention takes; docs/attention.md derives it.

Works on whole columns of candidates and reads only the axes and lets that every attention.rules defines. It never
rejects.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kgen.families.attention.balance import walk_of
from kgen.families.attention.rules_facts import AttentionFacts
from kgen.rules.arithmetic import ceil_div
from kgen.target import Device

Columns = Mapping[str, np.ndarray]
Array = Any  # np.ndarray of floats or ints, one entry per candidate

PART_BYTES = 4  # of an element of the output that a split writes for the second kernel
PARTS_AT_ONCE = 8  # that the second kernel loads before it needs the first
PART_WAIT = 0.5  # of the latency of a load: parts lie in L2
DRAWN = 0.7  # of what a unit can draw from memory, as its CTAs wait for their products, too; nobody measured it
RESOURCES = ("mma", "softmax", "smem", "l2", "latency", "memory")
CHAIN = 6  # MMA latencies that one tile of scores waits for: products, the row's maximum, the turn of a warp group
ENDS = 1.0  # latencies of a load for what runs beside nothing: the first scores of a tile and its last values
Q_WAIT = 1.7  # the same for a Q that can not arrive before the output of the tile before has left

# What it reads of the fitted numbers of a device file.
FITTED = (
    "fitted.launch",
    "fitted.load_latency",
    "fitted.loop_efficiency",
    "fitted.unit_bandwidth",
    "fitted.mma_efficiency",
    "fitted.mma_latency",
    "fitted.l2_bandwidth",
    "fitted.epilogue_rate",
)


@dataclass(frozen=True, slots=True, eq=False)
class AttentionTime:
    """Microseconds: what each resource alone would take for the launch, what passes once, and all together.

    `tiles` are the CTAs' pieces of work.
    """

    mma: Array
    softmax: Array
    smem: Array
    l2: Array
    latency: Array
    memory: Array
    fill: Array
    parts: Array
    launch: float
    total: Array
    tiles: Array
    waves: Array
    efficiency: Array


def attention_time(columns: Columns, facts: AttentionFacts, device: Device) -> AttentionTime:
    """Return the predicted time of every candidate."""
    rows = columns["packed_rows"]
    heads = facts.batch * facts.ratio * facts.queries / np.maximum(rows, 1)
    tiles = ceil_div(rows, columns["tile_m"]) * np.maximum(heads, 0) * columns["splits"]
    share, steps = _walks(columns, facts, device)
    steps = steps / columns["splits"]
    slots = device.compute_units * np.maximum(columns["ctas_per_unit"], 1)
    waves = np.maximum(tiles / slots, 1.0) if facts.bounded else np.maximum(ceil_div(tiles, slots), 1)
    waves = waves * share
    cycles_per_us, boost = device.value("quantities.clock") * 1e3, device.value("quantities.boost_clock") * 1e3
    sharing = np.minimum(columns["ctas_per_unit"], np.maximum(ceil_div(tiles, device.compute_units), 1))
    mma = sharing * columns["mma_cycles"] / device.value("fitted.mma_efficiency") / cycles_per_us
    softmax = sharing * columns["softmax_cycles"] / boost
    l2 = _l2_step(columns, device, np.minimum(tiles, slots))
    both = np.maximum(mma, softmax) + (1 - columns["hidden"]) * np.minimum(mma, softmax)
    smem = sharing * columns["smem_moved"] / device.arch.limit("smem_bytes_per_cycle").value / boost
    arrival = device.value("fitted.load_latency") / np.maximum(columns["stages"] - 1, 0.5)
    latency = np.maximum(arrival, CHAIN * device.value("fitted.mma_latency") / boost)
    step = np.maximum.reduce([both + CHAIN * device.value("fitted.mma_latency") / boost, l2, smem, latency])
    epilogue = columns["tile_m"] * facts.dv / (device.value("fitted.epilogue_rate") * 1e3)
    ends = (ENDS + Q_WAIT * columns["q_waits"]) * device.value("fitted.load_latency")
    tile = steps * step + epilogue + ends
    memory = _memory(facts, device, tiles)
    fill = 2 * device.value("fitted.load_latency") / sharing  # another CTA of the unit draws meanwhile
    parts = _parts(columns, facts, device)
    launch = device.value("fitted.launch")
    return AttentionTime(
        mma=waves * steps * mma,
        softmax=waves * steps * softmax,
        smem=waves * steps * smem,
        l2=waves * steps * l2,
        latency=waves * steps * latency,
        memory=memory,
        fill=fill,
        parts=parts,
        launch=launch,
        total=launch + fill + parts + np.maximum(waves * tile, memory),
        tiles=tiles,
        waves=waves,
        efficiency=np.minimum(tiles / (waves * slots), 1.0),
    )


def _walks(columns: Columns, facts: AttentionFacts, device: Device) -> tuple[Array, Array]:
    """Return the work of the busiest CTA over the mean of all, and the tiles of keys that an average tile visits."""
    found, places = np.unique(np.stack([columns["tile_m"], columns["tile_n"]]), axis=1, return_inverse=True)
    walks = [walk_of(facts, device, int(m), int(n)) for m, n in found.T]
    pairs = np.array([(walk.share, walk.steps) for walk in walks]).reshape(-1, 2)[places.reshape(-1)]
    return pairs[:, 0], pairs[:, 1]


def _l2_step(columns: Columns, device: Device, active: Array) -> Array:
    """Return the time to bring K and V of one step from L2 while all active CTAs do the same."""
    unit_rate = device.arch.limit("l2_bytes_per_cycle").value * device.value("quantities.boost_clock") * 1e3
    shared = columns["step_bytes"] * active / (device.value("fitted.l2_bandwidth") * 1e6)
    return np.maximum(shared, columns["step_bytes"] / unit_rate)


def _memory(facts: AttentionFacts, device: Device, tiles: Array) -> Array:
    """Return the time of all operands' bytes past L2; few units cannot draw all that the memory gives."""
    rows, heads = facts.queries * facts.ratio * facts.batch, facts.batch
    operands = (rows + heads * facts.keys) * facts.d * facts.in_bytes + heads * facts.keys * facts.dv * facts.in_bytes
    scores = rows * facts.mean_keys * facts.score_load_bytes
    moved = operands + rows * facts.dv * facts.out_bytes + scores
    last = tiles % device.compute_units  # tiles that are left when every unit had as many
    alone = np.maximum(last, 1) * DRAWN * device.value("fitted.unit_bandwidth") * 1e3
    everyone = _memory_rate(device)
    share = last / np.maximum(tiles, 1)
    return np.asarray(moved * ((1 - share) / everyone + share / np.minimum(everyone, alone)), np.float64)


def _parts(columns: Columns, facts: AttentionFacts, device: Device) -> Array:
    """Return the time of what splits write, and of the kernel that joins it, which waits for some parts at a time."""
    rows = facts.queries * facts.ratio * facts.batch
    moved = 2 * PART_BYTES * rows * (facts.dv + 1) * columns["splits"]
    waits = ceil_div(columns["splits"], PARTS_AT_ONCE) * PART_WAIT * device.value("fitted.load_latency")
    return np.where(columns["splits"] > 1, moved / _memory_rate(device) + waits + device.value("fitted.launch"), 0.0)


def _memory_rate(device: Device) -> float:
    """Return the bytes that the memory moves in a microsecond when every unit reads: 4.46 TB/s of an H200.

    Decode reads K and V at 4.47 to 4.50 there.
    """
    return device.value("quantities.memory_bandwidth") * 1e6 * device.value("fitted.loop_efficiency")
