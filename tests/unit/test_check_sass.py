"""Reading listings, resource usage and compiled host code."""

from kgen.check.launch import Launch, launches_of
from kgen.check.sass import KernelEvidence, MmaSites, arch_of, kernels_of

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

# What a launch with 384 x 1 x 1 threads and 230400 bytes looks like; the second has a run-time block size.
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
    gemm, tail = kernels_of(LISTING, USAGE)
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
        registers=168,
        static_smem_bytes=1024,
    )
    assert tail.kernel == "kernel_tail"
    assert tail.mma == (MmaSites("HMMA", "16816.F32.BF16", 1),)
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
        Launch("kernels_kernel_gemm", threads=384, dynamic_smem_bytes=230400),
        Launch("kernels_kernel_tail", threads=None, dynamic_smem_bytes=None),
    )
    assert launches_of(HOST)[0].is_of("kernel_gemm")
    assert not launches_of(HOST)[0].is_of("gemm")


def test_text_that_is_something_else_gives_nothing() -> None:
    assert kernels_of("", "") == ()
    assert launches_of("") == ()
