import torch.nn.functional as F


def linear(x, weight):
    return F.linear(x, weight)


reference = linear
