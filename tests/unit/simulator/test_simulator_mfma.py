"""Matrix instructions, element by element from the layouts that the ISA documents."""

import re

import numpy as np
import pytest
import torch
from isa_runs import run

from kgen.errors.simulator import UnknownOperandError
from kgen.simulator.mfma import NAMES

RANDOM = np.random.default_rng(11)
WIDTH = {"f32": 4, "f16": 2, "bf16": 2, "i8": 1, "fp8": 1, "bf8": 1}
TORCH = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i8": torch.int8}
FLOAT8 = {
    "gfx942": {"fp8": torch.float8_e4m3fnuz, "bf8": torch.float8_e5m2fnuz},
    "gfx950": {"fp8": torch.float8_e4m3fn, "bf8": torch.float8_e5m2},
}


def random_matrix(kind: str, arch: str, rows: int, k: int) -> torch.Tensor:
    dtype = (TORCH | FLOAT8[arch])[kind]
    if kind == "i8":
        return torch.from_numpy(RANDOM.integers(-128, 128, (rows, k))).to(dtype)
    return torch.from_numpy(RANDOM.normal(size=(rows, k))).to(dtype)


def operand_registers(matrix: torch.Tensor) -> np.ndarray:
    """Return [register, lane] of a matrix [row, k]: lane l has row l % rows and the k of its group l // rows."""
    rows, _ = matrix.shape
    octets = matrix.contiguous().view(torch.uint8).numpy().reshape(rows, -1)
    each = octets.shape[1] // (64 // rows)
    lanes = [octets[lane % rows, lane // rows * each :][:each] for lane in range(64)]
    return np.stack(lanes).view(np.uint32).T


def span(first: int, count: int) -> str:
    return f"v{first}" if count == 1 else f"v[{first}:{first + count - 1}]"


def result_place(rows: int, register: int, lane: int) -> tuple[int, int]:
    return 4 * (lane // rows) + register % 4 + 256 // rows * (register // 4), lane % rows


def both(name: str) -> list[str]:
    only_gfx950 = re.search(r"f8f6f4|16x16x32_b?f16|32x32x16_b?f16|16x16x64_i8|32x32x32_i8", name)
    return ["gfx950"] if only_gfx950 else ["gfx942", "gfx950"]


CASES = [(name, arch) for name in NAMES if "_scale_" not in name for arch in both(name)]


@pytest.mark.parametrize(("name", "arch"), CASES)
@pytest.mark.parametrize("swapped", [False, True])
def test_products(name: str, arch: str, swapped: bool) -> None:
    rows, k, suffix = re.fullmatch(r"v_mfma_\w32_(\d+)x\d+x(\d+)_(\w+)", name).groups()
    rows, k = int(rows), int(k)
    kinds = (suffix.split("_") * 2)[:2]
    modifiers = ""
    if suffix == "f8f6f4":
        kinds = ["bf8", "fp8"] if swapped else ["fp8", "bf8"]
        modifiers = " cbsz:1" if swapped else " blgp:1"
    a, b = (random_matrix(kind, arch, rows, k) for kind in kinds)
    results = rows * rows // 64
    c = (
        random_matrix("i8" if name.startswith("v_mfma_i32") else "f32", arch, 64, results)
        .to(torch.int32 if name.startswith("v_mfma_i32") else torch.float32)
        .numpy()
    )
    registers_a, registers_b = operand_registers(a), operand_registers(b)
    first, second = 32, 32 + len(registers_a)
    v = {first + i: row.copy() for i, row in enumerate(registers_a)}
    v |= {second + i: row.copy() for i, row in enumerate(registers_b)}
    v |= {i: c[:, i].copy() for i in range(results)}
    spans = [span(0, results), span(first, len(registers_a)), span(second, len(registers_b)), span(0, results)]
    wave, _ = run(f"{name} {', '.join(spans)}{modifiers}", v=v, arch=arch, exec_mask=1)
    exact = a.double().numpy() @ b.double().numpy().T
    scale = np.abs(a.double().numpy()) @ np.abs(b.double().numpy()).T
    for register in range(results):
        got = wave.v[register][1].view(c.dtype)
        for lane in range(64):
            row, column = result_place(rows, register, lane)
            expected = exact[row, column] + c[lane, register]
            error = abs(float(got[lane]) - expected)
            assert error <= (0 if c.dtype == np.int32 else 1e-6 * (scale[row, column] + abs(c[lane, register])))


@pytest.mark.parametrize("rows", [16, 32])
def test_scales_multiply_blocks_of_32(rows: int) -> None:
    k = 128 if rows == 16 else 64
    a, b = (random_matrix("fp8", "gfx950", rows, k) for _ in range(2))
    registers_a, registers_b = operand_registers(a), operand_registers(b)
    scale_a, scale_b = (RANDOM.integers(125, 130, 64).astype(np.uint32) for _ in range(2))
    v = {32 + i: row.copy() for i, row in enumerate(registers_a)} | {
        40 + i: r.copy() for i, r in enumerate(registers_b)
    }
    last = rows * rows // 64 - 1
    text = f"v_mfma_scale_f32_{rows}x{rows}x{k}_f8f6f4 v[0:{last}], v[32:39], v[40:47], 0, v48, v49"
    wave, _ = run(text + " op_sel:[1,0,0] op_sel_hi:[0,0,0]", v=v | {48: scale_a << 8, 49: scale_b}, arch="gfx950")
    factor_a, factor_b = (
        np.stack([2.0 ** (s[row::rows][np.arange(k) // 32].astype(float) - 127) for row in range(rows)])
        for s in (scale_a, scale_b)
    )
    exact = (a.double().numpy() * factor_a) @ (b.double().numpy() * factor_b).T
    got = np.array([[wave.v[r][1].view(np.float32)[lane] for lane in range(64)] for r in range(last + 1)])
    for register in range(last + 1):
        for lane in range(64):
            assert got[register, lane] == pytest.approx(exact[result_place(rows, register, lane)], rel=1e-4, abs=1e-3)


def test_the_wrong_number_of_registers_is_refused() -> None:
    with pytest.raises(UnknownOperandError, match="2 are needed"):
        run("v_mfma_f32_16x16x16_bf16 v[0:3], v[4:7], v[8:11], 0")


def test_formats_of_6_bits_are_refused() -> None:
    with pytest.raises(UnknownOperandError, match="6-bit"):
        run("v_mfma_f32_16x16x128_f8f6f4 v[0:3], v[8:15], v[16:23], 0 cbsz:2", arch="gfx950")
