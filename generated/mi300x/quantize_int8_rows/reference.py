import torch


def quantize(x):
    values = x.float()
    scale = values.abs().amax(-1, keepdim=True).clamp(min=1e-6) / 127.0
    return (values / scale).round().clamp(-127, 127).to(torch.int8), scale


reference = quantize
