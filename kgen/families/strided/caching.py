"""What the L2 is told of what a loop kernel reads: which elements it should keep, and which it may drop at once.

Measured on H200 (`benchmarks/memory_bound.py`): kernels that write what they read gain 2 to 4 % where reads stay, for
then it is what they have written that leaves the L2, in long runs. What is read once and never written beside gains up
to 2 % where it leaves at once, unless another kernel reads it then and it fits. Neither concerns kernels whose tensors
stay in the L2 for the next kernel.
"""

from collections.abc import Set
from enum import StrEnum

from kgen.families.strided.facts import MAX_ACCESS_BYTES, LoopFacts, is_early, large_accesses, width_of
from kgen.families.strided.form import Access, LoopForm
from kgen.target import Device

PASSES_L2 = 2  # times the L2: what a kernel moves beyond that does not stay for the next one
KEEPS_L2 = 3  # times the L2: what a kernel moves beyond that should be kept; 1 % is lost where 134 MB pass 60


class Eviction(StrEnum):
    """When a line leaves the L2, beside others."""

    LAST = "evict_last"
    FIRST = "evict_first"


def passes_l2(facts: LoopFacts, device: Device) -> bool:
    """Return whether a kernel moves so much that the L2 keeps nothing for the next one."""
    return _passes(facts, device) > PASSES_L2


def _passes(facts: LoopFacts, device: Device) -> float:
    """Return how many times the L2 a kernel moves."""
    moved = facts.rows * facts.cols * (facts.load_bytes + facts.store_bytes)
    return moved / (device.value("quantities.l2") * 1e6)


def evictions_of(
    form: LoopForm, facts: LoopFacts, device: Device, schedule: str, vec: int, base_align: int, later: Set[str]
) -> tuple[tuple[Access, Eviction], ...]:
    """Return the loads of a kernel that say when they leave the L2; kernels after it read the `later` tensors.

    `vec` is the elements that a thread moves at once, `base_align` the bytes that base addresses are aligned to.
    """
    if device.quantity("fitted.kept_reads") is None or not passes_l2(facts, device):
        return ()
    large = set(large_accesses(form))
    loads = [a for a in form.loads if a in large and is_early(a, form)]
    whole = [a for a in loads if width_of(a, form, vec, base_align) * a.dtype.bytes == MAX_ACCESS_BYTES]
    if facts.writes_elements:
        return tuple((a, Eviction.LAST) for a in whole if _passes(facts, device) > KEEPS_L2)
    if schedule == "streamed" and facts.phases == 1:
        return tuple((a, Eviction.FIRST) for a in whole if a.tensor not in later or _is_lost(a, form, device))
    return ()


def _is_lost(access: Access, form: LoopForm, device: Device) -> bool:
    """Return whether a tensor is so large that a kernel after this one, which starts at its begin, finds none of it."""
    return form.points_of(access.walk) * access.dtype.bytes > device.value("quantities.l2") * 1e6
