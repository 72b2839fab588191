"""The kernels of the matrix of specs compile for sm_90a, without spills, into what their plans state."""

import os
import sys

import emitted_specs
import pytest

from kgen.check import CheckResult, check_packages
from kgen.check.evidence import KernelEvidence
from kgen.check.result import VariantEvidence
from kgen.package.write import write_package
from kgen.planning.plan_gemm import GemmVariant

pytestmark = pytest.mark.emitted

ENGINES = {"bf16": "HGMMA", "fp16": "HGMMA", "fp8_e4m3": "QGMMA", "int8": "IGMMA", "fp32": "HGMMA", "tf32": "HGMMA"}


def show(result: CheckResult, done: int, total: int) -> None:
    """Write one line of progress."""
    print(f"[{done}/{total}] {result.name}: {'ok' if result.ok else 'FAILED'}", file=sys.stderr, flush=True)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CheckResult]:
    folder = tmp_path_factory.mktemp("matrix")
    folders = [folder / name for name in emitted_specs.NAMES]
    for path in folders:
        write_package(emitted_specs.files_of(path.name), path)
    return {result.folder.name: result for result in check_packages(folders, progress=show)}


def test_all_compile_as_planned(results: dict[str, CheckResult]) -> None:
    assert set(results) == set(emitted_specs.NAMES)
    findings = [f"{name}: {finding}" for name, result in results.items() for finding in result.findings]
    assert not findings, os.linesep.join(findings)


def product_of(variant: GemmVariant, evidence: VariantEvidence) -> KernelEvidence:
    """Return the kernel that multiplies: of several the one on tensor cores."""
    if variant.cuts or variant.split_k > 1:
        (kernel,) = (kernel for kernel in evidence.kernels if kernel.mma)
    else:
        (kernel,) = evidence.kernels
    return kernel


def test_the_engine_is_the_planned_one(results: dict[str, CheckResult]) -> None:
    for name, result in results.items():
        for variant, evidence in zip(emitted_specs.plan_of(name).variants, result.variants, strict=True):
            kernel = product_of(variant, evidence)
            found = {sites.kind for sites in kernel.mma}
            engine = {ENGINES[variant.facts.in_dtype]} if variant.load_path != "simt" else set()
            assert found == engine, f"{name}, {evidence.variant}"
            if variant.facts.k and variant.load_path == "simt":
                assert kernel.ffma >= 16 * 16  # a k step of 16, at least 16 products a thread
            if variant.load_path != "simt":
                # the pool that setmaxnreg redistributes is what the plan counted on
                candidate = variant.choice.candidate
                pool = (candidate.number("producer_regs"), candidate.number("consumer_regs"))
                assert kernel.register_pool == pool, f"{name}, {evidence.variant}"


def test_an_mma_shape_follows_the_tile(results: dict[str, CheckResult]) -> None:
    for name, result in results.items():
        for variant, evidence in zip(emitted_specs.plan_of(name).variants, result.variants, strict=True):
            if variant.load_path == "simt":
                continue
            candidate = variant.choice.candidate
            n = candidate.size.n // candidate.number("wg_n")
            depth = (
                16 if variant.cuts else 32 // variant.facts.in_bytes
            )  # a wgmma reads 32 bytes along k, of planes fp16
            shapes = {sites.shape.split(".")[0] for sites in product_of(variant, evidence).mma}
            assert shapes == {f"64x{n}x{depth}"}, f"{name}, {evidence.variant}: {shapes}"
