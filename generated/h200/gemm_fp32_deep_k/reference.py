def gemm(a, b):
    return a @ b


reference = gemm
