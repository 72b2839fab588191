import torch


def gemm(a, b):
    return torch._int_mm(a, b)


reference = gemm
