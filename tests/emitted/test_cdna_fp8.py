"""fp8_e5m2 on CDNA: gfx950 multiplies it as it is; gfx942, whose encoding FlyDSL has no name for, in fp32."""

from pathlib import Path

import pytest
from test_cdna_gemm import NARROW

from kgen.api import emit
from kgen.check import check
from kgen.spec.load import parse_spec

pytestmark = pytest.mark.emitted
MMA = {"mi300x": "f32_16x16x4_f32", "mi355x": "f32_16x16x128_f8f6f4"}


@pytest.mark.parametrize("device", MMA)
def test_a_product_of_e5m2_is_right(device: str, tmp_path: Path) -> None:
    text = (
        f"name: bf8\nreference: |\n  {NARROW.format(sums='float32')}\n"
        "inputs:\n  a: {shape: [M, K], dtype: fp8_e5m2}\n  b: {shape: [K, N], dtype: fp8_e5m2, layout: col}\n"
        "extents: {M: 40, N: 72, K: 144}\n"
    )
    emit(parse_spec(text, Path("bf8.yaml")), target=device, folder=tmp_path / "bf8")
    result = check(tmp_path / "bf8")
    assert result.ok and result.simulated is not None, result.to_json()
    shapes = {mma.shape for v in result.compiled.variants for k in v.kernels for mma in k.mma}
    assert shapes == {MMA[device]}
    (case,) = result.simulated.cases
    assert case.status == "PASS" and case.compared_elements == case.elements
