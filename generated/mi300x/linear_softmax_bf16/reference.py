import torch
import torch.nn.functional as F


def linear_softmax(x, weight):
    return torch.softmax(F.linear(x, weight), -1)


reference = linear_softmax
