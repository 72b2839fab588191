"""The arithmetic of fp32 products as pairs of fp16, which `operands_fp16_parts` and `mainloop_fp16_parts` print.

Emulated in numpy: each k step of a row is scaled by a power of two, split, multiplied exactly, and added in fp32. What
the tensor core cuts off inside of a step is not emulated; docs/gemm.md bounds it.
"""

import numpy as np
import pytest

STEP = 32  # of k
ROWS, COLUMNS = 48, 40


def split(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the high and low fp16 parts of rows of one k step, and the powers of two that they were divided by."""
    largest = np.abs(x).max(axis=1, keepdims=True).astype(np.float32)
    exponent = np.clip(largest.view(np.int32) >> 23, 15, 254)
    scaled = x * ((268 - exponent) << 23).astype(np.int32).view(np.float32)
    high = scaled.astype(np.float16)
    low = (scaled - high.astype(np.float32)).astype(np.float16)
    return high, low, ((exponent - 14) << 23).astype(np.int32).view(np.float32)


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a @ b.T as the kernel computes it."""
    total = np.zeros((a.shape[0], b.shape[0]), np.float32)
    for k in range(0, a.shape[1], STEP):
        (a_high, a_low, a_scale), (b_high, b_low, b_scale) = split(a[:, k : k + STEP]), split(b[:, k : k + STEP])
        pairs = ((a_low, b_high), (a_high, b_low), (a_high, b_high))
        step = sum(x.astype(np.float64) @ y.astype(np.float64).T for x, y in pairs).astype(np.float32)
        total += step * (a_scale * b_scale.T)
    return total


def bound(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The bound of docs/gemm.md: of the products, of the rows' largest elements in a step, and of sums of steps."""
    steps = -(-a.shape[1] // STEP)
    products = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64).T
    largest = np.zeros_like(products)
    for k in range(0, a.shape[1], STEP):
        largest += STEP * np.outer(np.abs(a[:, k : k + STEP]).max(1), np.abs(b[:, k : k + STEP]).max(1))
    return (3 * 2.0**-22 + (steps + 1) * 2.0**-24) * products + 2.0**-38 * largest


def operands(spread: float, k: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return operands whose elements' magnitudes differ by up to 2^(2 * spread), in rows of different sizes."""
    rng = np.random.default_rng(seed)

    def one(rows: int) -> np.ndarray:
        x = rng.standard_normal((rows, k)) * 2.0 ** rng.uniform(-spread, spread, (rows, k))
        return (x * 2.0 ** rng.integers(-20, 20, (rows, 1))).astype(np.float32)

    return one(ROWS), one(COLUMNS)


@pytest.mark.parametrize("spread", [0, 4, 12, 24])
@pytest.mark.parametrize("k", [1, 31, 32, 500, 4096])
def test_the_error_is_inside_of_its_bound(spread: float, k: int) -> None:
    a, b = operands(spread, k)
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    error = np.abs(product(a, b) - exact)
    assert (error <= bound(a, b)).all()


def test_it_is_at_the_noise_of_fp32_sums() -> None:
    a, b = operands(0, 4096)
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    in_order = np.zeros_like(exact, dtype=np.float32)
    for k in range(a.shape[1]):
        in_order += np.outer(a[:, k], b[:, k])
    ours, theirs = (np.linalg.norm((x - exact) / np.abs(exact).max()) for x in (product(a, b), in_order))
    assert ours <= theirs


def test_one_large_element_costs_the_others_of_its_step_and_row_alone() -> None:
    a, b = operands(0, 128)
    a[3, 5] = 2.0**60
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    others = np.delete(np.abs(product(a, b) - exact), 3, axis=0)
    assert (others <= np.delete(bound(a, b), 3, axis=0)).all()


@pytest.mark.parametrize("size", [2.0**-110, 2.0**-60, 1.0, 2.0**60, 2.0**120])
def test_the_range_is_that_of_fp32(size: float) -> None:
    rng = np.random.default_rng(1)
    a = (rng.uniform(-1, 1, (ROWS, 64)) * size).astype(np.float32)
    b = rng.uniform(-1, 1, (COLUMNS, 64)).astype(np.float32)
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    assert (np.abs(product(a, b) - exact) <= bound(a, b)).all()


def test_zeros_stay_zero() -> None:
    a, b = operands(0, 64)
    a[2] = 0.0
    assert (product(a, b)[2] == 0).all()
