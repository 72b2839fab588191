"""Scalar instructions, each against numbers worked out by hand."""

import pytest
from isa_runs import run, scalar, scalar_pair

from kgen.simulator.program import EXEC

TOP = 0x80000000
ONES = 0xFFFFFFFF

# instruction on s4 (and s5), s2 before it, the result in s2, the condition code after it (None: not written)
CASES = [
    ("s_mov_b32 s2, s4", 7, 0, 9, 7, None),
    ("s_movk_i32 s2, 0xfffe", 0, 0, 0, 0xFFFFFFFE, None),
    ("s_cmov_b32 s2, s4", 7, 0, 9, 7, None),
    ("s_add_u32 s2, s4, s5", ONES, 2, 0, 1, True),
    ("s_add_u32 s2, s4, s5", 3, 4, 0, 7, False),
    ("s_addc_u32 s2, s4, s5", ONES, 0, 0, 0, True),
    ("s_sub_u32 s2, s4, s5", 3, 4, 0, ONES, True),
    ("s_subb_u32 s2, s4, s5", 5, 4, 0, 0, False),
    ("s_subb_u32 s2, s4, s5", 4, 4, 0, ONES, True),
    ("s_add_i32 s2, s4, s5", 0x7FFFFFFF, 1, 0, TOP, True),
    ("s_add_i32 s2, s4, s5", ONES, 1, 0, 0, False),
    ("s_sub_i32 s2, s4, s5", TOP, 1, 0, 0x7FFFFFFF, True),
    ("s_addk_i32 s2, 0xffff", 0, 0, 5, 4, False),
    ("s_mulk_i32 s2, 0xfffe", 0, 0, 5, 0xFFFFFFF6, None),
    ("s_mul_i32 s2, s4, s5", 0x10001, 0x10001, 0, 0x20001, None),
    ("s_mul_hi_u32 s2, s4, s5", ONES, 2, 0, 1, None),
    ("s_mul_hi_i32 s2, s4, s5", ONES, 2, 0, ONES, None),
    ("s_min_i32 s2, s4, s5", ONES, 1, 0, ONES, True),
    ("s_max_i32 s2, s4, s5", ONES, 1, 0, 1, False),
    ("s_min_u32 s2, s4, s5", ONES, 1, 0, 1, False),
    ("s_max_u32 s2, s4, s5", ONES, 1, 0, ONES, True),
    ("s_abs_i32 s2, s4", 0xFFFFFFFB, 0, 0, 5, True),
    ("s_absdiff_i32 s2, s4, s5", 3, 9, 0, 6, True),
    ("s_lshl1_add_u32 s2, s4, s5", 5, 1, 0, 11, False),
    ("s_lshl4_add_u32 s2, s4, s5", 0x10000000, 3, 0, 3, True),
    ("s_not_b32 s2, s4", ONES, 0, 0, 0, False),
    ("s_and_b32 s2, s4, s5", 12, 10, 0, 8, True),
    ("s_or_b32 s2, s4, s5", 12, 10, 0, 14, True),
    ("s_xor_b32 s2, s4, s5", 12, 12, 0, 0, False),
    ("s_andn2_b32 s2, s4, s5", 12, 10, 0, 4, True),
    ("s_orn2_b32 s2, s4, s5", 0, ONES, 0, 0, False),
    ("s_nand_b32 s2, s4, s5", ONES, ONES, 0, 0, False),
    ("s_nor_b32 s2, s4, s5", 0, 0, 0, ONES, True),
    ("s_xnor_b32 s2, s4, s5", 5, 5, 0, ONES, True),
    ("s_lshl_b32 s2, s4, s5", 3, 33, 0, 6, True),
    ("s_lshr_b32 s2, s4, s5", TOP, 31, 0, 1, True),
    ("s_ashr_i32 s2, s4, s5", TOP, 31, 0, ONES, True),
    ("s_bfm_b32 s2, s4, s5", 4, 8, 0, 0xF00, None),
    ("s_bfe_u32 s2, s4, s5", 0xABCD, 4 | 8 << 16, 0, 0xBC, True),
    ("s_bfe_u32 s2, s4, s5", 0xABCD, 4, 0, 0, False),
    ("s_bfe_i32 s2, s4, s5", 0xF0, 4 | 4 << 16, 0, ONES, True),
    ("s_bfe_i32 s2, s4, s5", 0x70, 4 | 4 << 16, 0, 7, True),
    ("s_sext_i32_i8 s2, s4", 0x80, 0, 0, 0xFFFFFF80, None),
    ("s_sext_i32_i16 s2, s4", 0x18000, 0, 0, 0xFFFF8000, None),
    ("s_brev_b32 s2, s4", 1, 0, 0, TOP, None),
    ("s_ff1_i32_b32 s2, s4", 0x28, 0, 0, 3, None),
    ("s_ff1_i32_b32 s2, s4", 0, 0, 0, ONES, None),
    ("s_flbit_i32_b32 s2, s4", 0x10, 0, 0, 27, None),
    ("s_flbit_i32_b32 s2, s4", 0, 0, 0, ONES, None),
    ("s_bcnt1_i32_b32 s2, s4", 0xF00F, 0, 0, 8, True),
    ("s_bitset0_b32 s2, s4", 3, 0, 0xFF, 0xF7, None),
    ("s_bitset1_b32 s2, s4", 4, 0, 0, 16, None),
    ("s_pack_ll_b32_b16 s2, s4, s5", 0x11112222, 0x33334444, 0, 0x44442222, None),
    ("s_pack_lh_b32_b16 s2, s4, s5", 0x11112222, 0x33334444, 0, 0x33332222, None),
    ("s_pack_hh_b32_b16 s2, s4, s5", 0x11112222, 0x33334444, 0, 0x33331111, None),
    ("s_cselect_b32 s2, s4, s5", 1, 2, 0, 1, None),
]


@pytest.mark.parametrize(("text", "first", "second", "before", "result", "scc"), CASES)
def test_scalar_arithmetic(text: str, first: int, second: int, before: int, result: int, scc: bool | None) -> None:
    wave, _ = run(text, s={4: first, 5: second, 2: before}, scc=True)
    assert scalar(wave, 2) == result
    assert bool(wave.scc[1]) is (True if scc is None else scc)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("s_cmov_b32 s2, s4", 9),
        ("s_cselect_b32 s2, s4, s5", 2),
        ("s_addc_u32 s2, s4, s5", 3),
        ("s_subb_u32 s2, s4, s5", 0xFFFFFFFF),
    ],
)
def test_a_clear_condition_code_is_read(text: str, result: int) -> None:
    wave, _ = run(text, s={4: 1, 5: 2, 2: 9}, scc=False)
    assert scalar(wave, 2) == result


COMPARISONS = {"eq": "==", "lg": "!=", "gt": ">", "ge": ">=", "lt": "<", "le": "<="}


@pytest.mark.parametrize("name", COMPARISONS)
@pytest.mark.parametrize("kind", ["u32", "i32"])
@pytest.mark.parametrize(("first", "second"), [(0, 0), (0xFFFFFFFF, 1), (1, 0xFFFFFFFF), (2, 1)])
def test_comparisons(name: str, kind: str, first: int, second: int) -> None:
    def signed(x: int) -> int:
        return x - (1 << 32) if kind == "i32" and x >> 31 else x

    expected = eval(f"{signed(first)} {COMPARISONS[name]} {signed(second)}")
    wave, _ = run(f"s_cmp_{name}_{kind} s4, s5", s={4: first, 5: second})
    assert bool(wave.scc[1]) is expected
    if second < 0x8000:
        wave, _ = run(f"s_cmpk_{name}_{kind} s4, {second:#x}", s={4: first})
        assert bool(wave.scc[1]) is expected


def test_a_16_bit_constant_is_extended_as_the_comparison_says() -> None:
    assert run("s_cmpk_eq_i32 s4, 0xffff", s={4: 0xFFFFFFFF})[0].scc[0]
    assert run("s_cmpk_eq_u32 s4, 0xffff", s={4: 0xFFFF})[0].scc[0]


WIDE = [
    ("s_mov_b64 s[2:3], s[4:5]", 0x1_00000002, 0, 0x1_00000002, None),
    ("s_mov_b64 s[2:3], -1", 0, 0, (1 << 64) - 1, None),
    ("s_and_b64 s[2:3], s[4:5], s[6:7]", 0x3_00000001, 0x2_00000002, 0x2_00000000, True),
    ("s_or_b64 s[2:3], s[4:5], s[6:7]", 0x1_00000001, 0x2_00000002, 0x3_00000003, True),
    ("s_xor_b64 s[2:3], s[4:5], s[6:7]", 0x3_00000000, 0x3_00000000, 0, False),
    ("s_andn2_b64 s[2:3], s[4:5], s[6:7]", 0x3_00000000, 0x1_00000000, 0x2_00000000, True),
    ("s_not_b64 s[2:3], s[4:5]", (1 << 64) - 1, 0, 0, False),
    ("s_lshl_b64 s[2:3], s[4:5], s6", 0x80000001, 4, 0x8_00000010, True),
    ("s_lshr_b64 s[2:3], s[4:5], s6", 0x8_00000010, 4, 0x80000001, True),
    ("s_ashr_i64 s[2:3], s[4:5], s6", 1 << 63, 60, 0xFFFFFFFF_FFFFFFF8, True),
    ("s_bfe_u64 s[2:3], s[4:5], s6", 0xABCD << 32, 36 | 8 << 16, 0xBC, True),
    ("s_bfe_u64 s[2:3], s[4:5], s6", 1 << 63, 64 << 16, 1 << 63, True),
    ("s_bfe_i64 s[2:3], s[4:5], s6", 0x1_0000FFFE, 16 << 16, (1 << 64) - 2, True),
    ("s_bfe_i64 s[2:3], s[4:5], s6", 0x7 << 40, 40 | 4 << 16, 7, True),
    ("s_bfe_i64 s[2:3], s[4:5], s6", ~0 & (1 << 64) - 1, 5, 0, False),
    ("s_cselect_b64 s[2:3], s[4:5], s[6:7]", 5 << 40, 6 << 40, 5 << 40, None),
    ("s_bfm_b64 s[2:3], s4, s6", 4, 40, 0xF << 40, None),
    ("s_bitcmp1_b64 s[4:5], s6", 1 << 40, 40, 0, True),
    ("s_bitcmp0_b64 s[4:5], s6", 1 << 40, 40, 0, False),
    ("s_brev_b64 s[2:3], s[4:5]", 1, 0, 1 << 63, None),
]


@pytest.mark.parametrize(("text", "first", "second", "result", "scc"), WIDE)
def test_64_bit_arithmetic(text: str, first: int, second: int, result: int, scc: bool | None) -> None:
    registers = {4: first & 0xFFFFFFFF, 5: first >> 32, 6: second & 0xFFFFFFFF, 7: second >> 32}
    wave, _ = run(text, s={2: 0, 3: 0} | registers, scc=True)
    assert scalar_pair(wave, 2) == result
    assert bool(wave.scc[1]) is (True if scc is None else scc)


@pytest.mark.parametrize(("bits", "lowest", "ones"), [(1 << 40 | 1 << 50, 40, 2), (1 << 63, 63, 1)])
def test_counts_of_64_bits(bits: int, lowest: int, ones: int) -> None:
    wave, _ = run("s_ff1_i32_b64 s2, s[4:5]\ns_bcnt1_i32_b64 s3, s[4:5]", s={4: bits & 0xFFFFFFFF, 5: bits >> 32})
    assert (scalar(wave, 2), scalar(wave, 3)) == (lowest, ones)
    assert wave.scc[1]


@pytest.mark.parametrize(
    ("name", "result"),
    [("and", 0b1000), ("or", 0b1110), ("xor", 0b0110), ("andn2", 0b0100), ("andn1", 0b0010)],
)
def test_exec_is_saved_and_restricted(name: str, result: int) -> None:
    wave, _ = run(f"s_{name}_saveexec_b64 s[2:3], s[4:5]", s={4: 0b1100, 5: 0}, exec_mask=0b1010)
    assert scalar_pair(wave, 2) == 0b1010
    assert scalar_pair(wave, EXEC) == result
    assert wave.scc[1]
    assert wave.exec[1].sum() == bin(result).count("1")


def test_writing_half_of_exec_takes_effect() -> None:
    wave, _ = run("s_mov_b32 exec_lo, 5\ns_mov_b32 exec_hi, 0\nv_mov_b32_e32 v1, 9", v={1: 0})
    assert wave.v[1][0][:4].tolist() == [9, 0, 9, 0]


@pytest.mark.parametrize(("name", "result"), [("s_bitcmp0_b32", False), ("s_bitcmp1_b32", True)])
def test_single_bits_are_compared(name: str, result: bool) -> None:
    assert bool(run(f"{name} s4, s5", s={4: 0x10, 5: 36})[0].scc[0]) is result
