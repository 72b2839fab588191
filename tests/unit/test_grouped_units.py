"""The walk of a grouped product over its units, as the emitted text has it, with the lanes of a warp as an array."""

from types import SimpleNamespace

import numpy as np
import pytest

from kgen.render import render

LANES = np.arange(32)


def _up(values, offset):
    return np.where(offset <= LANES, np.roll(values, offset), values)


ARCH = SimpleNamespace(
    lane_idx=lambda: LANES,
    shuffle_sync=lambda values, offset: int(values[offset]),
    shuffle_sync_up=_up,
    vote_ballot_sync=lambda holds: sum(int(h) << i for i, h in enumerate(holds)),
    popc=lambda bits: bits.bit_count(),
)
CUTE = SimpleNamespace(jit=lambda function: function, arch=ARCH)
CUTLASS = SimpleNamespace(
    Constexpr=None,
    Int32=lambda value: value,
    min=np.minimum,
    max=np.maximum,
    select_=np.where,
    range_constexpr=range,
)
TEXT = render("cutedsl/sm90/gemm/units.py.j2", SimpleNamespace(columns="v.tile_n"))


def scope():
    found = {"cute": CUTE, "cutlass": CUTLASS, "WARP_GROUP": 128}
    exec(TEXT, found)
    return SimpleNamespace(**found)


def walked(v, ends, ctas):
    """Return the units that all CTAs of a launch compute, each with the group, rows and tile along n."""
    text, found = scope(), []
    ARCH.grid_dim = lambda: (ctas, 1, 1)
    for cta in range(ctas):
        ARCH.block_idx, turn = (lambda cta=cta: (cta, 0, 0)), 0
        unit, *state = text.unit_at(v, np.array(ends), text.unit_of(turn), 0, 0, 0)
        while state[0] < v.groups:
            found.append(tuple(int(x) for x in unit))
            turn += 1
            unit, *state = text.unit_at(v, np.array(ends), text.unit_of(turn), *state)
    return found


def by_hand(v, ends):
    start = 0
    for group, end in enumerate(min(e, v.m) for e in ends):
        for row in range(start, end, v.tile_m):
            yield from ((group, row, end, column) for column in range(-(-v.n // v.tile_n)))
        start = max(start, end)


def row(m, n, groups, **choices):
    made = {"tile_m": 64, "tile_n": 128, "group": 16, "wg_m": 1, "wg_n": 1, **choices}
    return SimpleNamespace(m=m, n=n, groups=groups, **made)


def counts_of(kind, rows, groups, draw):
    match kind:
        case "chance":
            return np.bincount(draw.integers(groups, size=rows), minlength=groups)
        case "first":
            return np.array([rows] + [0] * (groups - 1))
        case "last":
            return np.array([0] * (groups - 1) + [rows])
        case "short":
            return np.bincount(draw.integers(groups, size=rows // 2), minlength=groups)
    return np.zeros(groups, int)


@pytest.mark.parametrize("kind", ["chance", "first", "last", "short", "none"])
@pytest.mark.parametrize("groups", [1, 3, 31, 32, 33, 64, 65, 300])
def test_each_tile_of_each_group_is_one_unit(groups: int, kind: str) -> None:
    draw = np.random.default_rng(groups)
    ends = counts_of(kind, 1500, groups, draw).cumsum().tolist()
    for v in (row(1500, 300, groups), row(1500, 1000, groups, tile_m=192, tile_n=256, group=2)):
        for ctas in (1, 7, 132):
            assert sorted(walked(v, ends, ctas)) == sorted(by_hand(v, ends))
        assert len(walked(v, ends, 7)) <= scope().most_units(v)


def test_tiles_of_one_b_are_neighbours() -> None:
    v = row(64 * 40, 128 * 3, 2)
    order = [(unit[1] // 64, unit[3]) for unit in walked(v, [64 * 20, 64 * 40], 1)]
    assert order[:17] == [*((m, 0) for m in range(16)), (0, 1)]
    assert order[48:53] == [(16, 0), (17, 0), (18, 0), (19, 0), (16, 1)]


@pytest.mark.parametrize("ctas", [78, 114, 132])
@pytest.mark.parametrize("tiles", [2, 3, 4, 6])
def test_no_cta_meets_the_last_rows_of_groups_each_time(tiles: int, ctas: int) -> None:
    ARCH.grid_dim = lambda: (ctas, 1, 1)
    for cta in range(ctas):
        ARCH.block_idx = lambda cta=cta: (cta, 0, 0)
        last = sum(scope().unit_of(turn) % tiles == tiles - 1 for turn in range(24))
        assert 0 < last <= 3 * 24 / tiles


def test_ends_that_are_none_keep_inside_of_d() -> None:
    v = row(100, 128, 3)
    assert all(0 <= first < end <= 100 for _, first, end, _ in walked(v, [50, 7, 4000], 1))
