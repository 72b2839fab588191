"""Inputs of the reference and of the kernel: normally distributed, integers from -8 to 7, the same for the same seed.

attention_bf16_causal
"""

import torch

LEAST_BAND, MOST_BAND = 2**8, 2**24  # bytes of the guard band before the first and after the last element


def _layouts(B, H, G, S, D):
    """Return dtype, shape and strides (in elements) of each input."""
    return {
        "q": (torch.bfloat16, (B, H, S, D), (H * S * D, S * D, D, 1)),
        "k": (torch.bfloat16, (B, G, S, D), (G * S * D, S * D, D, 1)),
        "v": (torch.bfloat16, (B, G, S, D), (G * S * D, S * D, D, 1)),
    }


def _make_inputs(*, seed=0, offset=0, device="cuda", **extents):
    """Return the inputs by name, in the order of the reference's arguments.

    `offset` is the distance of each tensor's first element from an aligned address, in elements. The padding between
    rows and the guard bands hold NaN (integers: -1), so that a read of them shows.
    """
    generator = torch.Generator(device).manual_seed(seed)
    return {name: _draw(*layout, offset, generator) for name, layout in _layouts(**extents).items()}


def _band(strides, itemsize):
    """Return the elements of a guard band: one step along the slowest axis, such as a row, within its limits."""
    size = min(max(max(strides, default=1) * itemsize, LEAST_BAND), MOST_BAND)
    return -(-size // 256) * 256 // itemsize  # whole 256 bytes keep the address aligned


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
    band = _band(strides, dtype.itemsize)
    count = band + offset + last + 1 + band
    base = torch.full((count * dtype.itemsize,), 0xFF, dtype=torch.uint8, device=device).view(dtype)
    base.as_strided(own, strides, band + offset).copy_(values)
    return base.as_strided(shape, strides, band + offset)
