"""How long a loop kernel takes: bytes through memory, work of the units, and what a CTA waits for; docs/cost_model.md.

Works on whole columns of candidates and reads the axes and the lets that the rules of the loop families define. It
never rejects. The constants are fitted to `benchmarks/loop_candidates.py`; those of a device are in its file.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kgen.families.strided.caching import passes_l2
from kgen.families.strided.facts import LoopFacts
from kgen.rules.arithmetic import ceil_div
from kgen.target import Device

Columns = Mapping[str, np.ndarray]
Array = Any  # np.ndarray, one entry per candidate

OP_CYCLES = 2.1  # issue slots of one op on one element
STAGED_CYCLES = 2.0  # the same, of taking one element from smem once
STAGED_THREADS = 1024  # of a unit that take elements from smem as fast as they can
VECTOR_CYCLES = 8.0  # of the addresses, loads and stores of one vector
RUN_BYTES = 5.1  # that each run of consecutive bytes costs beside what it moves
# Neighbouring bytes that a CTA reads at once than which more are no better; rows that it holds whole are neighbours.
# A device may state more for rows.
LONG_RUN = {"flat": 1, "rows": 4096, "columns": 256}
# Vectors in flight than which fewer are no better; twice as many of one element.
FEW_STEPS = {"flat": 1, "rows": 2, "columns": 4}
FLIGHT_BYTES = 1500  # in flight on a unit that are worth nothing
ENOUGH_BYTES = 32e3  # in flight on a unit that keep the memory busy
# Of the time, for each doubling of bytes in flight beyond that where as much is written as read, and all leaves the L2
# alike; where what is read stays longer (`caching`) there is no such loss.
CROWDING = 0.045
STAGED_CLUSTER = 1.065  # of memory's time, where CTAs of a cluster copy asynchronously: softmax of 131,072 elements
NARROW = 1.5  # the same, relative, of accesses below 16 bytes down columns: each holds lines of L1 meanwhile
CLUSTER_START = 5.0  # what starting a CTA of a cluster takes, in terms of one alone
TAIL = 0.08  # of the time over the number of grid waves, while the last CTAs leave units idle
CONTENTION = 6.6  # exponent of the generalised mean that joins resources
DRAIN = 0.13  # of the time of a unit with as many threads, for it is not full while its CTAs start, exchange and end
FEW_THREADS = 256
JOIN_CYCLES = 1.6  # issue slots of one shuffle step of one state, and of its square: each part meets the others
SERIAL = 0.2  # of the computing that a lone CTA on a unit does while nothing is loaded
L1_COST = 0.34  # of a read that hits L1, in terms of memory
L2_RATE = 0.59  # of the L2's bandwidth that reads and writes reach side by side
L2_RATE_ASYNC = 0.85  # the same, where what is read goes to smem asynchronously
WHOLE_L1 = 1.6  # of the L1 that elements pass through, what it has where they do not
CARVE_BYTES = 32e3  # steps, about, in which L1 gives way to smem
LATE_HIT_US = 0.1  # of one vector of what rows share, from L1, that is read when it is needed
LATE_SHARE = 0.15  # of waiting for such vectors that nothing hides
L2_SHARE = 0.5  # of the L2 that rows read again may fill
L2_COST = 0.62  # of a read that hits L2, in terms of memory
AGAIN_COST = 1.2  # of reading memory again while other rows are written, in terms of the first time
WARP_EXCHANGE_US = 0.0005  # of one shuffle step of all values
SMEM_EXCHANGE_US = 0.1
COLUMN_EXCHANGE_US = 0.008  # of one state that a thread reads from smem to combine a column
CHAIN_CYCLES = 0.3  # from one op of a thread to the next that waits for it


@dataclass(frozen=True, slots=True, eq=False)
class LoopTime:
    """Microseconds of a launch: what each resource alone would take, and all of it together."""

    memory: Array  # bytes at the device's bandwidth
    reach: Array  # bytes at what the busy units can draw
    l2: Array  # what all units read and write, shared tensors included
    compute: Array
    waiting: Array  # latencies that the CTAs at once do not hide
    ctas: Array  # starting them
    fill: float
    launch: float
    total: Array
    waves: Array
    efficiency: Array
    rereads: Array  # whether a row is read more than once
    steps: Array  # vectors of a thread in flight; so few that fewer are no better count alike
    sharing: Array  # threads along a row
    staged: Array  # whether elements lie in smem
    run: Array  # neighbouring bytes that a CTA reads at once, in terms of a long run: 1 at most


RESOURCES = ("memory", "reach", "l2", "compute", "waiting", "ctas")


def loop_time(columns: Columns, facts: LoopFacts, device: Device) -> LoopTime:
    """Return the predicted time of every candidate."""
    shape = _Shape(columns, facts)
    slots = np.maximum(device.compute_units // shape.cluster, 1) * shape.cluster * shape.per_unit
    ctas = np.maximum(shape.ctas, 1)  # of an empty result, too
    active, units = np.minimum(slots, ctas), np.minimum(device.compute_units, ctas)
    elements = facts.rows * facts.cols
    again = 1 + (shape.sweeps - 1) * _reread(shape, facts, device, active)
    moved = elements * (facts.load_bytes * again + facts.store_bytes) / shape.coalescing
    wanted = shape.steps * shape.vec * max(facts.held_bytes, 1)
    in_flight = np.maximum(columns.get("in_flight", wanted), 1)  # bytes of a thread
    flight = shape.per_unit * shape.threads * in_flight
    bandwidth = device.value("quantities.memory_bandwidth") * 1e6 * device.value("fitted.loop_efficiency")  # bytes/us
    cache_rate = device.value("fitted.l2_bandwidth") * 1e6 * np.where(shape.staged, L2_RATE_ASYNC, L2_RATE)
    slots_per_us = device.value("fitted.unit_lanes") * device.value("quantities.clock") * 1e3 * units
    taken = np.where(shape.staged, STAGED_CYCLES * (facts.phases + facts.writes_elements), 0.0)
    of_element = VECTOR_CYCLES / shape.vec + OP_CYCLES * facts.ops + taken
    work = elements * shape.padding * of_element + _joins(shape, facts, device)
    latency, launch = device.value("fitted.loop_latency"), device.value("fitted.launch")
    chain = shape.steps * shape.vec * max(facts.ops, 1) * CHAIN_CYCLES / (device.value("quantities.clock") * 1e3)
    round_trips = latency * ceil_div(wanted, in_flight)
    one = shape.sweeps * shape.chunks * (round_trips + chain) + _exchange(shape, facts, device)
    late = shape.late * _late_us(shape, facts, device)
    exposed = LATE_SHARE * late * ctas / active if shape.reads_ahead else 0.0
    one = one + late
    times = {
        "memory": moved / bandwidth * (1 + FLIGHT_BYTES / flight) * _crowding(flight, shape, facts, device),
        "reach": moved / (device.value("fitted.unit_bandwidth") * 1e3 * units),
        "l2": elements * _l2_bytes(shape, facts, device) / cache_rate,
        "compute": work / slots_per_us,
        "waiting": one * ctas / active,
        "ctas": ctas * np.where(shape.cluster > 1, CLUSTER_START, 1.0) * device.value("fitted.cta_start") * 1e-3,
    }
    times["memory"] = times["memory"] * np.where(shape.staged & (shape.cluster > 1), STAGED_CLUSTER, 1.0)
    times["compute"] = times["compute"] * np.where(
        shape.staged, np.maximum(STAGED_THREADS / (shape.per_unit * shape.threads), 1), 1.0
    )
    slowest = np.maximum(np.maximum.reduce(list(times.values())), 1e-9)
    joined = slowest * np.sum([(t / slowest) ** CONTENTION for t in times.values()], axis=0) ** (1 / CONTENTION)
    alone = times["compute"] * SERIAL / shape.per_unit
    drain = DRAIN * (FEW_THREADS / (shape.per_unit * shape.threads)) ** 2
    tail = TAIL * np.minimum(slots / ctas, 1)
    total = launch + latency / 2 + np.maximum(joined * (1 + drain + tail) + alone + exposed, one)
    waves = ceil_div(ctas, slots)
    return LoopTime(
        **times,
        fill=latency / 2,
        launch=launch,
        total=total,
        waves=waves,
        efficiency=ctas / (waves * slots),
        rereads=(shape.sweeps > 1) & (shape.chunks > 1),
        steps=np.maximum(shape.steps, FEW_STEPS[facts.layout] * np.where(shape.vec > 1, 1, 2)),
        staged=shape.staged,
        sharing=shape.row_threads if facts.layout == "rows" else np.ones_like(shape.vec),
        run=np.minimum(shape.run / _long_run(facts, device), 1),
    )


class _Shape:
    """What a candidate does with the rows: chunks, sweeps and idle places."""

    def __init__(self, columns: Columns, facts: LoopFacts) -> None:
        self.vec, self.steps, self.threads = columns["vec"], columns["steps"], columns["threads"]
        one = np.ones_like(self.vec)
        self.cluster = columns.get("cluster", one)
        self.row_threads = columns.get("row_threads", one)
        self.ctas, self.per_unit = columns["ctas"], np.maximum(columns["ctas_per_unit"], 1)
        flat, in_rows = facts.layout == "flat", facts.layout == "rows"
        schedule = columns.get("schedule")
        self.staged = np.zeros_like(one, bool) if schedule is None else schedule == "staged"
        self.smem_bytes = columns.get("smem_bytes", np.zeros_like(one))
        once = one.astype(bool) if schedule is None else (schedule == "resident") | self.staged
        scan = np.zeros_like(once) if schedule is None else schedule == "scan"
        span = self.row_threads * self.cluster * (self.vec if in_rows else 1) * self.steps
        self.chunks = one if flat else np.where(once, 1, ceil_div(max(facts.cols, 1), span))
        self.sweeps = one if flat else np.where(once | scan, 1, max(facts.phases + facts.writes_elements, 1))
        self.padding = one if flat else np.maximum(span * self.chunks / max(facts.cols, 1), 1)
        self.scans = scan
        ahead = columns.get("ahead")
        after = 1 if ahead is None else np.where(ahead > 0, ceil_div(self.steps, np.maximum(ahead, 1)) - 1, self.steps)
        self.reads_ahead = ahead is not None
        self.late = np.where(once, after, one) * bool(facts.shared_bytes)  # round trips for what rows share, in turn
        side_by_side = self.row_threads if in_rows else self.threads // self.row_threads
        run = self.vec * (self.threads if flat else side_by_side) * facts.narrow_bytes
        self.coalescing = run / (run + RUN_BYTES)
        self.run = run if facts.layout == "columns" else np.where(self.chunks > 1, run, np.inf)
        self.rows_of_cta = self.threads // self.row_threads * (1 if in_rows else self.vec)


def _long_run(facts: LoopFacts, device: Device) -> float:
    """Return the neighbouring bytes than which more are no better."""
    stated = device.quantity("fitted.row_run")
    return stated.value * 1e3 if stated and facts.layout == "rows" else LONG_RUN[facts.layout]


def _crowding(flight: Array, shape: _Shape, facts: LoopFacts, device: Device) -> Array:
    """Return how much longer memory takes when more is in flight than needed, beside writes or by narrow accesses."""
    kept = device.quantity("fitted.kept_reads")
    if facts.writes_elements and kept is not None and passes_l2(facts, device):
        return kept.value
    mixed = 2 * min(facts.load_bytes, facts.store_bytes) / max(facts.load_bytes + facts.store_bytes, 1)
    is_narrow = (shape.vec * facts.narrow_bytes < 16) & (facts.layout == "columns")
    narrow = np.where(is_narrow, NARROW, 0.0)
    return 1 + CROWDING * (mixed + narrow) * np.log2(np.maximum(flight / ENOUGH_BYTES, 1))


def _reread(shape: _Shape, facts: LoopFacts, device: Device, active: Array) -> Array:
    """Return what reading the elements once more costs, in terms of the first time."""
    held = shape.rows_of_cta * facts.cols * facts.load_bytes
    in_l1 = shape.per_unit * held <= device.value("fitted.unit_l1") * 1e3
    in_l2 = active * held <= L2_SHARE * device.value("quantities.l2") * 1e6
    return np.where(shape.chunks == 1, 0.0, np.where(in_l1, L1_COST, np.where(in_l2, L2_COST, AGAIN_COST)))


def _l2_bytes(shape: _Shape, facts: LoopFacts, device: Device) -> Array:
    """Return the bytes of an element that all units read and write."""
    return facts.load_bytes * shape.sweeps + facts.store_bytes + _shared(shape, facts, device)


def _shared(shape: _Shape, facts: LoopFacts, device: Device) -> Array:
    """Return the bytes of an element that come from L2 though many rows share them."""
    return facts.shared_bytes * _missed(shape, facts, device)


def _late_us(shape: _Shape, facts: LoopFacts, device: Device) -> Array:
    """Return how long one vector of what rows share takes in the last pass.

    Where a kernel's tensors stay in the L2, hits of L1 were not found to cost anything.
    """
    missed = _missed(shape, facts, device)
    hits = LATE_HIT_US * (1 - missed) if shape.reads_ahead and passes_l2(facts, device) else 0.0
    return device.value("fitted.loop_latency") * missed + hits


def _missed(shape: _Shape, facts: LoopFacts, device: Device) -> Array:
    """Return the share that L1 has not kept of what many rows share."""
    footprint = facts.cols * (facts.shared_bytes + np.where(shape.staged, 0, facts.load_bytes))
    l1 = device.value("fitted.unit_l1") * 1e3
    carved = ceil_div(shape.per_unit * shape.smem_bytes, CARVE_BYTES) * CARVE_BYTES
    left = np.where(shape.staged, np.maximum(l1 * WHOLE_L1 - carved, 1.0), l1)
    return np.where(shape.cluster > 1, 1.0, np.clip((footprint - left * 0.8) / left, 0.0, 1.0))


def _joins(shape: _Shape, facts: LoopFacts, device: Device) -> Array:
    """Return the issue slots, over all threads, of joining what the threads of a row found."""
    if facts.layout == "rows":
        lanes = device.arch.limit("warp_size").value
        warps = np.maximum(shape.row_threads / lanes, 1) * shape.cluster
        in_turn = np.maximum(warps / lanes - 1, 0)  # states of warps that a lane joins before its warp does
        steps = np.log2(np.minimum(shape.row_threads, lanes)) + np.log2(np.minimum(warps, lanes)) + in_turn
    else:
        steps = shape.row_threads + shape.vec
    return shape.ctas * shape.threads * facts.phases * steps * facts.states**2 * JOIN_CYCLES


def _exchange(shape: _Shape, facts: LoopFacts, device: Device) -> Array:
    """Return the time that the threads of a row exchange what they found: shuffles, then smem, then the cluster."""
    if facts.layout == "columns":
        read = np.where(shape.row_threads > 1, shape.row_threads + shape.vec, 0)
        return facts.phases * COLUMN_EXCHANGE_US * read
    lanes = device.arch.limit("warp_size").value
    warp = WARP_EXCHANGE_US * np.log2(np.maximum(np.minimum(shape.row_threads, lanes), 1))
    smem = np.where(shape.row_threads > lanes, SMEM_EXCHANGE_US, 0.0)
    cluster = np.where(shape.cluster > 1, device.value("fitted.cluster_exchange"), 0.0)
    return np.where(shape.scans, shape.chunks * (shape.steps * warp + 2 * smem), facts.phases * (warp + smem + cluster))
