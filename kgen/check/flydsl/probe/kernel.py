"""The smallest kernel.py: what `kgen doctor` compiles to see that FlyDSL, its linker and both readers work together."""

import flydsl.compiler as flyc
import flydsl.expr as fx
import torch


class Variant:
    """The one row."""

    name = "double"


VARIANTS = (Variant(),)


@flyc.kernel
def double(x: fx.Tensor):
    """Each of 64 threads doubles its element."""
    i = fx.thread_idx.x
    x[i] = x[i] + x[i]


@flyc.jit
def launch(x: fx.Tensor, stream: fx.Stream):
    """One workgroup."""
    double(x).launch(grid=(1, 1, 1), block=(64, 1, 1), stream=stream)


def compile_variant(name):
    """Compile the one row."""
    return flyc.compile(launch, torch.empty(64, dtype=torch.float32, device="meta"), fx.Stream(None))
