import torch.nn.functional as F


def residual_norm(x, residual, weight, bias):
    total = x + residual
    return F.layer_norm(total, (total.shape[-1],), weight, bias, 1e-5), total


reference = residual_norm
