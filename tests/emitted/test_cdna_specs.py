"""Every spec of specs/ for both CDNA instruction sets: the same YAML at extents that a simulator runs in seconds,
compiled as planned and right in the simulator.

Extents are odd where the reference and the layouts allow it; what is ragged in a spec stays ragged.
"""

from dataclasses import replace
from pathlib import Path

import pytest

import kgen
from kgen.check import PackageCheck
from kgen.check.whole import check_all
from kgen.errors.base import KgenError
from kgen.spec.load import parse_spec
from kgen.spec.model import Case, Spec

pytestmark = pytest.mark.emitted
SPECS = Path(__file__).resolve().parents[2] / "specs"
DEVICES = ("mi300x", "mi355x")
PARTLY = ("module_bf16_silu_scale",)  # the weights' extents are constants of the user's module
PARTS = 5  # the packages of a part share a process that compiles

# spec -> the extents of its cases
SMALL = {
    "argmax_fp32": ({"M": 37, "N": 1000},),
    "attention_bf16_causal": ({"B": 1, "H": 4, "G": 2, "S": 72, "D": 64},),
    "attention_bf16_decode": ({"B": 1, "H": 4, "G": 2, "S": 72, "D": 64},),
    "attention_bf16_softcap": ({"B": 1, "H": 2, "S": 72, "D": 64},),
    "batch_norm_fp32_train": ({"B": 3, "H": 9, "W": 7},),
    "bmm_fp16": ({"B": 3, "M": 130, "N": 72, "K": 80},),
    "column_sum_bf16": ({"M": 1031, "N": 264},),
    "cross_entropy_bf16": ({"M": 13, "V": 3001},),
    "cumsum_fp32": ({"M": 19, "N": 1025},),
    "einsum_bf16_scores": ({"B": 2, "H": 3, "M": 70, "N": 130, "D": 64},),
    "full_sum_fp32": ({"M": 257, "N": 513},),
    "gemm_bf16": ({"M": 200, "N": 264, "K": 328},),
    "gemm_bf16_decode": ({"M": 16, "N": 136, "K": 264},),
    "gemm_bf16_deep_k": ({"M": 64, "N": 72, "K": 2048},),
    "gemm_bf16_ragged": ({"M": 130, "N": 136, "K": 248},),
    "gemm_bf16_rowbias_residual": ({"M": 130, "N": 200, "K": 136},),
    "gemm_bf16_small": ({"M": 256, "N": 128, "K": 192},),
    "gemm_bf16_split_k": ({"M": 48, "N": 64, "K": 4096},),
    "gemm_fp32": ({"M": 70, "N": 72, "K": 136},),
    "gemm_fp32_deep_k": ({"M": 37, "N": 40, "K": 4096},),
    "gemm_fp8_block_scaled": ({"M": 70, "N": 200, "K": 384, "NB": 2, "KB": 3},),
    "gemm_fp8_scaled": ({"M": 70, "N": 136, "K": 256},),
    "gemm_int8": ({"M": 130, "N": 72, "K": 144},),
    "gemm_int8_scaled": ({"M": 70, "N": 136, "K": 256},),
    "gemm_tf32": ({"M": 70, "N": 72, "K": 136},),
    "group_norm_fp32": ({"B": 3, "C": 64, "H": 5, "W": 7},),
    "layer_norm_bf16_residual": ({"M": 11, "N": 2056},),
    "linear_bf16_bias_gelu": ({"M": 70, "N": 264, "K": 136},),
    "linear_bf16_silu_gated": ({"M": 33, "N": 144, "K": 72}, {"M": 17, "N": 80, "K": 40}),
    "linear_bf16_decode": ({"M": 3, "N": 520, "K": 1032},),
    "linear_softmax_bf16": ({"M": 33, "N": 264, "K": 136},),
    "log_softmax_fp32": ({"B": 3, "C": 37, "H": 5, "W": 9},),
    "matvec_fp32": ({"M": 37, "K": 1000},),
    "module_bf16_silu_scale": ({"B": 1, "S": 3},),
    "pointwise_mixed_broadcast": ({"M": 65, "N": 200},),
    "quantize_int8_rows": ({"M": 17, "N": 1000},),
    "rms_norm_bf16": ({"M": 19, "N": 1032},),
    "rope_bf16": ({"B": 2, "S": 17, "H": 3},),
    "silu_and_mul_bf16": ({"M": 13, "N": 512},),
    "softmax_bf16": ({"M": 37, "N": 256}, {"M": 5, "N": 4096}, {"M": 2, "N": 131072}),
}

REFUSED = {  # kernels for CDNA have all extents as constants, and one B for all rows
    "linear_bf16_dynamic": "leave out the target",
    "grouped_gemm_bf16": "printed_groups",
}
NAMES = sorted({path.stem for path in SPECS.glob("*.yaml")} - REFUSED.keys())


def small(name: str) -> Spec:
    """Return a spec of specs/ with its cases at small extents."""
    spec = kgen.load_spec(SPECS / f"{name}.yaml")
    cases = tuple(
        Case(case.id, tuple((extent, values.get(extent, value)) for extent, value in case.extents))
        for case, values in zip(spec.cases, SMALL[name], strict=True)
    )
    known = dict(cases[0].extents) if len(cases) == 1 else {}
    return replace(spec, cases=cases, extents=tuple((extent, known.get(extent, v)) for extent, v in spec.extents))


def test_every_spec_has_small_extents() -> None:
    assert set(NAMES) == set(SMALL)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_no_kernel_for_cdna_takes_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(KgenError, match=REFUSED[name]):
        kgen.emit(SPECS / f"{name}.yaml", target="mi300x", folder=tmp_path / name)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("part", range(PARTS))
def test_the_same_specs_are_right_on_cdna(part: int, device: str, tmp_path: Path) -> None:
    folders, faults = [], []
    for name in NAMES[part::PARTS]:
        try:
            kgen.emit(small(name), target=device, folder=tmp_path / name)
            folders.append(tmp_path / name)
        except KgenError as error:
            faults.append(f"{name}: {error.headline}")
    faults += [fault for result in check_all(folders, jobs=1) for fault in faults_of(result)]
    assert not faults, "\n".join(faults)


CASES = """
name: scaled
reference: |
  import math
  import torch


  def scaled(a, b):
      return torch.softmax(a @ b, -1) * math.sqrt(a.shape[0])
inputs:
  a: {shape: [M, 72], dtype: bf16}
  b: {shape: [72, N], dtype: bf16}
extents: {M: 33, N: 264}
cases:
  one: {}
  two: {M: 70}
"""


@pytest.mark.parametrize("device", ["mi308x", "mi350x"])
def test_cases_with_functions_of_their_own(device: str, tmp_path: Path) -> None:
    made = kgen.emit(parse_spec(CASES, Path("case.yaml")), target=device, folder=tmp_path / "scaled")
    assert "scaled_1_two_resident" in (tmp_path / "scaled" / "kernel.py").read_text()
    assert made.folder is not None
    (result,) = check_all([made.folder], jobs=1)
    assert not faults_of(result)


def faults_of(result: PackageCheck) -> list[str]:
    """Return what is wrong with a package; a case of which only a part ran is, unless it cannot be smaller."""
    assert result.simulated is not None
    found = [*map(str, result.compiled.findings), *result.simulated.failures]
    found += [
        f"{case.case}: {case.status}, {case.compared_elements} of {case.elements} elements compared"
        for case in result.simulated.cases
        if case.not_simulated is not None
        or (result.compiled.name not in PARTLY and (case.skipped or case.compared_elements != case.elements))
    ]
    return [f"{result.compiled.name}: {fault}" for fault in found]
