"""Loop kernels of every layout and schedule compile for sm_90a, into what their plans state."""

import os

import loop_specs
import pytest

from kgen.check import CheckResult, check_packages
from kgen.package.write import write_package

pytestmark = pytest.mark.emitted
NAMES = (
    "softmax",
    "softmax_cluster",
    "row_sums",
    "row_bias",
    "row_bias_ahead",
    "sumexp",
    "argmax",
    "column_argmax",
    "column_moments",
    "column_softmax",
    "scan_rows_reversed",
    "scan_columns",
    "loss",
    "bounded",
    "scalar_beside",
    "zero_dim",
    "small_types",
    "reserved_names",
)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CheckResult]:
    folders = [tmp_path_factory.mktemp("loops") / name for name in NAMES]
    for path in folders:
        write_package(loop_specs.files_of(path.name), path)
    return {result.folder.name: result for result in check_packages(folders)}


def test_all_compile_as_planned(results: dict[str, CheckResult]) -> None:
    assert set(results) == set(NAMES)
    findings = [f"{name}: {finding}" for name, result in results.items() for finding in result.findings]
    assert not findings, os.linesep.join(findings)


@pytest.mark.parametrize("name", NAMES)
def test_each_variant_is_one_kernel_without_products(name: str, results: dict[str, CheckResult]) -> None:
    variants = results[name].variants
    assert [v.variant for v in variants] == [v.name for v in loop_specs.plan_of(name).variants]
    for variant in variants:
        (kernel,) = variant.kernels
        assert not kernel.mma
