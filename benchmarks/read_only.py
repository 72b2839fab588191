"""A kernel that only reads: what a product that is bound by the bytes of its weight is measured against.

`reader(words)` returns a function of one contiguous CUDA tensor. Each thread keeps eight loads of 16 bytes in flight
and folds what it reads into one number; the number is stored only where it has a value that random data never gives.
"""

from collections.abc import Callable

import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import make_fake_stream, make_fake_tensor

THREADS, CTAS_PER_SM, IN_FLIGHT = 512, 4, 8
QUAD = 4  # 32-bit words of one load
NEVER = 0x5EED5EED


@cute.kernel
def read(quads, out):
    """Fold all 16-byte elements of `quads`, (4, count)."""
    thread, block = cute.arch.thread_idx()[0], cute.arch.block_idx()[0]
    count = cute.size(quads, mode=[1])
    folded = cutlass.Int32(0)
    step = THREADS * IN_FLIGHT
    for first in cutlass.range(block * step + thread, count, cute.arch.grid_dim()[0] * step, unroll=1):
        held = cute.make_rmem_tensor((QUAD, IN_FLIGHT), cutlass.Int32)
        held.fill(0)
        for i in cutlass.range_constexpr(IN_FLIGHT):
            if first + i * THREADS < count:
                held[None, i].store(quads[None, first + i * THREADS].load())
        for i in cutlass.range_constexpr(IN_FLIGHT):
            for j in cutlass.range_constexpr(QUAD):
                folded = folded ^ held[j, i]
    if folded == cutlass.Int32(NEVER):
        out[0] = folded


@cute.jit
def launch(words: cute.Tensor, out: cute.Tensor, sm_count: cutlass.Int32, stream):
    """Launch as many CTAs as run at once."""
    quads = cute.make_tensor(words.iterator, cute.make_layout((QUAD, cute.size(words) // QUAD), stride=(1, QUAD)))
    read(quads, out).launch(grid=(sm_count * CTAS_PER_SM, 1, 1), block=(THREADS, 1, 1), stream=stream)


def compiled(count: int) -> Callable[..., None]:
    """Compile for `count` 32-bit words; needs no GPU when CUTE_DSL_ARCH is set."""
    tensors = [make_fake_tensor(cutlass.Int32, (n,), (1,), assumed_align=16) for n in (count, QUAD)]
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    function: Callable[..., None] = cute.compile(launch, *tensors, cutlass.Int32(1), stream, options="--enable-tvm-ffi")
    return function


def reader(tensor: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a function that reads tensors of the size of this one, whole 16 bytes each."""
    count = tensor.numel() * tensor.element_size() // 4
    function = compiled(count)
    sm_count = torch.cuda.get_device_properties(tensor.device).multi_processor_count

    def run(read_only: torch.Tensor) -> torch.Tensor:
        out = torch.empty(QUAD, dtype=torch.int32, device=read_only.device)
        function(read_only.view(-1).view(torch.int32), out, sm_count)
        return out

    return run
