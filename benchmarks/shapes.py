"""The shapes that kernels are compared on: (m, n, k) of A (m, k) and B (n, k), both row-major."""

SHAPES = (
    (8192, 8192, 8192),
    (4096, 4096, 4096),
    (2048, 2048, 2048),
    (1024, 1024, 1024),
    (8192, 4096, 14336),
    (8192, 28672, 4096),
    (4096, 1280, 8192),
    (16, 4096, 4096),
    (64, 14336, 4096),
    (128, 8192, 8192),
    (512, 4096, 4096),
    (1000, 1000, 1000),
    (4096, 4104, 4088),
    (256, 512, 65536),
)


# Products of decoding: few rows against a weight (n, k).
DECODE = tuple(
    (m, n, k) for n, k in ((4096, 4096), (14336, 4096), (4096, 14336), (14336, 14336)) for m in (1, 2, 4, 8, 16, 32, 64)
)


def is_large(shape: tuple[int, int, int]) -> bool:
    """Whether a shape counts in the geometric mean: m and n at least 1024 and whole tiles of 64."""
    return all(extent >= 1024 and extent % 64 == 0 for extent in shape[:2])
