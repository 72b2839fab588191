"""CDNA's evidence without a compiler: assembly to numbers, occupancy, limits and the erratum, JSON, the table."""

import io
import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from rich.console import Console

from kgen.check import CheckResult, KernelEvidence, MmaSites, VariantEvidence, WaveEvidence
from kgen.check.flydsl.assembly import count_units, errata_of, instructions_of, isa_of, mma_sites
from kgen.check.flydsl.evidence import waves_per_simd
from kgen.check.flydsl.toolchain import FlyDsl
from kgen.check.package import Expectation
from kgen.check.table import check_table
from kgen.target import arch_of_isa

CDNA3, CDNA4 = arch_of_isa("gfx942"), arch_of_isa("gfx950")
ASSEMBLY = """
\t.amdgcn_target "amdgcn-amd-amdhsa-unknown-gfx950"
\t.text
first:
\ts_load_dwordx2 s[0:1], s[0:1], 0x0
\ts_waitcnt lgkmcnt(0)                    ; a comment with v_mfma_f32_16x16x32_bf16
\tbuffer_load_dwordx4 v1, s[8:11], 0 offen lds
\tbuffer_load_dwordx4 v[2:5], v1, s[0:3], 0 offen
.LBB0_1:
\tv_mfma_f32_16x16x32_bf16 a[0:3], v[2:5], v[2:5], a[0:3]
\tv_mfma_f32_16x16x32_bf16 a[0:3], v[2:5], v[2:5], a[0:3]
\tv_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[0:1] op_sel:[0,1,0]
\tv_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[0:1] op_sel_hi:[0,1,0]
\tds_read_b128 v[2:5], v0
\tscratch_store_dword off, v3, s33
\ts_barrier
\ts_cbranch_scc1 .LBB0_1
\tglobal_store_short_d16_hi v[0:1], v2, off
\ts_endpgm
.Lfunc_end0:
\t.amdhsa_kernel first
\t.end_amdhsa_kernel
second:
\tv_add_f32_e32 v0, v1, v2
\ts_endpgm
.Lfunc_end1:
\t.amdhsa_kernel second
\t.end_amdhsa_kernel
"""
WAVE = WaveEvidence(
    agprs=0, sgprs=24, vgpr_spills=0, sgpr_spills=0, waves_per_simd=3, async_loads=0, units=(("mfma", 8), ("valu", 40))
)
KERNEL = KernelEvidence(
    kernel="gemm_0",
    mma=(MmaSites("v_mfma", "f32_16x16x16_bf16", 8),),
    mma_waits=0,
    tma_loads=0,
    tma_multicasts=0,
    tma_stores=0,
    matrix_stores=0,
    ffma=0,
    spill_loads=0,
    spill_stores=0,
    instructions=100,
    access_bytes=16,
    registers=150,
    static_smem_bytes=32768,
    threads=256,
    wave=WAVE,
)


def test_the_instructions_of_each_kernel_are_its_own() -> None:
    bodies = instructions_of(ASSEMBLY)
    assert list(bodies) == ["first", "second"] and isa_of(ASSEMBLY) == "gfx950"
    assert [len(body) for body in bodies.values()] == [14, 2]
    assert dict(count_units(bodies["first"])) == {
        "barrier": 1,
        "branch": 2,
        "global": 2,
        "lds": 1,
        "lds copy": 1,
        "mfma": 2,
        "scratch": 1,
        "smem": 1,
        "valu": 2,
        "wait": 1,
    }
    assert [i.access_bytes for i in bodies["first"] if i.unit in ("global", "lds copy")] == [16, 16, 2]


def test_matrix_instructions_are_named_by_class_and_shape() -> None:
    body = instructions_of(ASSEMBLY)["first"]
    assert mma_sites(body, CDNA4.machine_code) == (("v_mfma", "f32_16x16x32_bf16", 2),)


def test_the_erratum_is_of_one_form_on_one_arch() -> None:
    body = instructions_of(ASSEMBLY)["first"]
    found = list(errata_of(body, CDNA4.machine_code))
    assert found == ["v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[0:1] op_sel:[0,1,0]"]
    assert list(errata_of(body, CDNA3.machine_code)) == []


@pytest.mark.parametrize(
    ("vgprs", "lds_bytes", "waves"),
    [(64, 0, 8), (65, 0, 7), (128, 0, 4), (168, 0, 3), (169, 0, 2), (256, 0, 2), (257, 0, 1), (512, 0, 1)],
)
def test_registers_limit_the_waves_of_a_simd(vgprs: int, lds_bytes: int, waves: int) -> None:
    assert waves_per_simd(vgprs, 256, lds_bytes, CDNA3) == waves


def test_lds_limits_the_waves_of_a_simd() -> None:
    assert [waves_per_simd(32, 256, lds, CDNA3) for lds in (4096, 16384, 32768, 32769, 65536)] == [8, 4, 2, 1, 1]
    assert [waves_per_simd(32, 256, lds, CDNA4) for lds in (16384, 32768, 65536, 163840)] == [
        8,
        4,
        2,
        1,
    ]  # by 1280 bytes
    assert waves_per_simd(32, 1024, 65536, CDNA3) == 4
    assert waves_per_simd(32, 256, 65537, CDNA3) == 0


@pytest.mark.parametrize(
    ("kernel", "finding"),
    [
        ({"threads": 512}, "v: threads: expected 256, found 512"),
        ({"registers": 520}, "v: registers: expected at most 512, found 520"),
        ({"static_smem_bytes": 1024}, "v: LDS: expected 32768 bytes, found 1024 bytes"),
    ],
)
def test_a_workgroup_is_as_planned_and_fits(kernel: dict[str, int], finding: str) -> None:
    limits, expected = FlyDsl.limits_of(CDNA3), Expectation("v", threads=256, smem_bytes=32768)
    assert list(limits.findings(expected, KERNEL)) == []
    assert list(map(str, limits.findings(expected, replace(KERNEL, **kernel)))) == [finding]


@pytest.mark.parametrize(
    ("wave", "finding"),
    [
        ({"sgpr_spills": 2}, "v: scalar registers: expected no spills: code with them is not reliable, found 2"),
        ({"vgpr_spills": 4}, "v: vector registers: expected at most 0 spilled, found 4"),
        (
            {"errata": ("v_pk_fma_f32 x",)},
            "v: erratum: expected no instruction that the hardware gets wrong, found v_pk_",
        ),
        ({"async_loads": 3}, "v: asynchronous loads to LDS: expected none, found 3"),
        ({"waves_per_simd": 1}, "v: waves per SIMD: expected at least 2, found 1"),
    ],
)
def test_what_only_waves_have_is_judged(wave: dict[str, object], finding: str) -> None:
    limits, expected = FlyDsl.limits_of(CDNA3), Expectation("v", async_loads=False, waves_per_simd=2)
    assert list(limits.findings(expected, KERNEL)) == []
    (found,) = limits.findings(expected, replace(KERNEL, wave=replace(WAVE, **wave)))
    assert str(found).startswith(finding)


def test_more_lds_than_there_is_does_not_pass() -> None:
    (found,) = FlyDsl.limits_of(CDNA3).findings(Expectation("v"), replace(KERNEL, static_smem_bytes=65537))
    assert str(found) == "v: LDS: expected at most 65536 bytes in a workgroup, found 65537 bytes"


def test_evidence_survives_json() -> None:
    variant = VariantEvidence("v", 0.5, "gfx942", (KERNEL,), listing="text", warnings=("warning: slow",))
    assert VariantEvidence.from_json(json.loads(json.dumps(asdict(variant)))) == variant


def test_the_table_has_the_columns_of_waves() -> None:
    wave = replace(WAVE, agprs=64, async_loads=5)
    variant = VariantEvidence("v", kernels=(replace(KERNEL, wave=wave),))
    result = CheckResult(Path("p"), "gemm", "mi300x", "gfx942", (variant,), (), (), False, 1.0)
    console = Console(width=200, file=io.StringIO(), record=True)
    console.print(check_table(result))
    text = console.export_text()
    for part in ("v_mfma_f32_16x16x16_bf16 x 8", "150 (64 accumulators)", "waves per SIMD", "loads to LDS", "32768"):
        assert part in text
    assert "TMA" not in text
