import torch.nn.functional as F


def cross_entropy(logits, classes):
    return F.cross_entropy(logits, classes)


reference = cross_entropy
