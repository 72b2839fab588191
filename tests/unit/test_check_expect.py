"""What the plan expects against what was compiled: every difference is a finding that says expected and found."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kgen.check.cutedsl import CtaLimits
from kgen.check.evidence import KernelEvidence, MmaSites
from kgen.check.expect import compare
from kgen.check.hardware import Hardware
from kgen.check.package import Expectation, PackageFolder
from kgen.check.result import VariantEvidence

LIMITS = CtaLimits(registers=65536, registers_per_thread=255, smem_bytes=232448)
EXPECTED = Expectation(
    variant="tma",
    mma="HGMMA",
    mma_shape="64x256x16.F32.BF16",
    tma_loads=True,
    tma_stores=True,
    multicast=True,
    threads=384,
    smem_bytes=230400,
    spills=0,
)
KERNEL = KernelEvidence(
    kernel="kernel_gemm",
    mma=(MmaSites("HGMMA", "64x256x16.F32.BF16", 8),),
    mma_waits=2,
    tma_loads=2,
    tma_multicasts=1,
    tma_stores=4,
    matrix_stores=16,
    ffma=0,
    spill_loads=0,
    spill_stores=0,
    instructions=500,
    register_pool=(40, 232),
    registers=168,
    static_smem_bytes=1024,
    dynamic_smem_bytes=230400,
    threads=384,
)


def findings(expected: Expectation, *variants: VariantEvidence) -> list[str]:
    package = PackageFolder(Path("p"), "p", "h200", "sm90a", "", None, (expected,))
    return [str(finding) for finding in compare(package, Hardware("sm_90a", LIMITS), variants)]


def of_kernel(**changes: Any) -> VariantEvidence:
    return VariantEvidence("tma", arch="sm_90a", kernels=(replace(KERNEL, **changes),))


def test_a_kernel_as_planned_has_no_finding() -> None:
    assert findings(EXPECTED, of_kernel()) == []
    # the launch arguments may be run-time values: then the plan's word is all there is
    assert findings(EXPECTED, of_kernel(threads=None, dynamic_smem_bytes=None)) == []


@pytest.mark.parametrize(
    ("changes", "finding"),
    [
        (
            {"mma": (MmaSites("HMMA", "16816.F32.BF16", 64),)},
            "tma: MMA: expected HGMMA only, found HMMA.16816.F32.BF16 x 64",
        ),
        ({"mma": ()}, "tma: MMA: expected HGMMA only, found no tensor-core instruction"),
        (
            {"mma": (MmaSites("HGMMA", "64x128x16.F32.BF16", 8),)},
            "tma: MMA shape: expected 64x256x16.F32.BF16, found HGMMA.64x128x16.F32.BF16 x 8",
        ),
        ({"tma_loads": 0}, "tma: TMA loads: expected at least one, found 0"),
        ({"tma_stores": 0}, "tma: TMA stores: expected at least one, found 0"),
        ({"tma_multicasts": 0}, "tma: TMA multicast loads: expected at least one, found 0"),
        ({"spill_loads": 3, "spill_stores": 2}, "tma: spills: expected at most 0, found 3 loads and 2 stores"),
        ({"threads": 256}, "tma: threads: expected 384, found 256"),
        ({"dynamic_smem_bytes": 1024}, "tma: dynamic smem: expected 230400 bytes, found 1024 bytes"),
        (
            {"registers": 176, "register_pool": None},
            "tma: registers: expected at most 168 (65536 / 384 threads), found 176",
        ),
        (
            {"register_pool": (40, 240)},
            "tma: setmaxnreg: expected at most 504 registers over 3 warp groups (168 each at launch), "
            "found 520 (40 + 2 x 240)",
        ),
        (
            {"static_smem_bytes": 4096},
            "tma: smem: expected at most 232448 bytes in a CTA, found 233472 bytes",
        ),
        (
            {"instructions": 0},
            "tma: disassembly: expected kernel functions with instructions and registers, found an unread listing",
        ),
    ],
)
def test_each_difference_is_one_finding(changes: dict[str, Any], finding: str) -> None:
    assert findings(EXPECTED, of_kernel(**changes)) == [finding]


def test_a_plan_can_forbid_as_well() -> None:
    simt = Expectation("tma", mma="none", tma_loads=False, tma_stores=False, multicast=False)
    assert findings(simt, of_kernel()) == [
        "tma: MMA: expected no tensor-core instruction, found HGMMA.64x256x16.F32.BF16 x 8",
        "tma: TMA loads: expected none, found 2",
        "tma: TMA stores: expected none, found 4",
        "tma: TMA multicast loads: expected none, found 1",
    ]


def test_sums_of_a_cluster_need_stores_across_it() -> None:
    expected = replace(EXPECTED, cluster_stores=True)
    assert findings(expected, of_kernel(cluster_stores=2)) == []
    assert findings(expected, of_kernel()) == ["tma: stores across the cluster: expected at least one, found 0"]


def test_every_kernel_of_an_early_start_must_wait() -> None:
    expected = replace(EXPECTED, grid_waits=True)
    waiting, careless = of_kernel(grid_waits=1), of_kernel()
    assert findings(expected, waiting) == []
    both = replace(waiting, kernels=(*waiting.kernels, *careless.kernels))
    for wrong in (careless, both):
        assert "tma: waits for the kernel before: expected at least one, found 0" in findings(expected, wrong)


def test_variants_and_plan_must_name_the_same() -> None:
    assert findings(EXPECTED) == ["tma: variant: expected a row of VARIANTS that compiles, found none"]
    extra = replace(of_kernel(), variant="extra")
    assert findings(EXPECTED, of_kernel(), extra) == [
        "extra: evidence: expected a row for this variant in plan.json, found none"
    ]


def test_another_arch_and_a_failed_compile_are_findings() -> None:
    assert findings(EXPECTED, replace(of_kernel(), arch="sm_100a")) == [
        "tma: architecture: expected sm_90a, found sm_100a"
    ]
    failed = VariantEvidence("tma", failure="ValueError: no")
    assert findings(EXPECTED, failed) == ["tma: compile: expected machine code for sm_90a, found ValueError: no"]


def test_registers_are_handed_out_by_eight() -> None:
    assert [LIMITS.registers_for(threads) for threads in (128, 256, 384, 512, 1024)] == [255, 255, 168, 128, 64]


def test_a_narrower_access_than_planned_is_found() -> None:
    expected = replace(EXPECTED, access_bytes=16)
    assert findings(expected, of_kernel(access_bytes=16)) == []
    (finding,) = findings(expected, of_kernel(access_bytes=4))
    assert finding == "tma: memory access: expected one of 16 bytes a thread, found at most 4"
