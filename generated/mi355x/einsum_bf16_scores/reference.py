import torch


def scores(q, k):
    return torch.einsum("bmhd,bnhd->bhmn", q, k) * 0.125


reference = scores
