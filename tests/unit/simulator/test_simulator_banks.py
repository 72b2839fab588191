"""Bank conflicts: the passes of an access, and the cycles that are lost."""

from itertools import chain

import numpy as np
import pytest
from isa_runs import kernel_text, launch

from kgen.simulator.banks import conflict_cycles, passes

LANE = np.arange(64)
EVERY = np.ones((1, 64), np.bool_)


def lost(arch: str, size: int, addresses: np.ndarray, write: bool = False, active: np.ndarray = EVERY) -> int:
    return conflict_cycles(arch, size, write, addresses[None], active)


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize("size", [4, 8, 16])
@pytest.mark.parametrize("write", [False, True])
def test_every_lane_is_in_one_pass_and_a_pass_fills_the_banks(arch: str, size: int, write: bool) -> None:
    scheme = passes(arch, size, write)
    assert sorted(chain.from_iterable(scheme.lanes)) == list(range(64))
    assert {len(group) * size for group in scheme.lanes} == {4 * scheme.banks}


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("write", [False, True])
def test_neighbouring_lanes_at_neighbouring_places_lose_nothing(arch: str, size: int, write: bool) -> None:
    assert lost(arch, size, size * LANE, write) == 0


@pytest.mark.parametrize(
    ("arch", "size", "stride", "cycles"),
    [
        ("gfx942", 4, 128, 2 * 31),  # 32 lanes in one bank, twice
        ("gfx942", 4, 8, 2 * 1),  # every second bank: two lanes in each
        ("gfx942", 16, 128, 8 * 7),  # the full conflict of rows of 128 bytes
        ("gfx950", 16, 128, 4 * 7),  # 64 banks: rows of 128 bytes share them in two halves
        ("gfx950", 16, 256, 4 * 15),
        ("gfx950", 4, 256, 63),
    ],
)
def test_strides_that_meet_in_banks(arch: str, size: int, stride: int, cycles: int) -> None:
    assert lost(arch, size, stride * LANE) == cycles


def test_lanes_that_read_one_word_share_it() -> None:
    assert lost("gfx942", 4, 0 * LANE) == 0
    assert lost("gfx942", 16, 16 * (LANE // 16)) == 0


def test_inactive_lanes_take_no_cycles() -> None:
    assert lost("gfx942", 4, 128 * LANE, active=(LANE < 3)[None]) == 2
    assert lost("gfx942", 16, 128 * LANE + 4 * (LANE > 2), active=(LANE < 3)[None]) == 2


def test_reads_of_16_bytes_are_paired_as_documented() -> None:
    """Lanes 0-3 are served with 20-23 and 4-7 with 16-19; stores serve 16-19 with 20-23."""
    exchanged = 16 * np.where((LANE >= 16) & (LANE < 24), LANE ^ 4, LANE)
    assert lost("gfx942", 16, exchanged) == 2
    assert lost("gfx942", 16, exchanged, write=True) == 0


def test_a_swizzle_removes_conflicts() -> None:
    row, chunk = LANE % 16, LANE // 16
    plain, swizzled = 128 * row + 16 * chunk, 128 * row + 16 * (chunk ^ row % 8)
    assert lost("gfx942", 16, plain) > 0
    assert lost("gfx942", 16, swizzled) == 0
    assert lost("gfx950", 16, swizzled) == 0


def test_misaligned_words_are_counted_word_by_word() -> None:
    assert lost("gfx942", 8, 8 * LANE + 4) == 0
    assert lost("gfx942", 8, 128 * LANE + 4) == 4 * 15


def test_conflicts_are_counted_where_they_happen() -> None:
    body = "v_lshlrev_b32_e32 v1, 7, v0\nds_write_b32 v1, v0\ns_waitcnt lgkmcnt(0)\nds_read_b32 v2, v1"
    report = launch(kernel_text(body, lds=8192), [], grid=3)
    counts = {count.mnemonic: count for count in report.counts.instructions}
    assert counts["ds_write_b32"].bank_conflict_cycles == counts["ds_read_b32"].bank_conflict_cycles == 3 * 62
    assert report.counts.bank_conflict_cycles == 6 * 62
