"""Vector instructions that work lane by lane, against Python's own integers and floats."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from isa_runs import EVERY_LANE, run, scalar_pair, vector

from kgen.simulator.program import EXEC, VCC

M32 = 0xFFFFFFFF
RANDOM = np.random.default_rng(3)
INTS = RANDOM.integers(0, 1 << 32, (3, 64), dtype=np.uint64)
INTS[:, :6] = [[0, 1, M32, 0x80000000, 0x7FFFFFFF, 5], [0, M32, M32, 1, 3, 31], [0, 2, 9, 0x80000000, M32, 7]]
FLOATS = RANDOM.normal(size=(3, 64)).astype(np.float32) * 10
FLOATS[:, :5] = [[0, -0.0, np.inf, np.nan, 1], [-0.0, 0, -np.inf, 2, np.nan], [1, 1, 1, 1, 1]]


def signed(x: int, bits: int = 32) -> int:
    return x - (1 << bits) if x >> (bits - 1) & 1 else x


def s16(x: int) -> int:
    return signed(x & 0xFFFF, 16)


def s24(x: int) -> int:
    return signed(x & 0xFFFFFF, 24)


INTEGER: dict[str, Callable[..., int]] = {
    "v_mov_b32_e32 v3, v0": lambda a, b, c: a,
    "v_not_b32_e32 v3, v0": lambda a, b, c: ~a,
    "v_and_b32_e32 v3, v0, v1": lambda a, b, c: a & b,
    "v_or_b32_e32 v3, v0, v1": lambda a, b, c: a | b,
    "v_xor_b32_e32 v3, v0, v1": lambda a, b, c: a ^ b,
    "v_xnor_b32_e32 v3, v0, v1": lambda a, b, c: ~(a ^ b),
    "v_and_or_b32 v3, v0, v1, v2": lambda a, b, c: a & b | c,
    "v_or3_b32 v3, v0, v1, v2": lambda a, b, c: a | b | c,
    "v_bfi_b32 v3, v0, v1, v2": lambda a, b, c: a & b | ~a & c,
    "v_bfrev_b32_e32 v3, v0": lambda a, b, c: int(f"{a:032b}"[::-1], 2),
    "v_ffbl_b32_e32 v3, v0": lambda a, b, c: (a & -a).bit_length() - 1 if a else M32,
    "v_ffbh_u32_e32 v3, v0": lambda a, b, c: 32 - a.bit_length() if a else M32,
    "v_bcnt_u32_b32 v3, v0, v1": lambda a, b, c: bin(a).count("1") + b,
    "v_lshlrev_b32_e32 v3, v0, v1": lambda a, b, c: b << (a & 31),
    "v_lshrrev_b32_e32 v3, v0, v1": lambda a, b, c: b >> (a & 31),
    "v_ashrrev_i32_e32 v3, v0, v1": lambda a, b, c: signed(b) >> (a & 31),
    "v_lshlrev_b16_e32 v3, v0, v1": lambda a, b, c: b << (a & 15) & 0xFFFF,
    "v_lshrrev_b16_e32 v3, v0, v1": lambda a, b, c: (b & 0xFFFF) >> (a & 15),
    "v_ashrrev_i16_e32 v3, v0, v1": lambda a, b, c: signed(b & 0xFFFF, 16) >> (a & 15) & 0xFFFF,
    "v_lshl_or_b32 v3, v0, v1, v2": lambda a, b, c: a << (b & 31) | c,
    "v_bfm_b32 v3, v0, v1": lambda a, b, c: ((1 << (a & 31)) - 1) << (b & 31),
    "v_bfe_u32 v3, v0, v1, v2": lambda a, b, c: a >> (b & 31) & ((1 << (c & 31)) - 1),
    "v_bfe_i32 v3, v0, v1, 8": lambda a, b, c: signed(signed(a) >> (b & 31) & 0xFF, 8),
    "v_alignbit_b32 v3, v0, v1, v2": lambda a, b, c: (a << 32 | b) >> (c & 31),
    "v_alignbyte_b32 v3, v0, v1, v2": lambda a, b, c: (a << 32 | b) >> 8 * (c & 3),
    "v_perm_b32 v3, v0, v1, 0x0c0d0601": lambda a, b, c: 0x00FF0000 | (a >> 16 & 0xFF) << 8 | (b >> 8 & 0xFF),
    "v_bitop3_b32 v3, v0, v1, v2 bitop3:0xe8": lambda a, b, c: a & b | a & c | b & c,
    "v_bitop3_b16 v3, v0, v1, v2 bitop3:0x96": lambda a, b, c: (a ^ b ^ c) & 0xFFFF,
    "v_add_u32_e32 v3, v0, v1": lambda a, b, c: a + b,
    "v_sub_u32_e32 v3, v0, v1": lambda a, b, c: a - b,
    "v_subrev_u32_e32 v3, v0, v1": lambda a, b, c: b - a,
    "v_add3_u32 v3, v0, v1, v2": lambda a, b, c: a + b + c,
    "v_sad_u32 v3, v0, v1, v2": lambda a, b, c: abs(a - b) + c,
    "v_pk_mad_i16 v3, v0, v1, v2": lambda a, b, c: (
        (a * b + c) & 0xFFFF | ((a >> 16) * (b >> 16) + (c >> 16) & 0xFFFF) << 16
    ),
    "v_xad_u32 v3, v0, v1, v2": lambda a, b, c: (a ^ b) + c,
    "v_add_lshl_u32 v3, v0, v1, v2": lambda a, b, c: (a + b) << (c & 31),
    "v_lshl_add_u32 v3, v0, v1, v2": lambda a, b, c: (a << (b & 31)) + c,
    "v_mul_lo_u32 v3, v0, v1": lambda a, b, c: a * b,
    "v_mul_hi_u32 v3, v0, v1": lambda a, b, c: a * b >> 32,
    "v_mul_hi_i32 v3, v0, v1": lambda a, b, c: signed(a) * signed(b) >> 32,
    "v_mul_u32_u24_e32 v3, v0, v1": lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF),
    "v_mul_i32_i24_e32 v3, v0, v1": lambda a, b, c: s24(a) * s24(b),
    "v_mad_u32_u24 v3, v0, v1, v2": lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c,
    "v_mad_i32_i24 v3, v0, v1, v2": lambda a, b, c: s24(a) * s24(b) + c,
    "v_max_u32_e32 v3, v0, v1": lambda a, b, c: max(a, b),
    "v_min_u32_e32 v3, v0, v1": lambda a, b, c: min(a, b),
    "v_max_i32_e32 v3, v0, v1": lambda a, b, c: max(signed(a), signed(b)),
    "v_min_i32_e32 v3, v0, v1": lambda a, b, c: min(signed(a), signed(b)),
    "v_max3_u32 v3, v0, v1, v2": lambda a, b, c: max(a, b, c),
    "v_min3_u32 v3, v0, v1, v2": lambda a, b, c: min(a, b, c),
    "v_max3_i32 v3, v0, v1, v2": lambda a, b, c: max(signed(a), signed(b), signed(c)),
    "v_min3_i32 v3, v0, v1, v2": lambda a, b, c: min(signed(a), signed(b), signed(c)),
    "v_med3_i32 v3, v0, v1, v2": lambda a, b, c: sorted((signed(a), signed(b), signed(c)))[1],
    "v_med3_u32 v3, v0, v1, v2": lambda a, b, c: sorted((a, b, c))[1],
    "v_max3_u16 v3, v0, v1, v2": lambda a, b, c: max(a & 0xFFFF, b & 0xFFFF, c & 0xFFFF),
    "v_min3_u16 v3, v0, v1, v2": lambda a, b, c: min(a & 0xFFFF, b & 0xFFFF, c & 0xFFFF),
    "v_med3_u16 v3, v0, v1, v2": lambda a, b, c: sorted((a & 0xFFFF, b & 0xFFFF, c & 0xFFFF))[1],
    "v_max3_i16 v3, v0, v1, v2": lambda a, b, c: max(s16(a), s16(b), s16(c)) & 0xFFFF,
    "v_min3_i16 v3, v0, v1, v2": lambda a, b, c: min(s16(a), s16(b), s16(c)) & 0xFFFF,
    "v_med3_i16 v3, v0, v1, v2": lambda a, b, c: sorted((s16(a), s16(b), s16(c)))[1] & 0xFFFF,
    "v_subrev_u16_e32 v3, v0, v1": lambda a, b, c: (b - a) & 0xFFFF,
    "v_add_i16 v3, v0, v1": lambda a, b, c: (a + b) & 0xFFFF,
    "v_sub_i16 v3, v0, v1": lambda a, b, c: (a - b) & 0xFFFF,
    "v_mad_i16 v3, v0, v1, v2": lambda a, b, c: (a * b + c) & 0xFFFF,
    "v_add_u16_e32 v3, v0, v1": lambda a, b, c: (a + b) & 0xFFFF,
    "v_sub_u16_e32 v3, v0, v1": lambda a, b, c: (a - b) & 0xFFFF,
    "v_mul_lo_u16_e32 v3, v0, v1": lambda a, b, c: a * b & 0xFFFF,
    "v_max_u16_e32 v3, v0, v1": lambda a, b, c: max(a & 0xFFFF, b & 0xFFFF),
    "v_min_i16_e32 v3, v0, v1": lambda a, b, c: min(signed(a & 0xFFFF, 16), signed(b & 0xFFFF, 16)) & 0xFFFF,
    "v_add_i32 v3, v0, v1": lambda a, b, c: a + b,
    "v_sub_i32 v3, v0, v1": lambda a, b, c: a - b,
    "v_mul_hi_u32_u24_e32 v3, v0, v1": lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) >> 32,
    "v_mad_u32_u16 v3, v0, v1, v2": lambda a, b, c: (a & 0xFFFF) * (b & 0xFFFF) + c,
    "v_mad_i32_i16 v3, v0, v1, v2": lambda a, b, c: signed(a & 0xFFFF, 16) * signed(b & 0xFFFF, 16) + c,
    "v_cvt_pk_u16_u32 v3, v0, v1": lambda a, b, c: min(a, 0xFFFF) | min(b, 0xFFFF) << 16,
    "v_cvt_pk_i16_i32 v3, v0, v1": lambda a, b, c: (
        (min(max(signed(a), -32768), 32767) & 0xFFFF) | (min(max(signed(b), -32768), 32767) & 0xFFFF) << 16
    ),
    "v_pk_add_u16 v3, v0, v1": lambda a, b, c: (a + b) & 0xFFFF | (a & 0xFFFF0000) + (b & 0xFFFF0000) & 0xFFFF0000,
    "v_pk_mul_lo_u16 v3, v0, v1": lambda a, b, c: a * b & 0xFFFF | ((a >> 16) * (b >> 16) & 0xFFFF) << 16,
    "v_pk_lshrrev_b16 v3, 4, v1 op_sel_hi:[0,1]": lambda a, b, c: (b & 0xFFFF) >> 4 | (b >> 20) << 16,
    "v_pk_max_i16 v3, v0, v1": lambda a, b, c: (
        max(signed(a & 0xFFFF, 16), signed(b & 0xFFFF, 16)) & 0xFFFF
        | (max(signed(a >> 16, 16), signed(b >> 16, 16)) & 0xFFFF) << 16
    ),
    "v_pk_sub_i16 v3, v0, v1 op_sel:[1,0] op_sel_hi:[0,1]": lambda a, b, c: (
        ((a >> 16) - b) & 0xFFFF | ((a - (b >> 16)) & 0xFFFF) << 16
    ),
}


@pytest.mark.parametrize("text", INTEGER)
def test_integers(text: str) -> None:
    wave, _ = run(text, v={i: INTS[i].astype(np.uint32) for i in range(3)})
    expected = [INTEGER[text](*(int(INTS[i][lane]) for i in range(3))) & M32 for lane in range(64)]
    assert vector(wave, 3).tolist() == expected


WIDE: dict[str, Callable[..., int]] = {
    "v_lshl_add_u64 v[6:7], v[0:1], 3, v[4:5]": lambda a, b: (a << 3) + b,
    "v_lshlrev_b64 v[6:7], 9, v[0:1]": lambda a, b: a << 9,
    "v_lshrrev_b64 v[6:7], 9, v[0:1]": lambda a, b: a >> 9,
    "v_ashrrev_i64 v[6:7], 9, v[0:1]": lambda a, b: signed(a, 64) >> 9,
    "v_mov_b64_e32 v[6:7], v[4:5]": lambda a, b: b,
    "v_mad_u64_u32 v[6:7], s[8:9], v0, v1, v[4:5]": lambda a, b: (a & M32) * (a >> 32) + b,
    "v_mad_i64_i32 v[6:7], s[8:9], v0, v1, v[4:5]": lambda a, b: signed(a & M32) * signed(a >> 32) + b,
}


@pytest.mark.parametrize("text", WIDE)
def test_64_bit_integers(text: str) -> None:
    words = RANDOM.integers(0, 1 << 32, (4, 64), dtype=np.uint64)
    registers = dict(zip((0, 1, 4, 5), (w.astype(np.uint32) for w in words), strict=True))
    wave, _ = run(text, v=registers)
    result = vector(wave, 6).astype(np.uint64) | vector(wave, 7).astype(np.uint64) << np.uint64(32)
    a, b = ([int(words[i][lane]) | int(words[i + 1][lane]) << 32 for lane in range(64)] for i in (0, 2))
    assert result.tolist() == [WIDE[text](x, y) % (1 << 64) for x, y in zip(a, b, strict=True)]


def test_sums_of_64_bits_carry_through_a_mask() -> None:
    body = "v_add_co_u32_e32 v4, vcc, v0, v1\nv_addc_co_u32_e32 v5, vcc, v2, v3, vcc"
    a = RANDOM.integers(0, 1 << 32, (4, 64), dtype=np.uint64)
    wave, _ = run(body, v={i: a[i].astype(np.uint32) for i in range(4)})
    total = (a[0] | a[2] << np.uint64(32)) + (a[1] | a[3] << np.uint64(32))
    assert (
        vector(wave, 4).astype(np.uint64) | vector(wave, 5).astype(np.uint64) << np.uint64(32)
    ).tolist() == total.tolist()


@pytest.mark.parametrize(
    ("text", "low_first"), [("v_sub_co_u32_e32 v4, vcc, v0, v1", True), ("v_subrev_co_u32_e32 v4, vcc, v0, v1", False)]
)
def test_differences_borrow(text: str, low_first: bool) -> None:
    wave, _ = run(text + "\nv_subb_co_u32_e32 v5, vcc, v2, v3, vcc", v={0: 3, 1: 5, 2: 9, 3: 1})
    assert vector(wave, 4)[0] == ((3 - 5 if low_first else 5 - 3) & M32)
    assert vector(wave, 5)[0] == (7 if low_first else 8)


def ieee(a: float, b: float, chosen: Callable[..., float]) -> float:
    return b if math.isnan(a) else a if math.isnan(b) else chosen(a, b)


REAL: dict[str, Callable[..., float]] = {
    "v_add_f32_e32 v3, v0, v1": lambda a, b, c: a + b,
    "v_sub_f32_e32 v3, v0, v1": lambda a, b, c: a - b,
    "v_subrev_f32_e32 v3, v0, v1": lambda a, b, c: b - a,
    "v_mul_f32_e32 v3, v0, v1": lambda a, b, c: a * b,
    "v_mul_f32_e64 v3, -v0, |v1|": lambda a, b, c: -a * abs(b),
    "v_add_f32_e64 v3, v0, v1 mul:2": lambda a, b, c: np.float32(a + b) * 2,
    "v_add_f32_e64 v3, v0, v1 clamp": lambda a, b, c: 0.0 if math.isnan(a + b) else min(max(a + b, 0.0), 1.0),
    "v_max_f32_e32 v3, v0, v1": lambda a, b, c: ieee(a, b, max),
    "v_min_f32_e32 v3, v0, v1": lambda a, b, c: ieee(a, b, min),
    "v_max3_f32 v3, v0, v1, v2": lambda a, b, c: ieee(ieee(a, b, max), c, max),
    "v_min3_f32 v3, v0, v1, v2": lambda a, b, c: ieee(ieee(a, b, min), c, min),
    "v_maximum3_f32 v3, v0, v1, v2": lambda a, b, c: math.nan if any(map(math.isnan, (a, b, c))) else max(a, b, c),
    "v_minimum3_f32 v3, v0, v1, v2": lambda a, b, c: math.nan if any(map(math.isnan, (a, b, c))) else min(a, b, c),
    "v_mul_legacy_f32 v3, v0, v1": lambda a, b, c: 0.0 if a == 0 or b == 0 else a * b,
    "v_exp_f32_e32 v3, v0": lambda a, b, c: 2.0**a if a == a else a,
    "v_rcp_f32_e32 v3, v0": lambda a, b, c: 1 / a if a else math.copysign(math.inf, a),
    "v_sqrt_f32_e64 v3, |v0|": lambda a, b, c: abs(a) ** 0.5,
    "v_rsq_f32_e64 v3, |v0|": lambda a, b, c: 1 / abs(a) ** 0.5 if a else math.inf,
    "v_log_f32_e64 v3, |v0|": lambda a, b, c: math.log2(abs(a)) if a else -math.inf,
    "v_floor_f32_e32 v3, v0": lambda a, b, c: math.floor(a) if math.isfinite(a) else a,
    "v_ceil_f32_e32 v3, v0": lambda a, b, c: math.ceil(a) if math.isfinite(a) else a,
    "v_trunc_f32_e32 v3, v0": lambda a, b, c: math.trunc(a) if math.isfinite(a) else a,
    "v_rndne_f32_e32 v3, v0": lambda a, b, c: round(a) if math.isfinite(a) else a,
    "v_ldexp_f32 v3, v0, 3": lambda a, b, c: a * 8,
    "v_cndmask_b32_e64 v3, v0, v1, s[8:9]": lambda a, b, c: b,
}


@pytest.mark.parametrize("text", REAL)
def test_real_numbers(text: str) -> None:
    wave, _ = run(text, v={i: FLOATS[i] for i in range(3)}, s={8: M32, 9: M32})
    expected = [np.float32(REAL[text](*(float(FLOATS[i][lane]) for i in range(3)))) for lane in range(64)]
    np.testing.assert_allclose(vector(wave, 3, np.float32), expected, rtol=3e-7)


def test_the_middle_of_three_numbers() -> None:
    wave, _ = run("v_med3_f32 v3, v0, v1, v2", v={i: FLOATS[i] for i in range(3)})
    expected = [sorted(FLOATS[:, lane])[1] for lane in range(5, 64)]
    assert vector(wave, 3, np.float32)[5:].tolist() == expected


@pytest.mark.parametrize("text", ["v_fma_f32 v3, v0, v1, v2", "v_fmac_f32_e32 v3, v0, v1"])
def test_fused_multiply_add_rounds_once(text: str) -> None:
    a = np.full(64, 1 + 2.0**-12, np.float32)
    wave, _ = run(text, v={0: a, 1: a, 2: np.float32(-1), 3: np.float32(-1)})
    assert vector(wave, 3, np.float32)[0] == np.float32(2.0**-11 + 2.0**-24)


def test_fused_multiply_add_does_not_round_twice() -> None:
    """1 + 2^-24 (a tie of f32) plus something far below: the sum in f64 alone would be rounded to even."""
    wave, _ = run("v_fma_f32 v3, v0, v1, v2", v={0: 2.0**-24, 1: 1.0, 2: 1.0})
    assert vector(wave, 3, np.float32)[0] == 1.0
    wave, _ = run(
        "v_fma_f32 v3, v0, v1, v2", v={0: np.float32(1 + 2.0**-23), 1: np.float32(2.0**-24 + 2.0**-47), 2: 1.0}
    )
    assert vector(wave, 3, np.float32)[0] == np.float32(1 + 2.0**-23)
    wave, _ = run("v_fma_f32 v3, v0, v1, v2", v={0: 2.0**-80, 1: 2.0**-10, 2: np.float32(1)})
    assert vector(wave, 3, np.float32)[0] == 1.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [("v_fmamk_f32 v3, v0, 0x40400000, v1", 2 * 3 + 5), ("v_fmaak_f32 v3, v0, v1, 0x40400000", 2 * 5 + 3)],
)
def test_multiply_add_with_a_literal(text: str, expected: float) -> None:
    wave, _ = run(text, v={0: 2.0, 1: 5.0})
    assert vector(wave, 3, np.float32)[0] == expected


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("v_pk_add_f32 v[6:7], v[0:1], v[2:3]", 1 + 3, 2 + 4),
        ("v_pk_mul_f32 v[6:7], v[0:1], v[2:3] op_sel_hi:[1,0]", 1 * 3, 2 * 3),
        ("v_pk_mul_f32 v[6:7], v[0:1], s[8:9] op_sel_hi:[1,0]", 1 * 10, 2 * 10),
        ("v_pk_mul_f32 v[6:7], v[0:1], v[2:3] op_sel:[1,0] op_sel_hi:[0,1]", 2 * 3, 1 * 4),
        ("v_pk_fma_f32 v[6:7], v[0:1], v[2:3], v[4:5] neg_lo:[0,0,1] neg_hi:[1,0,0]", 1 * 3 - 5, -2 * 4 + 6),
        ("v_pk_mov_b32 v[6:7], v[0:1], v[2:3] op_sel:[1,0]", 2, 3),
        ("v_pk_add_f32 v[6:7], v[0:1], 1.0", 2, 3),
    ],
)
def test_pairs_of_real_numbers(text: str, low: float, high: float) -> None:
    ten = int(np.float32(10).view(np.uint32))
    wave, _ = run(text, v={i: float(i + 1) for i in range(6)}, s={8: ten, 9: 0})
    assert (vector(wave, 6, np.float32)[0], vector(wave, 7, np.float32)[0]) == (low, high)


def halves(low: float, high: float) -> int:
    return int(np.array([low, high], np.float16).view(np.uint32)[0])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("v_add_f16_e32 v3, v0, v1", halves(1 + 3, 0)),
        ("v_mul_f16_e32 v3, v0, v1", halves(1 * 3, 0)),
        ("v_max_f16_e32 v3, v0, v1", halves(3, 0)),
        ("v_min_f16_e64 v3, -v0, v1", halves(-1, 0)),
        ("v_pk_add_f16 v3, v0, v1", halves(1 + 3, 2 + 4)),
        ("v_pk_mul_f16 v3, v0, v1 op_sel_hi:[1,0]", halves(1 * 3, 2 * 3)),
        ("v_pk_fma_f16 v3, v0, v1, v2", halves(1 * 3 + 5, 2 * 4 + 6)),
        ("v_pk_max_f16 v3, v0, v1 neg_lo:[0,1] neg_hi:[0,1]", halves(1, 2)),
        ("v_pk_min_f16 v3, v0, v1", halves(1, 2)),
        ("v_pack_b32_f16 v3, v0, v1", halves(1, 3)),
        ("v_pack_b32_f16 v3, v0, v1 op_sel:[1,1,0]", halves(2, 4)),
        ("v_fma_mixlo_f16 v3, v0, v1, v2 op_sel_hi:[1,1,1]", halves(1 * 3 + 5, 7)),
        ("v_fma_mixhi_f16 v3, v0, v1, v2 op_sel:[1,1,1] op_sel_hi:[1,1,1]", halves(7, 2 * 4 + 6)),
    ],
)
def test_half_precision(text: str, expected: int) -> None:
    wave, _ = run(text, v={0: halves(1, 2), 1: halves(3, 4), 2: halves(5, 6), 3: halves(7, 7)})
    assert vector(wave, 3)[0] == expected


def test_mixed_precision_takes_f32_where_op_sel_hi_is_zero() -> None:
    wave, _ = run("v_fma_mix_f32 v3, v0, -v1, v2 op_sel_hi:[1,0,0]", v={0: halves(2, 9), 1: 3.0, 2: 10.0})
    assert vector(wave, 3, np.float32)[0] == 4.0


@pytest.mark.parametrize("kind", ["f16", "f32", "f64"])
@pytest.mark.parametrize(
    ("name", "expected"),
    [("rcp", 0.16), ("sqrt", 2.5), ("rsq", 0.4), ("exp", 2.0**6.25), ("log", math.log2(6.25)), ("fract", 0.25)],
)
def test_functions_of_every_precision(kind: str, name: str, expected: float) -> None:
    bits = np.array([6.25], {"f16": np.float16, "f32": np.float32, "f64": np.float64}[kind])
    words = np.zeros(8, np.uint8)
    words[: bits.nbytes] = bits.view(np.uint8)
    low, high = (int(x) for x in words.view(np.uint32))
    span = "v[2:3], v[0:1]" if kind == "f64" else "v2, v0"
    wave, _ = run(f"v_{name}_{kind}_e32 {span}", v={0: low, 1: high, 2: 0, 3: 0})
    result = np.array([wave.v[2][0][0], wave.v[3][0][0] if kind == "f64" else 0], np.uint32).view(bits.dtype)[0]
    assert float(result) == pytest.approx(expected, rel={"f16": 1e-3, "f32": 1e-6, "f64": 1e-14}[kind])


INT_CMP = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


@pytest.mark.parametrize("name", INT_CMP)
@pytest.mark.parametrize("kind", ["u32", "i32", "u16", "i16"])
def test_integer_comparisons(name: str, kind: str) -> None:
    bits = int(kind[1:])
    a, b = ([int(x) % (1 << bits) for x in row] for row in (INTS[0], INTS[2]))
    if kind[0] == "i":
        a, b = ([signed(x, bits) for x in row] for row in (a, b))
    wave, _ = run(
        f"v_cmp_{name}_{kind}_e64 s[8:9], v0, v1", v={0: INTS[0].astype(np.uint32), 1: INTS[2].astype(np.uint32)}
    )
    expected = sum(eval(f"{x} {INT_CMP[name]} {y}") << lane for lane, (x, y) in enumerate(zip(a, b, strict=True)))
    assert scalar_pair(wave, 8) == expected


@pytest.mark.parametrize("kind", ["u64", "i64"])
def test_64_bit_comparisons(kind: str) -> None:
    wave, _ = run(f"v_cmp_lt_{kind}_e32 vcc, v[0:1], v[2:3]", v={0: 1, 1: M32, 2: 0, 3: 1})
    assert scalar_pair(wave, VCC) == (EVERY_LANE if kind == "i64" else 0)


NAN_IS_TRUE = {"u": True, "o": False, "neq": True, "nlt": True, "nle": True, "ngt": True, "nge": True, "nlg": True}
REAL_CMP = {**INT_CMP, "lg": "!=", "neq": "!=", "nlt": ">=", "nle": ">", "ngt": "<=", "nge": "<", "nlg": "=="}
del REAL_CMP["ne"]


@pytest.mark.parametrize("name", [*REAL_CMP, "o", "u"])
def test_real_comparisons(name: str) -> None:
    a, b = [0.0, 1.0, 2.0, 1.0, math.nan, math.nan], [-0.0, 2.0, 1.0, 1.0, 1.0, math.nan]
    wave, _ = run(
        f"v_cmp_{name}_f32_e32 vcc, v0, v1",
        v={0: np.resize(a, 64).astype(np.float32), 1: np.resize(b, 64).astype(np.float32)},
    )

    def holds(x: float, y: float) -> bool:
        if math.isnan(x) or math.isnan(y):
            return NAN_IS_TRUE.get(name, False)
        return {"o": True, "u": False}[name] if name in "ou" else bool(eval(f"{x} {REAL_CMP[name]} {y}"))

    got = scalar_pair(wave, VCC)
    assert [bool(got >> lane & 1) for lane in range(6)] == [holds(x, y) for x, y in zip(a, b, strict=True)]


@pytest.mark.parametrize(
    ("value", "bit"),
    [(math.nan, 1), (-math.inf, 2), (-2.0, 3), (-1e-40, 4), (-0.0, 5), (0.0, 6), (1e-40, 7), (2.0, 8), (math.inf, 9)],
)
def test_classes_of_numbers(value: float, bit: int) -> None:
    wave, _ = run(f"v_cmp_class_f32_e64 s[8:9], v0, {1 << bit:#x}", v={0: np.float32(value)})
    assert scalar_pair(wave, 8) == EVERY_LANE
    wave, _ = run(f"v_cmp_class_f32_e64 s[8:9], v0, {0x3FF ^ 1 << bit:#x}", v={0: np.float32(value)})
    assert scalar_pair(wave, 8) == 0
    if abs(value) != 1e-40:  # denormal in f32 only
        words = np.array([value]).view(np.uint32)
        wave, _ = run(f"v_cmp_class_f64_e64 s[8:9], v[0:1], {1 << bit:#x}", v={0: words[0], 1: words[1]})
        assert scalar_pair(wave, 8) == EVERY_LANE


def test_a_comparison_may_narrow_exec() -> None:
    wave, _ = run("v_cmpx_gt_u32_e64 s[8:9], 3, v0", v={0: np.arange(64)})
    assert scalar_pair(wave, EXEC) == scalar_pair(wave, 8) == 0b111


def test_inactive_lanes_keep_their_registers_and_clear_their_mask_bits() -> None:
    wave, _ = run("v_mov_b32_e32 v1, 7\nv_cmp_eq_u32_e32 vcc, 7, v1", v={1: 0}, exec_mask=0b1010)
    assert vector(wave, 1)[:4].tolist() == [0, 7, 0, 7]
    assert scalar_pair(wave, VCC) == 0b1010


def test_lanes_count_the_bits_below_them() -> None:
    body = "v_mbcnt_lo_u32_b32 v1, s4, 0\nv_mbcnt_hi_u32_b32 v1, s5, v1"
    wave, _ = run(body, s={4: M32, 5: M32})
    assert vector(wave, 1).tolist() == list(range(64))


def test_accumulation_registers_are_registers_of_their_own() -> None:
    body = "v_accvgpr_write_b32 a0, v0\nv_mov_b32_e32 v0, 0\nv_accvgpr_read_b32 v1, a0\nv_accvgpr_mov_b32 a1, a0"
    wave, _ = run(body, v={0: np.arange(64)})
    assert vector(wave, 1).tolist() == list(range(64)) == vector(wave, 257).tolist()
    assert not vector(wave, 0).any()


def test_a_division_is_exact() -> None:
    """The sequence that compilers emit for an IEEE division of f32."""
    body = """
    v_div_scale_f32 v2, s[8:9], v1, v1, v0
    v_div_scale_f32 v3, vcc, v0, v1, v0
    v_rcp_f32_e32 v4, v2
    v_fma_f32 v5, -v2, v4, 1.0
    v_fmac_f32_e32 v4, v5, v4
    v_mul_f32_e32 v5, v3, v4
    v_fma_f32 v6, -v2, v5, v3
    v_fmac_f32_e32 v5, v6, v4
    v_fma_f32 v2, -v2, v5, v3
    v_div_fmas_f32 v2, v2, v4, v5
    v_div_fixup_f32 v2, v2, v1, v0
    """
    a = np.concatenate([RANDOM.normal(size=56), [0, 1, -1, np.inf, np.nan, 1e38, 1e-38, 3e-39]]).astype(np.float32)
    b = np.concatenate([RANDOM.normal(size=56), [1, 0, 0, 2, 1, 1e-3, 1e3, 2e-39]]).astype(np.float32)
    with np.errstate(all="ignore"):
        expected = a / b
    wave, _ = run(body, v={0: a, 1: b})
    np.testing.assert_array_equal(vector(wave, 2, np.float32), expected)


def words(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the low and the high word of 64-bit values."""
    pairs = values.view(np.uint32).reshape(-1, 2)
    return pairs[:, 0].copy(), pairs[:, 1].copy()


def test_a_division_of_f64_is_exact() -> None:
    """The sequence that compilers emit for an IEEE division of f64."""
    body = """
    v_div_scale_f64 v[4:5], s[8:9], v[2:3], v[2:3], v[0:1]
    v_div_scale_f64 v[6:7], vcc, v[0:1], v[2:3], v[0:1]
    v_rcp_f64_e32 v[8:9], v[4:5]
    v_fma_f64 v[10:11], -v[4:5], v[8:9], 1.0
    v_fmac_f64_e32 v[8:9], v[10:11], v[8:9]
    v_fma_f64 v[10:11], -v[4:5], v[8:9], 1.0
    v_fmac_f64_e32 v[8:9], v[10:11], v[8:9]
    v_mul_f64 v[10:11], v[6:7], v[8:9]
    v_fma_f64 v[4:5], -v[4:5], v[10:11], v[6:7]
    v_div_fmas_f64 v[4:5], v[4:5], v[8:9], v[10:11]
    v_div_fixup_f64 v[4:5], v[4:5], v[2:3], v[0:1]
    """
    a = np.concatenate([RANDOM.normal(size=56), [0, 1, -1, np.inf, np.nan, 1e308, 1e-300, 7.0]])
    b = np.concatenate([RANDOM.normal(size=56), [1, 0, 0, 2, 1, 1e-3, 1e3, 3.0]])
    with np.errstate(all="ignore"):
        expected = a / b
    (a_low, a_high), (b_low, b_high) = words(a), words(b)
    wave, _ = run(body, v={0: a_low, 1: a_high, 2: b_low, 3: b_high})
    result = np.stack([vector(wave, 4), vector(wave, 5)], axis=1).copy().view(np.float64)[:, 0]
    np.testing.assert_allclose(result, expected, rtol=2.3e-16)


@pytest.mark.parametrize(("value", "expected"), [(1, 31), (0xFFFFFFFE, 31), (0x40000000, 1), (0, M32), (M32, M32)])
def test_the_first_bit_that_differs_from_the_sign(value: int, expected: int) -> None:
    assert vector(run("v_ffbh_i32_e32 v1, v0", v={0: value})[0], 1)[0] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("v_fma_mix_f32 v3, v0, 0.5, v2 op_sel_hi:[1,0,0]", 2 * 0.5 + 10),
        ("v_fma_mix_f32 v3, v0, neg(0.5), v2 op_sel_hi:[1,0,0]", -2 * 0.5 + 10),
    ],
)
def test_mixed_precision_with_a_constant(text: str, expected: float) -> None:
    assert vector(run(text, v={0: halves(2, 9), 2: 10.0})[0], 3, np.float32)[0] == expected
