"""Inputs of the reference and of the kernel: normally distributed, integers from -8 to 7, the same for the same seed.

gemm_bf16_small
"""

import torch

GUARD = 64  # elements after the last one; like the padding between rows they are NaN, so that a read of them shows


def _layouts(M, N, K):
    """Return dtype, shape and strides (in elements) of each input."""
    return {
        "a": (torch.bfloat16, (M, K), (K, 1)),
        "b": (torch.bfloat16, (K, N), (1, K)),
    }


def _make_inputs(*, seed=0, offset=0, device="cuda", **extents):
    """Return the inputs by name, in the order of the reference's arguments.

    `offset` is the distance of each tensor's first element from an aligned address, in elements.
    """
    generator = torch.Generator(device).manual_seed(seed)
    return {name: _draw(*layout, offset, generator) for name, layout in _layouts(**extents).items()}


def _draw(dtype, shape, strides, offset, generator):
    """Return one tensor; axes of stride 0 repeat one slice."""
    device = generator.device
    own = [1 if stride == 0 else extent for extent, stride in zip(shape, strides, strict=True)]
    if dtype.is_floating_point:
        values = torch.randn(own, generator=generator, device=device).to(dtype)
    else:
        lowest, beyond = (0, 2) if dtype == torch.bool else (-8, 8)
        values = torch.randint(lowest, beyond, own, generator=generator, device=device).to(dtype)
    last = sum((extent - 1) * stride for extent, stride in zip(own, strides, strict=True)) if values.numel() else 0
    count = offset + last + 1 + GUARD
    base = torch.full((count * dtype.itemsize,), 0xFF, dtype=torch.uint8, device=device).view(dtype)
    base.as_strided(own, strides, offset).copy_(values)
    return base.as_strided(shape, strides, offset)
