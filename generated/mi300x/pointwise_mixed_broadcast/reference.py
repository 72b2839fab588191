import torch


def blend(x, y, row, column, mask):
    total = torch.where(mask, x * row, y + column)
    return total.to(torch.bfloat16), total.abs() > 3


reference = blend
