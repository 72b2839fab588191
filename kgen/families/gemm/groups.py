"""Groups of rows of a product: their place in a GemmForm, and how many tiles are expected of them.

How many rows a group has is known at run time only. Plans are made for rows that take one of the groups by chance.
"""

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from kgen.errors.family import NotOneProductError
from kgen.families.extents import static_extents
from kgen.families.gemm.form import GemmForm, Groups
from kgen.families.gemm.rules_facts import GemmFacts
from kgen.ir.access import Access
from kgen.ir.grouped import RowGroups
from kgen.ir.problem import Problem, Store
from kgen.rules.arithmetic import ceil_div

WARP_GROUP_ROWS = 64  # of a tile
MERGED = 2  # requests for a tile of B that L2 answers at once
Array = Any  # np.ndarray of floats or ints, one entry per candidate


def form_groups(problem: Problem, groups: RowGroups, form: GemmForm) -> Groups:
    """Return the groups of a form, which is that of one of them with all rows.

    Raises `NotOneProductError` where they are no runs of the form's rows.
    """
    (store,) = (s for s in problem.body if isinstance(s, Store))
    extents = static_extents(problem)
    written = _strides(problem, store.access)
    walked = all(written.get(a) == step * form.d.m for a, step in groups.row.items() if extents[a] != 1)
    if form.batch or not walked or prod(extents[a] for a in groups.row) != form.m:
        raise NotOneProductError(problem=problem.name, found="its groups are no runs of rows that lie evenly in memory")
    if {s.access.tensor for s in groups.picked} != {b.tensor for b in form.operands[1:]}:
        raise NotOneProductError(problem=problem.name, found="its groups are of the columns of its result")
    ends, picked = groups.ends.access, groups.picked[0]
    tensor = problem.tensor(ends.tensor).type
    return Groups(
        count=extents[groups.axis],
        ends=ends.tensor,
        dtype=tensor.dtype,
        offset=sum(index.offset * stride for index, stride in zip(ends.indices, tensor.strides, strict=True)),
        stride=_strides(problem, ends)[groups.axis],
        b_stride=problem.tensor(picked.access.tensor).type.strides[picked.position],
    )


def _strides(problem: Problem, access: Access) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for index, stride in zip(access.indices, problem.tensor(access.tensor).type.strides, strict=True):
        for axis, step in index.terms:
            found[axis] = found.get(axis, 0) + step * stride
    return found


def used_groups(facts: GemmFacts) -> float:
    """Return how many groups are expected to have rows."""
    return facts.groups * (1 - (1 - 1 / facts.groups) ** facts.m)


def row_tiles(facts: GemmFacts, tile_m: Array) -> Array:
    """Return how many tiles of `tile_m` rows are expected: the last one of a group is half full in the mean."""
    used = used_groups(facts)
    return np.ceil(np.maximum(facts.m / tile_m + used / 2, used) - 1e-9).astype(np.int64)


def multiplied_share(facts: GemmFacts, tile_m: Array) -> Array:
    """Return the share of all tiles' rows that is multiplied: a warp group without rows of the group rests."""
    return row_tiles(facts, WARP_GROUP_ROWS) * WARP_GROUP_ROWS / (row_tiles(facts, tile_m) * tile_m)


def expected_words(facts: GemmFacts, tile_m: int) -> tuple[str, str]:
    """Return which groups and tiles a plan counts on, and why."""
    used, tiles = round(used_groups(facts)), int(row_tiles(facts, tile_m))
    return (
        f"expects rows in {used} of {facts.groups} groups, and {tiles} tiles of {tile_m} rows:",
        "each row takes a group by chance, and the last tile of a group is half full in the mean",
    )


def operand_bytes(facts: GemmFacts) -> float:
    """Return the bytes of A, and of the Bs that have rows: tiles of one B follow one another, so that L2 keeps it."""
    return (facts.m + used_groups(facts) * facts.n) * facts.k * facts.in_bytes


def merged_share(facts: GemmFacts, tile_m: Array, share_a: Array) -> Array:
    """Return the share of a tile's bytes that L2 sends: CTAs side by side ask for one tile of B at once.

    Such requests are merged. On an H200 tiles of 64 x 256 loaded 13.6 TB/s, where `l2_bandwidth` is below that.
    `share_a` is the part of the bytes that are of A.
    """
    side_by_side = row_tiles(facts, tile_m) / used_groups(facts)
    return share_a + (1 - share_a) / np.clip(side_by_side, 1, MERGED)


def mean_rows(facts: GemmFacts) -> int:
    """Return the rows of a group that has some, in the mean."""
    return int(ceil_div(facts.m, max(int(used_groups(facts)), 1)))
