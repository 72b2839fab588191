import torch.nn.functional as F


def log_softmax(x):
    return F.log_softmax(x, dim=1)


reference = log_softmax
