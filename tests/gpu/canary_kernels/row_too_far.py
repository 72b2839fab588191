"""The emitted kernel, after which another one writes the row that would come after the output's last."""

from functools import cache

import cutlass
import cutlass.cute as cute
import right
from cutlass.cute.runtime import make_fake_stream, make_fake_tensor


@cute.kernel
def write_row_after(out: cute.Tensor):
    """One thread a column."""
    rows, columns = out.shape
    row = cute.make_tensor(out.iterator + rows * columns, cute.make_layout(columns))
    row[cute.arch.thread_idx()[0]] = cutlass.BFloat16(1.0)


@cute.jit
def launch(out: cute.Tensor, stream):
    """Launch one CTA."""
    write_row_after(out).launch(grid=(1, 1, 1), block=(out.shape[1], 1, 1), stream=stream)


@cache
def compile_fault(rows=256, columns=192):
    """Compile the fault; needs no GPU when CUTE_DSL_ARCH=sm_90a is set."""
    out = make_fake_tensor(cutlass.BFloat16, (rows, columns), (columns, 1), assumed_align=16)
    return cute.compile(launch, out, make_fake_stream(use_tvm_ffi_env_stream=True), options="--enable-tvm-ffi")


def kernel(a, b):
    """Compute the product, and write too far."""
    out = right.kernel(a, b)
    compile_fault(*out.shape)(out)
    return out
