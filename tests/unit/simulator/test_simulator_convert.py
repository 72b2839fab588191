"""Conversions between number formats, against torch."""

import numpy as np
import pytest
import torch
from isa_runs import run, vector

RANDOM = np.random.default_rng(5)
VALUES = np.concatenate(
    [
        RANDOM.normal(size=44) * 10.0 ** RANDOM.integers(-6, 6, 44),
        [0.0, -0.0, np.inf, -np.inf, np.nan, 1 + 2.0**-8, 1 + 3 * 2.0**-8, 65504, 65520, 1e-8, -1e-8],
        [448.0, 464.0, 240.0, 248.0, 57344.0, 61440.0, 2.0**-10, 2.0**-8, 3 * 2.0**-11],
    ]
).astype(np.float32)
FP8 = {("gfx942", "fp8"): torch.float8_e4m3fnuz, ("gfx942", "bf8"): torch.float8_e5m2fnuz,
       ("gfx950", "fp8"): torch.float8_e4m3fn, ("gfx950", "bf8"): torch.float8_e5m2}  # fmt: skip


def bits(tensor: torch.Tensor, dtype: torch.dtype) -> np.ndarray:
    return tensor.view(dtype).numpy().astype(np.int64) & ((1 << 8 * tensor.element_size()) - 1)


def test_bf16_pairs() -> None:
    wave, _ = run("v_cvt_pk_bf16_f32 v2, v0, v1", v={0: VALUES, 1: VALUES[::-1]}, arch="gfx950")
    expected = bits(torch.from_numpy(VALUES).bfloat16(), torch.int16)
    keep = ~np.isnan(VALUES)
    assert (vector(wave, 2) & 0xFFFF)[keep].tolist() == expected[keep].tolist()
    assert (vector(wave, 2) >> 16)[::-1][keep].tolist() == expected[keep].tolist()
    assert np.isnan((vector(wave, 2) << np.uint32(16)).view(np.float32)[~keep]).all()


def test_f16() -> None:
    body = "v_cvt_f16_f32_e32 v2, v0\nv_cvt_f32_f16_e32 v3, v2\nv_cvt_pk_f16_f32 v4, v0, v0"
    wave, _ = run(body, v={0: VALUES}, arch="gfx950")
    expected = torch.from_numpy(VALUES).half()
    assert vector(wave, 2).tolist() == bits(expected, torch.int16).tolist()
    np.testing.assert_array_equal(vector(wave, 3, np.float32), expected.float().numpy())
    assert vector(wave, 4).tolist() == [x | x << 16 for x in bits(expected, torch.int16).tolist()]


def test_f16_towards_zero() -> None:
    wave, _ = run("v_cvt_pkrtz_f16_f32 v2, v0, v0", v={0: VALUES})
    result = (vector(wave, 2) & 0xFFFF).astype(np.uint16).view(np.float16).astype(np.float64)
    finite = np.isfinite(result) & np.isfinite(VALUES)
    assert (np.abs(result[finite]) <= np.abs(VALUES[finite])).all()
    in_range = np.clip(VALUES[finite], -65504, 65504)  # a value beyond is cut to the largest one
    np.testing.assert_allclose(result[finite], in_range, rtol=2.0**-10, atol=2.0**-24)


@pytest.mark.parametrize(("arch", "kind"), FP8)
def test_every_8_bit_pattern_is_read_as_torch_reads_it(arch: str, kind: str) -> None:
    patterns = np.arange(256, dtype=np.uint32).reshape(4, 64)
    words = patterns[0] | patterns[1] << 8 | patterns[2] << 16 | patterns[3] << 24
    body = "\n".join(f"v_cvt_f32_{kind}_sdwa v{1 + i}, v0 src0_sel:BYTE_{i}" for i in range(4))
    body += f"\nv_cvt_pk_f32_{kind}_e32 v[6:7], v0\nv_cvt_pk_f32_{kind}_sdwa v[8:9], v0 src0_sel:WORD_1"
    wave, _ = run(body, v={0: words.astype(np.uint32)}, arch=arch)
    expected = torch.arange(256, dtype=torch.int32).to(torch.uint8).view(FP8[arch, kind]).float().numpy().reshape(4, 64)
    for byte, registers in enumerate(((1, 6), (2, 7), (3, 8), (4, 9))):
        for register in registers:
            np.testing.assert_array_equal(vector(wave, register, np.float32), expected[byte])


@pytest.mark.parametrize(("arch", "kind"), FP8)
def test_8_bit_patterns_are_written_as_torch_writes_them(arch: str, kind: str) -> None:
    dtype = FP8[arch, kind]
    values = np.where(np.abs(VALUES) > torch.finfo(dtype).max, np.float32(1.5), VALUES)
    body = f"v_cvt_pk_{kind}_f32 v2, v0, v1\nv_cvt_pk_{kind}_f32 v2, v1, v0 op_sel:[0,0,1]"
    wave, _ = run(body, v={0: values, 1: values[::-1].copy(), 2: 0}, arch=arch)
    first = torch.from_numpy(values).to(dtype).float().numpy()
    for shift, expected in ((0, first), (8, first[::-1]), (16, first[::-1]), (24, first)):
        octets = (vector(wave, 2) >> shift & 0xFF).astype(np.uint8)
        np.testing.assert_array_equal(torch.from_numpy(octets).view(dtype).float().numpy(), expected)


@pytest.mark.parametrize(
    ("arch", "kind", "largest", "beyond", "pattern"),
    [
        ("gfx942", "fp8", 247.9, 248.0, 0x80),
        ("gfx942", "bf8", 61439.0, 61440.0, 0x80),
        ("gfx950", "fp8", 463.9, 464.1, 0x7F),
        ("gfx950", "bf8", 61439.0, 61440.0, 0x7C),
    ],
)
def test_8_bit_conversions_do_not_saturate(arch: str, kind: str, largest: float, beyond: float, pattern: int) -> None:
    """Beyond the largest value there is NaN, or infinity where the format has one: a kernel that saturates clamps."""
    wave, _ = run(f"v_cvt_pk_{kind}_f32 v2, v0, v1", v={0: np.float32(largest), 1: np.float32(beyond), 2: 0}, arch=arch)
    kept, lost = vector(wave, 2)[0] & 0xFF, vector(wave, 2)[0] >> 8
    assert torch.tensor([kept], dtype=torch.uint8).view(FP8[arch, kind]).float() == torch.finfo(FP8[arch, kind]).max
    assert lost == pattern


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("v_cvt_u32_f32_e32 v1, v0", -3.0, 0),
        ("v_cvt_u32_f32_e32 v1, v0", 5e9, 0xFFFFFFFF),
        ("v_cvt_u32_f32_e32 v1, v0", 3.9, 3),
        ("v_cvt_i32_f32_e32 v1, v0", -3.9, 0xFFFFFFFD),
        ("v_cvt_i32_f32_e32 v1, v0", float("nan"), 0),
        ("v_cvt_i32_f32_e32 v1, v0", 3e9, 0x7FFFFFFF),
        ("v_cvt_flr_i32_f32_e32 v1, v0", -0.5, 0xFFFFFFFF),
        ("v_cvt_rpi_i32_f32_e32 v1, v0", 2.5, 3),
        ("v_frexp_exp_i32_f32_e32 v1, v0", 12.0, 4),
    ],
)
def test_to_integers(text: str, value: float, expected: int) -> None:
    assert vector(run(text, v={0: np.float32(value)})[0], 1)[0] == expected


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("v_cvt_f32_u32_e32 v1, v0", 0xFFFFFFFF, 4294967296.0),
        ("v_cvt_f32_i32_e32 v1, v0", 0xFFFFFFFF, -1.0),
        ("v_cvt_f32_ubyte0_e32 v1, v0", 0x04030201, 1.0),
        ("v_cvt_f32_ubyte1_e32 v1, v0", 0x04030201, 2.0),
        ("v_cvt_f32_ubyte2_e32 v1, v0", 0x04030201, 3.0),
        ("v_cvt_f32_ubyte3_e32 v1, v0", 0x04030201, 4.0),
        ("v_cvt_f32_bf16_e32 v1, v0", 0x40400000 | 0x4000, 2.0),
        ("v_cvt_f32_bf16_sdwa v1, v0 src0_sel:WORD_1", 0x40400000 | 0x4000, 3.0),
        ("v_frexp_mant_f32_e32 v1, v0", 0x41400000, 0.75),
    ],
)
def test_to_real_numbers(text: str, value: int, expected: float) -> None:
    assert vector(run(text, v={0: value}, arch="gfx950")[0], 1, np.float32)[0] == expected


def test_f64() -> None:
    body = "v_cvt_f64_f32_e32 v[2:3], v0\nv_add_f64 v[2:3], v[2:3], 1.0\nv_mul_f64 v[2:3], v[2:3], v[2:3]"
    wave, _ = run(body + "\nv_cvt_f32_f64_e32 v4, v[2:3]\nv_cvt_i32_f64_e32 v5, v[2:3]", v={0: 2.5})
    assert (vector(wave, 4, np.float32)[0], vector(wave, 5)[0]) == (12.25, 12)
