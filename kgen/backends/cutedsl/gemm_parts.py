"""Sums over parts of k that pass through a workspace on Hopper: what the sections around them print.

CTAs write the sums they hold, a second kernel adds them up in the order of k; docs/gemm.md says for which shapes.
"""

from typing import Final

from kgen.backends.cutedsl.gemm_rows import has_parts, writes_parts
from kgen.backends.cutedsl.gemm_views import SharingView
from kgen.planning.plan_gemm import GemmPlan

CONSTANTS: Final = (
    "SHARE = 16  # columns of a tile that one CTA of `sum_parts` adds up",
    "PARTS_IN_FLIGHT = 48  # of k that it loads at a time, at most: 4 KiB of smem each",
)
_STEPS: Final = "-(-v.k // v.tile_k)"
_OF_CLUSTER: Final = "cute.arch.block_idx_in_cluster() % v.cluster_k"
_UNREAD: Final = "parts: cute.Tensor,  # not read: all launch functions are called alike"


def sharing(plan: GemmPlan) -> SharingView:
    """Return who shares a tile in a file: CTAs of a cluster, of the grid, or of either, a row each."""
    if not writes_parts(plan):
        return SharingView("the CTAs of a cluster", (f"steps, part = {_STEPS}, {_OF_CLUSTER}",), "v.cluster_k")
    if has_parts(plan):  # a row splits k in one of the two ways: the other index is 0
        part = f"part = cute.arch.block_idx()[0] // (ctas_of_part(v) * v.cluster_k) + {_OF_CLUSTER}"
        return SharingView("CTAs", (f"steps = {_STEPS}", part), "(v.split_k * v.cluster_k)")
    return SharingView("CTAs", (f"steps, part = {_STEPS}, cute.arch.block_idx()[0] // ctas_of_part(v)",), "v.split_k")


def unread(plan: GemmPlan) -> tuple[str, ...]:
    """Return the parameters of launch functions that do not split k where others of the file do."""
    return (_UNREAD,) if writes_parts(plan) else ()
