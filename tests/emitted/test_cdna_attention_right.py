"""Attentions on CDNA as one kernel: compiled as planned, right in the simulator, and with no bank conflicts."""

from pathlib import Path

import pytest

import kgen
from kgen.check import PackageCheck
from kgen.check.whole import check_all
from kgen.spec.load import parse_spec

pytestmark = pytest.mark.emitted
MFMA = {"mi300x": "f32_32x32x8_{}", "mi355x": "f32_32x32x16_{}"}
SDPA = """import torch
  import torch.nn.functional as F


  def f(q, k, v):
      return """
# What surrounds the attention of a case: its code, shapes of q and of k and v, type, and the choices it asks for.
CASES = {
    # queries and keys that leave a part of a tile, two warps that share a SIMD
    "plain": (
        "F.scaled_dot_product_attention(q, k, v)",
        ("[1, 2, 70, 128]", "[1, 2, 150, 128]", "bf16"),
        {"warps": 8, "buffers": 2},
    ),
    # four query heads of a group, in fp16, over several tiles of which the last ones are masked
    "grouped": (
        "F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)",
        ("[1, 4, 200, 64]", "[1, 1, 200, 64]", "fp16"),
        {"warps": 4, "buffers": 1},
    ),
    # tokens before heads, a head dim that is padded in LDS and in MFMAs, a scale
    "strided": (
        "F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), scale=0.3)",
        ("[1, 65, 2, 72]", "[1, 65, 2, 72]", "bf16"),
        {"warps": 2, "buffers": 2},
    ),
    # a window, whose first and last tiles are masked
    "window": (
        "torch.softmax((q @ k.transpose(-2, -1) * 0.125).masked_fill("
        "(torch.arange(200) > torch.arange(200)[:, None]) | (torch.arange(200)[:, None] - torch.arange(200) > 90), "
        "float('-inf')), -1) @ v",
        ("[1, 1, 200, 64]", "[1, 1, 200, 64]", "bf16"),
        {"warps": 2, "buffers": 1},
    ),
    # scores with a bias by coordinates, and a large head dim
    "biased": (
        "torch.softmax((q @ k.transpose(-2, -1)).float() * 0.06 "
        "+ 0.01 * (torch.arange(66) - torch.arange(66)[:, None]), -1).to(q.dtype) @ v",
        ("[1, 1, 66, 256]", "[1, 1, 66, 256]", "bf16"),
        {},
    ),
}


def spec_text(name: str) -> str:
    """Return the spec of a case."""
    code, (q, kv, dtype), axes = CASES[name]
    fixed = "".join(f"\n  {axis}: {{value: {value}, because: this test is of it}}" for axis, value in axes.items())
    inputs = "".join(
        f"\n  {tensor}: {{shape: {shape}, dtype: {dtype}}}" for tensor, shape in (("q", q), ("k", kv), ("v", kv))
    )
    return f"name: {name}\nreference: |\n  {SDPA}{code}\ninputs:{inputs}\n" + (f"fixed:{fixed}\n" if fixed else "")


@pytest.mark.parametrize("device", MFMA)
def test_attentions_are_one_kernel_that_is_right_in_the_simulator(device: str, tmp_path: Path) -> None:
    for name in CASES:
        kgen.emit(parse_spec(spec_text(name), Path(f"{name}.yaml")), target=device, folder=tmp_path / name)
    faults = [
        f"{result.compiled.name}: {fault}"
        for result in check_all([tmp_path / name for name in CASES], jobs=1)
        for fault in faults_of(result, device)
    ]
    assert not faults, "\n".join(faults)


def faults_of(result: PackageCheck, device: str) -> list[str]:
    """Return what is wrong with a package."""
    assert result.simulated is not None
    found = [*map(str, result.compiled.findings), *result.simulated.failures]
    (variant,) = result.compiled.variants
    if len(variant.kernels) != 1:
        return [*found, f"{len(variant.kernels)} kernels"]
    (kernel,) = variant.kernels
    dtype = CASES[result.compiled.name][1][2].replace("fp16", "f16")
    found += [f"multiplies by {m.shape}" for m in kernel.mma if m.shape != MFMA[device].format(dtype)]
    assert kernel.wave is not None
    found += ["registers spill"] if kernel.wave.vgpr_spills or kernel.wave.sgpr_spills else []
    for case in result.simulated.cases:
        found += [] if case.compared_elements and not case.skipped else ["not compared"]
        lost = [k.whole.bank_conflict_cycles for k in case.kernels]
        found += [f"{cycles} cycles lost to banks" for cycles in lost if cycles]
    return found
