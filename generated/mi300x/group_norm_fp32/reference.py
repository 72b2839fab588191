import torch.nn.functional as F


def group_norm(x, weight, bias):
    return F.group_norm(x, 32, weight, bias)


reference = group_norm
