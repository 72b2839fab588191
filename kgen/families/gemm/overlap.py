"""What a product's kernels save by starting while the kernel before them in the stream ends; docs/cost_model.md.

Programmatic dependent launch: the next kernel's CTAs set up while the last tiles of this one are computed.
"""

import numpy as np

from kgen.families.gemm.cost import Array, Columns, Launch, TileTime, launches
from kgen.families.gemm.rules_facts import GemmFacts
from kgen.target import Device

LEAST_SHARE = 0.02  # of a launch's time that is worth it: longer kernels than that were not measured
# Where a kernel leaves units idle, the CTAs of the next one start there, and the others on the units that are done
# first: they lie less evenly over the device than those of a launch of its own, and draw less from memory. On an H200
# 112 CTAs, which read 117 MB, lost 2.2 to 2.8 us of 30; 128 CTAs on its 132 SMs lost nothing.
FULL = 0.95  # share of the units that leaves none to speak of idle
UNEVEN_LOSS = 0.09  # of the memory's time


def early_start(
    columns: Columns, facts: GemmFacts, device: Device, launch: Launch, tile: TileTime, total: Array
) -> Array:
    """Return the microseconds that each kernel of a launch of `total` microseconds saves, per candidate.

    0 where the device has no such launch, where the kernel has no text for it, and where it would save too little.
    """
    each = device.quantity("fitted.launch_overlap")
    if each is None or facts.groups:
        return np.zeros_like(total)
    busy = launch.active / launch.ctas_per_unit
    loss = np.where(busy < FULL * device.compute_units, UNEVEN_LOSS * launch.waves * tile.memory, 0.0)
    saved = launches(columns) * each.value - loss
    is_worth_it = (columns["simt_cycles"] == 0) & (columns["split_k"] == 1) & (saved >= LEAST_SHARE * total)
    return np.where(is_worth_it, saved / launches(columns), 0.0)
