import torch.nn.functional as F


def linear(x, weight, bias):
    return F.silu(F.linear(x, weight, bias))


reference = linear
