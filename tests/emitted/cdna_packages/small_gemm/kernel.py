"""C[M, N] = A[M, K] @ B[N, K].T in bf16: tiles of 64 x 64 by four waves, one LDS buffer of 64 columns of K.

LDS rows are swizzled by 16 bytes, so that neither the writes nor the reads of a wave conflict. Rows past M read zeros
and are not stored; N and K are multiples of the tile.
"""

from functools import cache

import flydsl.compiler as flyc
import flydsl.expr as fx
import torch
from flydsl.expr import const_expr, gpu, range_constexpr

NAME = "small_gemm"
TILE_M, TILE_N, TILE_K = 64, 64, 64
WAVES_M, WAVES_N = 2, 2
THREADS = 64 * WAVES_M * WAVES_N
VEC = 8  # elements of one access of 16 bytes
MMA_K = 16
# the order of K in which a lane's operands of one step over 32 columns lie side by side: LDS reads of 16 bytes
STEP_K, K_ORDER = 32, ((4, 4, 2), (1, 8, 4))
CASES = ((100, 128, 192), (64, 64, 64))  # M, N, K


class Variant:
    """A row of the plan."""

    def __init__(self, name, m, n, k):
        self.name, self.m, self.n, self.k = name, m, n, k


VARIANTS = tuple(Variant(f"m{m}n{n}k{k}", m, n, k) for m, n, k in CASES)


@fx.struct
class Smem:
    """One tile of each operand."""

    a: fx.Array[fx.BFloat16, TILE_M * TILE_K, 16]
    b: fx.Array[fx.BFloat16, TILE_N * TILE_K, 16]


def swizzled(array, rows):
    """The view of an LDS tile: 16-byte pieces of a row are permuted by the row's number."""
    layout = fx.make_ordered_layout((rows, TILE_K), (1, 0))
    return fx.make_view(array.ptr, fx.make_composed_layout(fx.static(fx.SwizzleType.get(3, 3, 3)), layout))


@flyc.kernel
def small_gemm(
    a: fx.Tensor,
    b: fx.Tensor,
    c: fx.Tensor,
    m: fx.Constexpr[int],
    n: fx.Constexpr[int],
    k: fx.Constexpr[int],
    tiled_mma: fx.TiledMma,
    to_smem: fx.TiledCopy,
):
    """Each workgroup computes one tile of C."""
    tid = fx.thread_idx.x
    tile_m, tile_n, _ = fx.block_idx
    global_a = fx.rocdl.make_buffer_tensor(a, num_records_bytes=fx.Int64(m * k * 2))
    global_b = fx.rocdl.make_buffer_tensor(b, num_records_bytes=fx.Int64(n * k * 2))
    global_c = fx.rocdl.make_buffer_tensor(c, num_records_bytes=fx.Int64(m * n * 2))
    tiles_a = fx.flat_divide(global_a, fx.make_tile(TILE_M, TILE_K))[None, None, tile_m, None]
    tiles_b = fx.flat_divide(global_b, fx.make_tile(TILE_N, TILE_K))[None, None, tile_n, None]
    tile_c = fx.flat_divide(global_c, fx.make_tile(TILE_M, TILE_N))[None, None, tile_m, tile_n]
    from_global = fx.make_copy_atom(fx.rocdl.BufferCopy128b(), fx.BFloat16)
    in_smem = fx.make_copy_atom(fx.UniversalCopy128b(), fx.BFloat16)
    smem = fx.SharedAllocator().allocate(Smem).peek()
    smem_a, smem_b = swizzled(smem.a, TILE_M), swizzled(smem.b, TILE_N)
    thread_copy, thread_mma = to_smem.get_slice(tid), tiled_mma.thr_slice(tid)
    global_parts = thread_copy.partition_S(tiles_a), thread_copy.partition_S(tiles_b)
    smem_parts = thread_copy.partition_D(smem_a), thread_copy.partition_D(smem_b)
    held = [fx.make_fragment_like(part[None, None, None]) for part in smem_parts]
    operand_a, operand_b = thread_mma.make_fragment_A(smem_a), thread_mma.make_fragment_B(smem_b)
    acc = thread_mma.make_fragment_C(tile_c)
    read_a = fx.make_tiled_copy_A(in_smem, tiled_mma).get_slice(tid)
    read_b = fx.make_tiled_copy_B(in_smem, tiled_mma).get_slice(tid)
    sources = read_a.partition_S(smem_a), read_b.partition_S(smem_b)
    targets = read_a.retile(operand_a), read_b.retile(operand_b)
    acc.fill(0.0)
    for step, state in range(0, k // TILE_K, 1, init=[acc.load()]):
        acc.store(state[0])
        for side in range_constexpr(2):
            fx.copy(from_global, global_parts[side][None, None, None, fx.Int32(step)], held[side])
            fx.copy(in_smem, held[side], smem_parts[side][None, None, None])
        gpu.barrier()
        for piece in range_constexpr(TILE_K // STEP_K):
            for side in range_constexpr(2):
                fx.copy(in_smem, sources[side][None, None, piece], targets[side][None, None, piece])
            at = (None, piece) if const_expr(MMA_K == 16) else piece
            fx.gemm(tiled_mma, acc, operand_a[None, None, at], operand_b[None, None, at], acc)
        gpu.barrier()
        result = yield [acc.load()]
    acc.store(result)
    out = fx.make_fragment_like(acc, fx.BFloat16.ir_type)
    out.store(fx.Vector(acc.load()).to(fx.BFloat16))
    to_global = fx.make_copy_atom(fx.rocdl.BufferCopy16b(), fx.BFloat16)
    write_c = fx.make_tiled_copy_C(to_global, tiled_mma).get_slice(tid)
    fx.copy(to_global, write_c.retile(out), write_c.partition_S(tile_c))


@flyc.jit
def launch(
    a: fx.Tensor,
    b: fx.Tensor,
    c: fx.Tensor,
    m: fx.Constexpr[int],
    n: fx.Constexpr[int],
    k: fx.Constexpr[int],
    stream: fx.Stream,
):
    """One workgroup for each tile of C."""
    atom = fx.make_mma_atom(fx.rocdl.MFMA(16, 16, MMA_K, fx.BFloat16))
    waves = fx.make_layout((WAVES_M, WAVES_N, 1), (WAVES_N, 1, 0))
    tiled_mma = fx.make_tiled_mma(atom, waves, fx.make_tile(None, None, fx.make_layout(*K_ORDER)))
    columns = TILE_K // VEC
    rows = THREADS // columns
    places = fx.make_layout(((columns, rows), (1, VEC)), ((rows * VEC, 1), (1, rows)))
    to_smem = fx.make_tiled_copy(
        fx.make_copy_atom(fx.UniversalCopy128b(), fx.BFloat16), places, fx.make_tile(rows, TILE_K)
    )
    small_gemm(a, b, c, m, n, k, tiled_mma, to_smem).launch(
        grid=((m + TILE_M - 1) // TILE_M, n // TILE_N, 1), block=(THREADS, 1, 1), stream=stream
    )


def compile_variant(name):
    """Compile one row of VARIANTS; needs no GPU when FLYDSL_GPU_ARCH is set."""
    v = next(v for v in VARIANTS if v.name == name)
    shapes = ((v.m, v.k), (v.n, v.k), (v.m, v.n))
    a, b, c = (torch.empty(shape, dtype=torch.bfloat16, device="meta") for shape in shapes)
    return flyc.compile(launch, a, b, c, v.m, v.n, v.k, fx.Stream(None))


@cache
def compiled(name, device):
    """The function of one variant, made once per process and device."""
    return compile_variant(name)


def refusal(*tensors):
    """What this kernel accepts, and what it was given."""
    found = ", ".join(f"{t.dtype} {tuple(t.shape)} strides {t.stride()} on {t.device}" for t in tensors)
    return f"{NAME} takes contiguous, 16-byte aligned bf16 GPU tensors (M, K) and (N, K) of {CASES}. Found: {found}"


def kernel(a, b):
    """Compute a @ b.T on the current stream of the tensors' device; returns a new tensor."""
    for t in (a, b):
        if not t.is_cuda or t.dtype != torch.bfloat16 or t.ndim != 2 or t.data_ptr() % 16:
            raise ValueError(refusal(a, b))
        if t.stride() != (t.shape[1], 1):
            raise ValueError(refusal(a, b))
    v = next((v for v in VARIANTS if (v.m, v.k) == a.shape and (v.n, v.k) == b.shape), None)
    if v is None or a.device != b.device:
        raise ValueError(refusal(a, b))
    c = torch.empty((v.m, v.n), dtype=torch.bfloat16, device=a.device)
    with torch.cuda.device(a.device):
        stream = fx.Stream(torch.cuda.current_stream().cuda_stream)
        compiled(v.name, a.device.index)(a, b, c, v.m, v.n, v.k, stream)
    return c
