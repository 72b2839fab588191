"""Results as a person reads them and as `--json` prints them."""

import io
import json
from dataclasses import asdict, replace
from pathlib import Path

from rich.console import Console, RenderableType

from kgen.check import CheckResult, DeviceResult, Finding, KernelEvidence, MmaSites, PackageCheck, VariantEvidence
from kgen.check.table import check_table, device_table

KERNEL = KernelEvidence(
    kernel="kernel_gemm",
    mma=(MmaSites("HGMMA", "64x256x16.F32.BF16", 8),),
    mma_waits=2,
    tma_loads=2,
    tma_multicasts=1,
    tma_stores=4,
    matrix_stores=16,
    ffma=0,
    spill_loads=1,
    spill_stores=1,
    instructions=500,
    register_pool=(40, 232),
    registers=168,
    static_smem_bytes=1024,
    threads=384,
    cluster=(2, 1, 1),
)
VARIANTS = (
    VariantEvidence("row[0]", 0.6, "sm_90a", (KERNEL,), listing="listing"),
    VariantEvidence("bad", failure="no"),
)
SPILLS = Finding("row[0]", "spills", "at most 0", "1 loads and 1 stores")
RESULT = CheckResult(Path("p"), "gemm", "h200", "sm_90a", VARIANTS, (SPILLS,), ("edited",), False, 2.5)


def text_of(renderable: RenderableType) -> str:
    console = Console(width=200, file=io.StringIO(), record=True)
    console.print(renderable)
    return console.export_text()


def test_the_table_shows_every_kernel_finding_and_note() -> None:
    text = text_of(check_table(RESULT))
    for part in (
        "gemm for h200 (sm_90a), 2.5 s",
        "row[0]",
        "HGMMA.64x256x16.F32.BF16 x 8",
        "2 (1 multicast)",
        "168 (pool 40/232)",
        "384 (cluster 2x1x1)",
        "? + 1024 static",
        "not compiled",
        "FAILED: 1 findings",
        "- row[0]: spills: expected at most 0, found 1 loads and 1 stores",
        "note: edited",
    ):
        assert part in text


def test_json_holds_the_same_without_the_listing() -> None:
    value = json.loads(json.dumps(PackageCheck(RESULT, None).to_json()))
    assert value["ok"] is False and value["device"] is None
    row, failed = value["compiled"]["variants"]
    assert row["kernels"][0]["mma"] == [{"kind": "HGMMA", "shape": "64x256x16.F32.BF16", "sites": 8}]
    assert row["kernels"][0]["code_digest"] == KERNEL.code_digest and row["kernels"][0]["cluster"] == [2, 1, 1]
    assert "listing" not in row and failed["failure"] == "no"
    assert value["compiled"]["findings"][0]["message"] == str(SPILLS)
    assert RESULT.listing() == "// variant row[0]\nlisting\n"


def test_digests_combine_kernels_and_variants() -> None:
    other = replace(KERNEL, kernel="kernel_tail", registers=40)
    ab, ba = VariantEvidence("x", kernels=(KERNEL, other)), VariantEvidence("x", kernels=(other, KERNEL))
    assert ab.code_digest == ba.code_digest != VariantEvidence("x", kernels=(KERNEL,)).code_digest
    one, two = VariantEvidence("one", kernels=(KERNEL,)), VariantEvidence("two", kernels=(other,))
    result = replace(RESULT, variants=(one, two))
    assert result.code_digest == replace(RESULT, variants=(two, one)).code_digest
    assert result.code_digest != replace(RESULT, variants=(replace(one, kernels=(other,)), two)).code_digest
    assert f"machine code {result.code_digest}" in text_of(check_table(result))
    # what was not compiled has no digest
    assert RESULT.code_digest is None and "machine code" not in text_of(check_table(RESULT))


def test_evidence_survives_the_cache() -> None:
    stored = json.loads(json.dumps(asdict(VARIANTS[0])))
    assert VariantEvidence.from_json(stored) == VARIANTS[0]


def test_a_device_result_is_a_table_of_its_cases() -> None:
    cases = [{"id": "case0", "status": "PASS", "rel_err": 0.001, "latency_us": 12.5}, {"id": "case1", "status": "FAIL"}]
    result = DeviceResult(Path("p"), "NVIDIA H200", False, ("case1: rel_err 0.5",), {"cases": cases})
    text = text_of(device_table(result))
    assert "NVIDIA H200" in text and "12.5" in text and "FAIL" in text and "- case1: rel_err 0.5" in text
