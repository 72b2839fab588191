"""Products on CDNA in the simulator: right for ragged shapes, every type and layout, with no bank conflicts."""

from pathlib import Path

import pytest
from test_cdna_specs import faults_of

from kgen.api import emit
from kgen.check import PackageCheck
from kgen.check.whole import check_all
from kgen.spec.load import parse_spec

pytestmark = pytest.mark.emitted

PRODUCT = "def f(a, b):\n      return a @ b"
NARROW = "import torch\n\n\n  def f(a, b):\n      return a.to(torch.{sums}) @ b.to(torch.{sums})"
# id -> reference, type, whether B is stored by columns, extents, axes that are fixed
FIXED = "fixed:\n  load_path: {{value: {path}, because: under test}}\n  tile_k: {{value: 64, because: under test}}\n"
PRODUCTS = {
    "ragged": (PRODUCT, "bf16", True, "M: 100, N: 72, K: 200", ""),
    "by_rows": (PRODUCT, "fp16", False, "M: 65, N: 136, K: 96", ""),
    "one_row": (PRODUCT, "bf16", True, "M: 1, N: 72, K: 136", ""),
    "odd": (PRODUCT, "bf16", False, "M: 33, N: 35, K: 37", ""),
    "no_k": (PRODUCT, "bf16", True, "M: 33, N: 32, K: 0", ""),
    "parts": (PRODUCT, "bf16", True, "M: 40, N: 72, K: 520", "fixed:\n  split_k: {value: 4, because: under test}\n"),
    # B past LDS: one step of k alone, a pair of steps and one left, one and two left; extents that end inside of a tile
    "direct_1": (PRODUCT, "bf16", True, "M: 100, N: 72, K: 64", FIXED.format(path="b_direct")),
    "direct_2": (PRODUCT, "fp16", True, "M: 64, N: 104, K: 128", FIXED.format(path="b_direct")),
    "direct_odd": (PRODUCT, "bf16", True, "M: 64, N: 128, K: 320", FIXED.format(path="b_direct")),
    "direct_ragged": (PRODUCT, "bf16", True, "M: 100, N: 200, K: 328", FIXED.format(path="b_direct")),
    "int8": (NARROW.format(sums="int32"), "int8", False, "M: 40, N: 144, K: 272", ""),
    "fp8_result": (PRODUCT, "fp8_e4m3", True, "M: 40, N: 144, K: 272", ""),
    "fp8": (NARROW.format(sums="float32"), "fp8_e4m3", True, "M: 40, N: 144, K: 272", ""),
}


def spec_text(name: str) -> str:
    reference, dtype, by_columns, extents, fixed = PRODUCTS[name]
    layout = "col" if by_columns else "row"
    return (
        f"name: {name}\nreference: |\n  {reference}\n"
        f"inputs:\n  a: {{shape: [M, K], dtype: {dtype}}}\n  b: {{shape: [K, N], dtype: {dtype}, layout: {layout}}}\n"
        f"extents: {{{extents}}}\n{fixed}"
    )


@pytest.mark.parametrize("device", ["mi300x", "mi355x"])
def test_products_are_right_in_the_simulator(device: str, tmp_path: Path) -> None:
    for name in PRODUCTS:
        emit(parse_spec(spec_text(name), Path(f"{name}.yaml")), target=device, folder=tmp_path / name)
    results = check_all([tmp_path / name for name in PRODUCTS], jobs=1)  # one process compiles them, one simulates
    faults = [fault for result in results for fault in (*faults_of(result), *conflicts_of(result))]
    assert not faults, "\n".join(faults)


def conflicts_of(result: PackageCheck) -> list[str]:
    """Return which variants for aligned bases meet in LDS; what the others load one by one may."""
    assert result.simulated is not None
    (case,) = result.simulated.cases
    aligned = [kernel for kernel in case.kernels if not kernel.variant.endswith("_any")]
    return [f"{result.compiled.name}: {k.variant}: bank conflicts" for k in aligned if k.whole.bank_conflict_cycles]
