import torch


def rope(x, cosine, sine):
    first, second = x.float().chunk(2, dim=-1)
    cosine, sine = cosine[:, None, :], sine[:, None, :]
    turned = (first * cosine - second * sine, second * cosine + first * sine)
    return torch.cat(turned, dim=-1).to(torch.bfloat16)


reference = rope
