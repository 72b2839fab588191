"""The emitted kernel, after which another one waits on the device for a flag that nobody sets, in the first case."""

from functools import cache

import cutlass
import cutlass.cute as cute
import right
import torch
from cutlass.cute.runtime import make_fake_stream, make_fake_tensor


@cute.kernel
def wait_for(flag: cute.Tensor):
    """Read the flag from memory until it is set: a relaxed load of the whole system's memory is not hoisted."""
    seen = cute.arch.load(flag.iterator, cutlass.Int32, sem="relaxed", scope="sys")
    while seen == 0:
        seen = cute.arch.load(flag.iterator, cutlass.Int32, sem="relaxed", scope="sys")


@cute.jit
def launch(flag: cute.Tensor, stream):
    """Launch one thread."""
    wait_for(flag).launch(grid=(1, 1, 1), block=(1, 1, 1), stream=stream)


@cache
def compile_fault():
    """Compile the fault; needs no GPU when CUTE_DSL_ARCH=sm_90a is set."""
    flag = make_fake_tensor(cutlass.Int32, (1,), (1,), assumed_align=4)
    return cute.compile(launch, flag, make_fake_stream(use_tvm_ffi_env_stream=True), options="--enable-tvm-ffi")


def kernel(a, b):
    """Compute the product, and in the first case wait for ever."""
    out = right.kernel(a, b)
    if a.shape[0] == 256:
        compile_fault()(torch.zeros(1, dtype=torch.int32, device=a.device))
    return out
