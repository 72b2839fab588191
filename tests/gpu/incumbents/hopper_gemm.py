"""A matrix product for Hopper as an engineer writes a first one by hand: a @ b.T in bf16, one CTA per 128 x 128 tile.

The incumbent of a port (tests/gpu/ports.py). One warp group; its first warp keeps TMA loads three stages ahead of the
wgmma, the result goes from registers to memory. Extents are multiples of the tile.
"""

from functools import cache

import cutlass
import cutlass.cute as cute
import torch
from cutlass import pipeline
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warpgroup
from cutlass.cute.runtime import make_fake_stream, make_fake_tensor
from cutlass.utils import SmemAllocator

TILE_M, TILE_N, TILE_K, STAGES = 128, 128, 64, 4
THREADS = 128
BF16 = cutlass.BFloat16


def smem_layout(rows):
    """Rows of 64 bf16 each, 128-byte swizzled, one per stage."""
    atom = warpgroup.make_smem_layout_atom(warpgroup.SmemLayoutAtomKind.K_SW128, BF16)
    return cute.tile_to_shape(atom, (rows, TILE_K, STAGES), order=(0, 1, 2))


@cute.kernel
def gemm_kernel(tiled_mma: cute.TiledMma, tma_a, mA, tma_b, mB, mD):
    """One 128 x 128 tile of D."""
    thread = cute.arch.thread_idx()[0]
    tile_m, tile_n, _ = cute.arch.block_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    smem = SmemAllocator()
    barriers = smem.allocate_array(cutlass.Int64, 2 * STAGES)
    sA = smem.allocate_tensor(BF16, smem_layout(TILE_M).outer, 1024, swizzle=smem_layout(TILE_M).inner)
    sB = smem.allocate_tensor(BF16, smem_layout(TILE_N).outer, 1024, swizzle=smem_layout(TILE_N).inner)
    pipe = pipeline.PipelineTmaAsync.create(
        barrier_storage=barriers,
        num_stages=STAGES,
        producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
        consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, THREADS // 32),  # one thread a warp arrives
        tx_count=(TILE_M + TILE_N) * TILE_K * 2,
    )
    gA = cute.local_tile(mA, (TILE_M, TILE_K), (tile_m, None))  # (tile_m, tile_k, k)
    gB = cute.local_tile(mB, (TILE_N, TILE_K), (tile_n, None))
    gD = cute.local_tile(mD, (TILE_M, TILE_N), (tile_m, tile_n))
    tAsA, tAgA = cpasync.tma_partition(
        tma_a, 0, cute.make_layout(1), cute.group_modes(sA, 0, 2), cute.group_modes(gA, 0, 2)
    )
    tBsB, tBgB = cpasync.tma_partition(
        tma_b, 0, cute.make_layout(1), cute.group_modes(sB, 0, 2), cute.group_modes(gB, 0, 2)
    )
    part = tiled_mma.get_slice(thread)
    tA, tB = tiled_mma.make_fragment_A(part.partition_A(sA)), tiled_mma.make_fragment_B(part.partition_B(sB))
    acc = cute.make_rmem_tensor(tiled_mma.partition_shape_C((TILE_M, TILE_N)), cutlass.Float32)

    steps = cute.size(gA, mode=[2])
    write = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, STAGES)
    read = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, STAGES)
    ahead = cutlass.min(STAGES - 1, steps)
    if warp == 0:
        for k in cutlass.range(ahead, unroll=1):
            pipe.producer_acquire(write)
            barrier = pipe.producer_get_barrier(write)
            cute.copy(tma_a, tAgA[None, k], tAsA[None, write.index], tma_bar_ptr=barrier)
            cute.copy(tma_b, tBgB[None, k], tBsB[None, write.index], tma_bar_ptr=barrier)
            pipe.producer_commit(write)
            write.advance()
    tiled_mma.set(warpgroup.Field.ACCUMULATE, False)
    for k in cutlass.range(steps, unroll=1):
        pipe.consumer_wait(read)
        warpgroup.fence()
        for block in cutlass.range_constexpr(TILE_K // 16):
            cute.gemm(tiled_mma, acc, tA[None, None, block, read.index], tB[None, None, block, read.index], acc)
            tiled_mma.set(warpgroup.Field.ACCUMULATE, True)
        warpgroup.commit_group()
        warpgroup.wait_group(0)
        pipe.consumer_release(read)
        read.advance()
        if warp == 0 and k + ahead < steps:
            pipe.producer_acquire(write)
            barrier = pipe.producer_get_barrier(write)
            cute.copy(tma_a, tAgA[None, k + ahead], tAsA[None, write.index], tma_bar_ptr=barrier)
            cute.copy(tma_b, tBgB[None, k + ahead], tBsB[None, write.index], tma_bar_ptr=barrier)
            pipe.producer_commit(write)
            write.advance()
    out = cute.make_rmem_tensor_like(acc, BF16)
    out.store(acc.load().to(BF16))
    cute.autovec_copy(out, part.partition_C(gD))


@cute.jit
def launch(a: cute.Tensor, b: cute.Tensor, d: cute.Tensor, stream):
    """Make the TMA descriptors and launch one CTA per tile."""
    tiled_mma = cute.make_tiled_mma(
        warpgroup.MmaF16BF16Op(
            BF16,
            cutlass.Float32,
            (64, TILE_N, 16),
            warpgroup.OperandSource.SMEM,
            OperandMajorMode.K,
            OperandMajorMode.K,
        )
    )
    load = cpasync.CopyBulkTensorTileG2SOp()
    tma_a, mA = cpasync.make_tiled_tma_atom(
        load, a, cute.slice_(smem_layout(TILE_M), (None, None, 0)), (TILE_M, TILE_K)
    )
    tma_b, mB = cpasync.make_tiled_tma_atom(
        load, b, cute.slice_(smem_layout(TILE_N), (None, None, 0)), (TILE_N, TILE_K)
    )
    grid = (cute.size(a, mode=[0]) // TILE_M, cute.size(b, mode=[0]) // TILE_N, 1)
    gemm_kernel(tiled_mma, tma_a, mA, tma_b, mB, d).launch(grid=grid, block=(THREADS, 1, 1), stream=stream)


@cache
def compiled(m, n, k):
    """The launch function for one shape."""
    tensors = [make_fake_tensor(BF16, shape, (shape[1], 1), assumed_align=16) for shape in ((m, k), (n, k), (m, n))]
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    return cute.compile(launch, *tensors, stream, options="--enable-tvm-ffi")


def gemm(a, b):
    """Return a @ b.T for contiguous bf16 matrices on one GPU."""
    (m, k), n = a.shape, b.shape[0]
    d = torch.empty((m, n), dtype=torch.bfloat16, device=a.device)
    compiled(m, n, k)(a, b, d)
    return d
