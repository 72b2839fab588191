"""Attention kernels compile for sm_90a, without spills, with both products on the tensor cores."""

import os

import attention_specs
import pytest

from kgen.check import CheckResult, check_packages
from kgen.package.write import write_package

pytestmark = pytest.mark.emitted


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CheckResult]:
    folder = tmp_path_factory.mktemp("attention")
    folders = [folder / name for name in attention_specs.NAMES]
    for path in folders:
        write_package(attention_specs.files_of(path.name), path)
    return {result.folder.name: result for result in check_packages(folders)}


def test_all_compile_as_planned(results: dict[str, CheckResult]) -> None:
    assert set(results) == set(attention_specs.NAMES)
    findings = [f"{name}: {finding}" for name, result in results.items() for finding in result.findings]
    assert not findings, os.linesep.join(findings)


@pytest.mark.parametrize("name", attention_specs.NAMES)
def test_both_products_are_wgmma_of_the_tile(name: str, results: dict[str, CheckResult]) -> None:
    variant = attention_specs.variant_of(name)
    candidate = variant.choice.candidate
    (evidence,) = results[name].variants
    (kernel,) = (k for k in evidence.kernels if k.mma)
    assert len(evidence.kernels) == 1 + variant.combined + variant.ranges_keys and not any(
        k.spills for k in evidence.kernels
    )
    tiles = {candidate.number("tile_n"), candidate.number("dv_pad")}
    assert {sites.shape.split(".")[0] for sites in kernel.mma} == {f"64x{n}x16" for n in tiles}
    assert {sites.kind for sites in kernel.mma} == {"HGMMA"} and not kernel.spills
    assert kernel.register_pool == (candidate.number("producer_regs"), candidate.number("consumer_regs"))
