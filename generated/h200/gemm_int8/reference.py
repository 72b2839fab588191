import torch


def gemm(a, b):
    return a.to(torch.int32) @ b.to(torch.int32)


reference = gemm
