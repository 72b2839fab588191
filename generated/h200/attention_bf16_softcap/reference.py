import torch


def attention(q, k, v):
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
    scores = 30.0 * torch.tanh(scores / 30.0)
    row = torch.arange(q.shape[1], device=q.device)[:, None]
    column = torch.arange(k.shape[1], device=q.device)
    seen = (column <= row) & (row - column < 512)
    weights = scores.masked_fill(~seen, float("-inf")).softmax(-1)
    return torch.einsum("bhqk,bkhd->bqhd", weights, v)


reference = attention
