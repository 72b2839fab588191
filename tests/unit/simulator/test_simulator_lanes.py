"""Values that move between lanes: DPP, SDWA, permutations, readlane and writelane."""

from collections.abc import Callable

import numpy as np
import pytest
from isa_runs import run, scalar, vector

from kgen.errors.simulator import UnknownOperandError

LANE = np.arange(64)

# control -> the lane that each lane reads, None where there is none
DPP: dict[str, Callable[[int], int | None]] = {
    "quad_perm:[3,0,1,1]": lambda lane: lane // 4 * 4 + (3, 0, 1, 1)[lane % 4],
    "row_shl:3": lambda lane: lane + 3 if lane % 16 + 3 < 16 else None,
    "row_shr:3": lambda lane: lane - 3 if lane % 16 >= 3 else None,
    "row_ror:5": lambda lane: lane // 16 * 16 + (lane - 5) % 16,
    "wave_shl:1": lambda lane: lane + 1 if lane < 63 else None,
    "wave_shr:1": lambda lane: lane - 1 if lane else None,
    "wave_rol:1": lambda lane: (lane + 1) % 64,
    "wave_ror:1": lambda lane: (lane - 1) % 64,
    "row_mirror": lambda lane: lane // 16 * 16 + 15 - lane % 16,
    "row_half_mirror": lambda lane: lane // 8 * 8 + 7 - lane % 8,
    "row_bcast:15": lambda lane: lane // 16 * 16 - 1 if lane >= 16 else None,
    "row_bcast:31": lambda lane: 31 if lane >= 32 else None,
    "row_newbcast:6": lambda lane: lane // 16 * 16 + 6,
}


@pytest.mark.parametrize("control", DPP)
@pytest.mark.parametrize("zero_fill", [False, True])
def test_dpp_controls(control: str, zero_fill: bool) -> None:
    text = f"v_mov_b32_dpp v1, v0 {control} row_mask:0xf bank_mask:0xf" + (" bound_ctrl:1" if zero_fill else "")
    wave, _ = run(text, v={0: 100 + LANE, 1: 7})
    sources = [DPP[control](lane) for lane in range(64)]
    nothing = 0 if zero_fill else 7
    assert vector(wave, 1).tolist() == [nothing if source is None else 100 + source for source in sources]


def test_dpp_masks_choose_rows_and_banks() -> None:
    wave, _ = run("v_add_u32_dpp v1, v0, v1 row_ror:0 row_mask:0xa bank_mask:0x5", v={0: 1, 1: 10})
    expected = [11 if lane // 16 in (1, 3) and lane // 4 % 4 in (0, 2) else 10 for lane in range(64)]
    assert vector(wave, 1).tolist() == expected


def test_dpp_does_not_read_inactive_lanes() -> None:
    wave, _ = run("v_mov_b32_dpp v1, v0 row_shr:1 row_mask:0xf bank_mask:0xf", v={0: LANE, 1: 99}, exec_mask=0b1101)
    assert vector(wave, 1)[:4].tolist() == [99, 99, 99, 2]


def test_dpp_adds_up_a_row() -> None:
    steps = "\n".join(f"v_add_f32_dpp v0, v0, v0 row_ror:{n} row_mask:0xf bank_mask:0xf" for n in (8, 4, 2, 1))
    wave, _ = run(steps, v={0: LANE.astype(np.float32)})
    assert vector(wave, 0, np.float32).tolist() == [float(sum(range(16 * row, 16 * row + 16))) for row in LANE // 16]


@pytest.mark.parametrize(
    ("modifiers", "expected"),
    [
        ("dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_1 src1_sel:DWORD", 0x33 + 0x1000),
        ("dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1 src1_sel:DWORD", 0x1122 + 0x1000),
        ("dst_sel:BYTE_2 dst_unused:UNUSED_PAD src0_sel:BYTE_0 src1_sel:BYTE_0", 0x44 << 16),
        ("dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_0 src1_sel:DWORD", 0x1044 << 16 | 0xBEEF),
        ("dst_sel:BYTE_0 dst_unused:UNUSED_SEXT src0_sel:BYTE_3 src1_sel:BYTE_0", 0x11),
    ],
)
def test_sdwa_selects_parts(modifiers: str, expected: int) -> None:
    wave, _ = run(f"v_add_u32_sdwa v2, v0, v1 {modifiers}", v={0: 0x11223344, 1: 0x1000, 2: 0xDEADBEEF})
    assert vector(wave, 2)[0] == expected


def test_sdwa_extends_signs() -> None:
    text = "v_add_u32_sdwa v2, sext(v0), v1 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_1 src1_sel:DWORD"
    assert vector(run(text, v={0: 0xFF00, 1: 5})[0], 2)[0] == 4


@pytest.mark.parametrize(("size", "partner"), [(16, lambda lane: lane ^ 16), (32, lambda lane: lane ^ 32)])
def test_permlane_swaps_odd_groups_with_even_ones(size: int, partner: Callable[[int], int]) -> None:
    wave, _ = run(f"v_permlane{size}_swap_b32_e32 v0, v1", v={0: LANE, 1: 100 + LANE}, arch="gfx950")
    odd = LANE // size % 2 == 1
    swapped = np.array([partner(int(lane)) for lane in LANE])
    assert vector(wave, 0).tolist() == np.where(odd, 100 + swapped, LANE).tolist()
    assert vector(wave, 1).tolist() == np.where(odd, 100 + LANE, swapped).tolist()


def test_permlane_with_inactive_lanes_is_refused() -> None:
    with pytest.raises(UnknownOperandError, match="inactive lanes"):
        run("v_permlane32_swap_b32_e32 v0, v1", v={0: 0, 1: 0}, arch="gfx950", exec_mask=1)


def test_registers_swap_in_active_lanes() -> None:
    wave, _ = run("v_swap_b32 v0, v1", v={0: 1, 1: 2}, exec_mask=0b10)
    assert (vector(wave, 0)[:2].tolist(), vector(wave, 1)[:2].tolist()) == ([1, 2], [2, 1])


def test_lanes_pull_from_others() -> None:
    wave, _ = run(
        "ds_bpermute_b32 v2, v0, v1 offset:4\ns_waitcnt lgkmcnt(0)", v={0: 4 * LANE[::-1].copy(), 1: 100 + LANE, 2: 0}
    )
    assert vector(wave, 2).tolist() == [100 + (63 - lane + 1) % 64 for lane in range(64)]


def test_lanes_push_to_others() -> None:
    wave, _ = run("ds_permute_b32 v2, v0, v1\ns_waitcnt lgkmcnt(0)", v={0: 4 * (LANE // 2), 1: 100 + LANE, 2: 9})
    assert vector(wave, 2).tolist() == [101 + 2 * lane for lane in range(32)] + [0] * 32


@pytest.mark.parametrize(
    ("pattern", "source"),
    [
        ("swizzle(SWAP,16)", lambda lane: lane ^ 16),
        ("swizzle(SWAP,1)", lambda lane: lane ^ 1),
        ("swizzle(REVERSE,8)", lambda lane: lane ^ 7),
        ("swizzle(BROADCAST,4,2)", lambda lane: lane // 4 * 4 + 2),
        ("swizzle(QUAD_PERM,1,0,3,3)", lambda lane: lane // 4 * 4 + (1, 0, 3, 3)[lane % 4]),
        ('swizzle(BITMASK_PERM,"p0i1p")', lambda lane: lane & 32 | lane & 17 | (~lane & 4) | 2),
        ("0x041f", lambda lane: lane ^ 1),
    ],
)
def test_swizzles(pattern: str, source: Callable[[int], int]) -> None:
    wave, _ = run(f"ds_swizzle_b32 v1, v0 offset:{pattern}\ns_waitcnt lgkmcnt(0)", v={0: LANE, 1: 0})
    assert vector(wave, 1).tolist() == [source(lane) for lane in range(64)]


def test_a_scalar_reads_the_first_active_lane() -> None:
    wave, _ = run(
        "v_readfirstlane_b32 s4, v0\nv_readlane_b32 s5, v0, 40\nv_readlane_b32 s6, v0, s7",
        v={0: LANE},
        s={7: 65},
        exec_mask=0b11000,
    )
    assert (scalar(wave, 4), scalar(wave, 5), scalar(wave, 6)) == (3, 40, 1)


def test_a_scalar_is_written_to_one_lane() -> None:
    wave, _ = run("v_writelane_b32 v0, s4, 5", v={0: 0}, s={4: 77}, exec_mask=0)
    assert vector(wave, 0).tolist() == [77 if lane == 5 else 0 for lane in range(64)]
