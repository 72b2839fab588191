"""Reading listings, resource usage and compiled host code; the digest of what was read."""

from dataclasses import replace
from typing import Any

import pytest

from kgen.check.evidence import KernelEvidence, MmaSites
from kgen.check.launch import Launch, launches_of
from kgen.check.sass import arch_of, evidence_of, kernels_of, machine_code_of
from kgen.errors.check import UnknownIsaError

CODE = machine_code_of("sm_90a")
LISTING = """
\t.headerflags\t@"EF_CUDA_TEXMODE_UNIFIED EF_CUDA_ACCELERATORS EF_CUDA_SM90 EF_CUDA_X(EF_CUDA_SM90)"
\t.section\t.text.kernel_gemm,"ax",@progbits
\t.sectionflags\t@"SHF_BARRIERS=16"
\t.global         kernel_gemm
.text.kernel_gemm:
        /*0000*/                   USETMAXREG.DEALLOC.CTAPOOL 0x28 ;
        /*0010*/              @!P0 UTMALDG.2D.MULTICAST [UR12], [UR22], UR26, desc[URZ] ;
        /*0020*/                   UTMALDG.2D [UR16], [UR10], desc[URZ] ;
        /*0030*/                   USETMAXREG.TRY_ALLOC.CTAPOOL UP0, 0xe8 ;
.L_x_1:
        /*0040*/                   HGMMA.64x256x16.F32.BF16 R24, gdesc[UR12], RZ, !UPT ;
        /*0050*/              @!UP1 HGMMA.64x256x16.F32.BF16 R24, gdesc[UR12], R24, gsb0 ;
        /*0060*/                   WARPGROUP.DEPBAR.LE gsb0, 0x0 ;
        /*0070*/                   STSM.16.M88.4 [R8], R52 ;
        /*0080*/                   UTMASTG.2D [UR12], [UR24], desc[URZ] ;
        /*0090*/                   EXIT ;
        /*00a0*/                   BRA `(.L_x_1);
\t.section\t.text.kernel_tail,"ax",@progbits
.text.kernel_tail:
        /*0000*/                   STL.64 [R1+0x8], R4 ;
        /*0010*/                   LDL R2, [R1] ;
        /*0020*/              @P0  FFMA R7, R2, R7, R2 ;
        /*0030*/                   HMMA.16816.F32.BF16 R4, R4, R8, R12 ;
\t.section\t.nv.shared.kernel_gemm,"aw",@nobits
        /*0000*/                   FFMA R7, R2, R7, R2 ;
"""

USAGE = """
Resource usage:
 Common:
  GLOBAL:0
 Function kernel_tail:
  REG:40 STACK:16 SHARED:0 LOCAL:8 CONSTANT[0]:544 TEXTURE:0 SURFACE:0 SAMPLER:0
 Function kernel_gemm:
  REG:168 STACK:0 SHARED:1024 LOCAL:0 CONSTANT[0]:960 TEXTURE:0 SURFACE:0 SAMPLER:0
"""

# What a launch with 384 x 1 x 1 threads, 230400 bytes and clusters of 2 x 1 x 1 looks like, which also sets
# cudaLaunchAttributeCooperative to 0; the second has a run-time block size and no cluster.
ATTRIBUTE = "!llvm.struct<(i32, array<4 x i8>, array<64 x i8>)>"
CONFIG = "!llvm.struct<(array<3 x i32>, array<3 x i32>, i64, ptr, ptr, i32)>"
HOST = f"""
  llvm.func @launch(%arg0: i32) -> i32 {{
    %13 = llvm.mlir.constant(1 : i32) : i32
    %14 = llvm.mlir.constant(384 : i32) : i32
    %15 = llvm.mlir.constant(230400 : i64) : i64
    %87 = llvm.alloca %13 x {CONFIG} : (i32) -> !llvm.ptr
    %90 = llvm.getelementptr %87[0, 1, 0] : (!llvm.ptr) -> !llvm.ptr, {CONFIG}
    llvm.store %14, %90 : i32, !llvm.ptr
    %91 = llvm.getelementptr %87[0, 1, 1] : (!llvm.ptr) -> !llvm.ptr, {CONFIG}
    llvm.store %13, %91 : i32, !llvm.ptr
    %92 = llvm.getelementptr %87[0, 1, 2] : (!llvm.ptr) -> !llvm.ptr, {CONFIG}
    llvm.store %13, %92 : i32, !llvm.ptr
    %93 = llvm.getelementptr %87[0, 2] : (!llvm.ptr) -> !llvm.ptr, {CONFIG}
    llvm.store %15, %93 : i64, !llvm.ptr
    %94 = llvm.getelementptr %87[0, 0, 0] : (!llvm.ptr) -> !llvm.ptr, {CONFIG}
    llvm.store %arg0, %94 : i32, !llvm.ptr
    %4 = llvm.mlir.constant(4 : i32) : i32
    %2 = llvm.mlir.constant(2 : i32) : i32
    %140 = llvm.getelementptr %138[%156] : (!llvm.ptr, i32) -> !llvm.ptr, {ATTRIBUTE}
    %141 = llvm.getelementptr %140[0, 0] : (!llvm.ptr) -> !llvm.ptr, {ATTRIBUTE}
    llvm.store %4, %141 : i32, !llvm.ptr
    %142 = llvm.getelementptr %140[0, 2] : (!llvm.ptr) -> !llvm.ptr, {ATTRIBUTE}
    %143 = llvm.getelementptr %142[0, 0] : (!llvm.ptr) -> !llvm.ptr, !llvm.struct<(i32, i32, i32)>
    llvm.store %2, %143 : i32, !llvm.ptr
    %144 = llvm.getelementptr %142[0, 1] : (!llvm.ptr) -> !llvm.ptr, !llvm.struct<(i32, i32, i32)>
    llvm.store %13, %144 : i32, !llvm.ptr
    %145 = llvm.getelementptr %142[0, 2] : (!llvm.ptr) -> !llvm.ptr, !llvm.struct<(i32, i32, i32)>
    llvm.store %13, %145 : i32, !llvm.ptr
    %165 = llvm.getelementptr %164[0, 0] : (!llvm.ptr) -> !llvm.ptr, {ATTRIBUTE}
    llvm.store %2, %165 : i32, !llvm.ptr
    %166 = llvm.getelementptr %164[0, 2] : (!llvm.ptr) -> !llvm.ptr, {ATTRIBUTE}
    llvm.store %0, %166 : i32, !llvm.ptr
    %181 = llvm.mlir.addressof @kernels_kernel_gemm : !llvm.ptr
    %182 = llvm.load %181 : !llvm.ptr -> !llvm.ptr
    %183 = llvm.call @_cudaLaunchKernelEx(%168, %182, %171) : (!llvm.ptr, !llvm.ptr, !llvm.ptr) -> i32
    %190 = llvm.getelementptr %88[0, 1, 0] : (!llvm.ptr) -> !llvm.ptr, {CONFIG}
    llvm.store %arg0, %190 : i32, !llvm.ptr
    %191 = llvm.getelementptr %88[0, 1, 1] : (!llvm.ptr) -> !llvm.ptr, {CONFIG}
    llvm.store %13, %191 : i32, !llvm.ptr
    %192 = llvm.getelementptr %88[0, 1, 2] : (!llvm.ptr) -> !llvm.ptr, {CONFIG}
    llvm.store %13, %192 : i32, !llvm.ptr
    %281 = llvm.mlir.addressof @kernels_kernel_tail : !llvm.ptr
    %282 = llvm.load %281 : !llvm.ptr -> !llvm.ptr
    %283 = llvm.call @_cudaLaunchKernelEx(%268, %282, %271) : (!llvm.ptr, !llvm.ptr, !llvm.ptr) -> i32
  }}
"""


def test_each_kernel_of_a_cubin_is_counted_apart() -> None:
    gemm, tail = kernels_of(LISTING, USAGE, CODE)
    assert gemm == KernelEvidence(
        kernel="kernel_gemm",
        mma=(MmaSites("HGMMA", "64x256x16.F32.BF16", 2),),
        mma_waits=1,
        tma_loads=2,
        tma_multicasts=1,
        tma_stores=1,
        matrix_stores=1,
        ffma=0,
        spill_loads=0,
        spill_stores=0,
        instructions=11,
        register_pool=(40, 232),
        instructions_digest=gemm.instructions_digest,
        access_bytes=16,
        registers=168,
        static_smem_bytes=1024,
    )
    assert tail.kernel == "kernel_tail"
    assert tail.mma == (MmaSites("HMMA", "16816.F32.BF16", 1),)
    assert tail.access_bytes == 0
    assert (tail.spill_loads, tail.spill_stores, tail.spills) == (1, 1, 2)
    assert (tail.ffma, tail.registers, tail.stack_bytes, tail.local_bytes) == (1, 40, 16, 8)
    assert str(gemm.mma[0]) == "HGMMA.64x256x16.F32.BF16 x 2"


def test_the_arch_tells_an_a_target_from_a_plain_one() -> None:
    assert arch_of(LISTING) == "sm_90a"
    assert arch_of(LISTING.replace("EF_CUDA_ACCELERATORS ", "")) == "sm_90"
    assert arch_of(LISTING.replace("SM90", "SM100")) == "sm_100a"
    assert arch_of('\t.target\tsm_90a\n\n\t.elftype\t@"ET_EXEC"\n') == "sm_90a"
    assert arch_of("not a listing") is None


def test_launch_arguments_come_from_the_host_code() -> None:
    assert launches_of(HOST) == (
        Launch("kernels_kernel_gemm", threads=384, dynamic_smem_bytes=230400, cluster=(2, 1, 1)),
        Launch("kernels_kernel_tail", threads=None, dynamic_smem_bytes=None, cluster=None),
    )
    assert launches_of(HOST)[0].is_of("kernel_gemm")
    assert not launches_of(HOST)[0].is_of("gemm")


def test_a_cluster_that_is_computed_at_run_time_is_not_known() -> None:
    assert launches_of(HOST.replace("store %2, %143", "store %arg0, %143"))[0].cluster is None


def test_mnemonics_come_from_the_arch_file() -> None:
    other = replace(
        CODE, tensor_core=("MMA",), bulk_load=(), multiply_add=("HGMMA.64x256x16",), spill_load=("EXIT", "BRA")
    )
    gemm = kernels_of(LISTING, USAGE, other)[0]
    assert (gemm.mma, gemm.tma_loads, gemm.tma_multicasts, gemm.ffma, gemm.spill_loads) == ((), 0, 0, 2, 2)
    assert machine_code_of("gfx942").spill_load == ("scratch_load",)
    with pytest.raises(UnknownIsaError, match=r"no arch file describes the machine code of sm_75; known: .*sm_90a"):
        machine_code_of("sm_75")


ASSERT = """
\t.section\t.text.checked,"ax",@progbits
checked:
.text.checked:
        /*0000*/                   CALL.ABS.NOINC R2 ;
        /*0010*/              @P1  BPT.TRAP 0x1 ;
        /*0020*/                   CALL.REL.NOINC `($checked$slow) ;
$checked$slow:
        /*0030*/                   RET.REL.NODEC R12 `(checked) ;
\t.type\t\t__assertfail,@function
"""


def test_traps_and_calls_of_assert_are_counted() -> None:
    (kernel,) = kernels_of(ASSERT, "", CODE)
    assert (kernel.traps, kernel.assert_calls) == (1, 1)
    (printing,) = kernels_of(ASSERT.replace("__assertfail", "vprintf"), "", CODE)
    assert (printing.traps, printing.assert_calls) == (1, 0)


def digests(listing: str, usage: str = USAGE) -> list[str]:
    return [kernel.code_digest for kernel in kernels_of(listing, usage, CODE)]


def test_the_digest_knows_no_names_labels_encodings_and_comments() -> None:
    renamed = LISTING.replace("kernel_gemm", "product").replace(".L_x_1", ".L_x_77").replace("\t.global", "// a word\n")
    assert digests(renamed, USAGE.replace("kernel_gemm", "product")) == digests(LISTING)
    encoded = LISTING.replace(" ;\n", " ;    /* 0x00000a00ff017b82 */\n         /* 0x000e620000000800 */\n")
    assert digests(encoded) == digests(LISTING)
    renamed = ASSERT.replace("checked", "safe")
    assert digests(renamed) == digests(ASSERT)
    # as cuobjdump writes them
    assert digests(ASSERT.replace("`($checked$slow)", "0x30").replace("`(checked)", "0x0")) == digests(ASSERT)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("R24, gsb0", "R28, gsb0"),  # an operand
        ("@!P0 UTMALDG", "@P0 UTMALDG"),  # a predicate
        ("UTMALDG.2D [UR16]", "UTMALDG.3D [UR16]"),  # a modifier
        (".L_x_1:\n        /*0040*/", "        /*0040*/"),  # where a jump leads to
    ],
)
def test_the_digest_knows_every_instruction(old: str, new: str) -> None:
    assert old in LISTING
    changed, kept = zip(digests(LISTING), digests(LISTING.replace(old, new)), strict=True)
    assert changed[0] != changed[1] and kept[0] == kept[1]


@pytest.mark.parametrize(
    "changes",
    [
        {"registers": 160},
        {"static_smem_bytes": 2048},
        {"dynamic_smem_bytes": 1024},
        {"threads": 256},
        {"cluster": (2, 1, 1)},
    ],
)
def test_the_digest_knows_resources_and_launch(changes: dict[str, Any]) -> None:
    gemm = kernels_of(LISTING, USAGE, CODE)[0]
    assert replace(gemm, **changes).code_digest != gemm.code_digest
    assert replace(gemm, kernel="other").code_digest == gemm.code_digest


def test_text_that_is_something_else_gives_nothing() -> None:
    assert kernels_of("", "", CODE) == ()
    assert launches_of("") == ()


@pytest.mark.parametrize(
    ("opcode", "expected"),
    [
        ("LDG.E.128.CONSTANT", 16),
        ("STG.E.64", 8),
        ("LDG.E", 4),
        ("STG.E.U16", 2),
        ("LDG.E.S8", 1),
        ("LDGSTS.E.BYPASS.128", 16),
        ("UBLKCP.S.G", 16),
        ("LDS.128", 0),
    ],
)
def test_the_widest_access_to_device_memory_is_found(opcode: str, expected: int) -> None:
    line = f"        /*0000*/                   {opcode} R4, [R2] ;"
    assert evidence_of("kernel", [line], {}, CODE, False).access_bytes == expected


def test_stores_into_the_smem_of_another_cta_are_counted() -> None:
    lines = [f"        /*{place:04x}*/                   STAS.128 [R4], R8 ;" for place in (0, 16)]
    found = evidence_of("kernel", lines, {}, CODE, False)
    assert (found.cluster_stores, found.access_bytes) == (2, 0)
