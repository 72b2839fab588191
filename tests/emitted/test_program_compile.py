"""Programs that mix matrix products and loops compile for sm_90a, into what their plans state."""

from pathlib import Path

import mixed_specs
import pytest

from kgen.check import check_package
from kgen.package.write import write_package

pytestmark = pytest.mark.emitted
NAMES = ("linear_softmax", "linear_norm_linear", "attention", "group_norm_min", "in_place", "mask", "odd_chain")


@pytest.mark.parametrize("name", NAMES)
def test_a_program_compiles_as_planned(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    write_package(mixed_specs.files_of(name), folder)
    result = check_package(folder)
    assert not result.findings, "\n".join(map(str, result.findings))
    plan = mixed_specs.plan_of(name)
    assert [v.variant for v in result.variants] == [v.name for v in plan.variants]
    for variant, evidence in zip(plan.variants, result.variants, strict=True):
        kernels = evidence.kernels
        cuts_planes = variant.family == "gemm" and variant.cuts  # by kernels of their own
        assert len(kernels) == 1 or cuts_planes
        on_tensor_cores = variant.family == "gemm" and variant.load_path != "simt"
        assert any(kernel.mma for kernel in kernels) == on_tensor_cores
