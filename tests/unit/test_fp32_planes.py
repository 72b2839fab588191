"""The arithmetic of fp32 products as three products of fp16 planes, which `cut_operand` and `mainloop_planes` print.

Emulated in numpy, with a tensor core that cuts off what lies beyond 24 bits of every sum of 16 products: the error
stays inside of the bound of docs/gemm.md, and below that of plain sums in fp32.
"""

import numpy as np
import pytest

STEP, DEPTH = 64, 16  # k of a step of the mainloop, and of one wgmma
ROWS, COLUMNS = 48, 40
UNIT = 2.0**-24  # half of the distance of fp32 numbers near 1
Planes = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def cut(x: np.ndarray) -> Planes:
    """Return hi, lo, root and state of rows of an operand."""
    most = np.abs(x).max(axis=1, keepdims=True).view(np.int32)
    exponent = np.clip(most >> 23, 15, 254) | 1
    scaled = x * ((268 - exponent) << 23).view(np.float32)
    hi = scaled.astype(np.float16)
    lo = ((scaled - hi.astype(np.float32)) * np.float32(2**11)).astype(np.float16)
    least = most.view(np.float32) * ((268 - exponent) << 23).view(np.float32) * np.float32(2.0**-12)
    large = (np.abs(scaled) >= least).sum(axis=1)
    lossy = ((np.abs(scaled) < 2.0**-13) & (x != 0)).any(axis=1)
    root = (((exponent + 113) >> 1) << 23).view(np.float32)
    return hi, lo, root[:, 0], 2 * large + lossy


def tensor_core(pairs: tuple[tuple[np.ndarray, np.ndarray], ...]) -> np.ndarray:
    """Return the products of pairs over one k step, summed 16 at a time and cut off, not rounded, to 24 bits."""
    total = np.zeros((pairs[0][0].shape[0], pairs[0][1].shape[0]))
    for a, b in pairs:
        for k in range(0, a.shape[1], DEPTH):
            total += a[:, k : k + DEPTH].astype(np.float64) @ b[:, k : k + DEPTH].astype(np.float64).T
            mantissa, exponent = np.frexp(total)
            total = np.ldexp(np.trunc(mantissa * 2**24), exponent - 24)
    return total.astype(np.float32)


def in_order(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a @ b.T by fp32 multiplications and additions, one k after the other."""
    total = np.zeros((a.shape[0], b.shape[0]), np.float32)
    for k in range(a.shape[1]):
        total += np.outer(a[:, k], b[:, k])
    return total


def is_uncertain(a_state: np.ndarray, b_state: np.ndarray, k: int) -> np.ndarray:
    """Return which elements need FMA: bits are lost, and large values of row and column need not meet."""
    lossy = (a_state[:, None] | b_state[None, :]) & 1
    return (lossy == 1) & ((a_state >> 1)[:, None] + (b_state >> 1)[None, :] <= k)


def product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a @ b.T as the kernels compute it, and which elements the last of them computed."""
    (a_hi, a_lo, a_root, a_state), (b_hi, b_lo, b_root, b_state) = cut(a), cut(b)
    acc = np.zeros((a.shape[0], b.shape[0]), np.float32)
    for k in range(0, a.shape[1], STEP):
        at = slice(k, k + STEP)
        low = tensor_core(((a_hi[:, at], b_lo[:, at]), (a_lo[:, at], b_hi[:, at])))
        acc = acc + low * np.float32(2.0**-11)
        acc = acc + tensor_core(((a_hi[:, at], b_hi[:, at]),))
    root = a_root[:, None] * b_root[None, :]
    again = is_uncertain(a_state, b_state, a.shape[1])
    return np.where(again, in_order(a, b), acc * root * root), again


def absolute(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64).T


def exact(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(np.float64) @ b.astype(np.float64).T


def bound(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The bound of docs/gemm.md, with the least distance of fp32 numbers for results that have no more bits."""
    return (1.1 * a.shape[1] + 24) * UNIT * absolute(a, b) + 2.0**-148


def operands(spread: float, k: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return operands whose elements' magnitudes differ by up to 2^(2 * spread), in rows of different sizes."""
    rng = np.random.default_rng(seed)

    def one(rows: int) -> np.ndarray:
        x = rng.standard_normal((rows, k)) * 2.0 ** rng.uniform(-spread, spread, (rows, k))
        return (x * 2.0 ** rng.integers(-20, 20, (rows, 1))).astype(np.float32)

    return one(ROWS), one(COLUMNS)


@pytest.mark.parametrize("spread", [0, 4, 12, 24, 30])
@pytest.mark.parametrize("k", [1, 15, 64, 500, 2048])
def test_the_error_is_inside_of_its_bound(spread: float, k: int) -> None:
    a, b = operands(spread, k)
    error = np.abs(product(a, b)[0] - exact(a, b))
    assert (error <= bound(a, b)).all()


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("k", [256, 4096])
def test_it_is_below_the_error_of_fp32_sums(positive: bool, k: int) -> None:
    a, b = operands(0, k)
    a, b = (np.abs(a), np.abs(b)) if positive else (a, b)
    right, size = exact(a, b), absolute(a, b)
    ours, again = product(a, b)
    assert not again.any()
    assert np.linalg.norm((ours - right) / size) <= np.linalg.norm((in_order(a, b) - right) / size)


def test_cancellation_leaves_what_fp32_leaves() -> None:
    a, b = operands(0, 512)
    a, b = np.concatenate([a, a], axis=1), np.concatenate([b, -b * np.float32(1 + 2.0**-20)], axis=1)
    assert (np.abs(product(a, b)[0] - exact(a, b)) <= bound(a, b)).all()


@pytest.mark.parametrize("size", [2.0**-148, 2.0**-110, 2.0**-60, 1.0, 2.0**60, 2.0**120])
def test_the_range_is_that_of_fp32(size: float) -> None:
    rng = np.random.default_rng(1)
    a = (rng.uniform(-1, 1, (ROWS, 64)) * size).astype(np.float32)
    for other in (1.0, 2.0**100, 2.0**-100):
        b = (rng.uniform(-1, 1, (COLUMNS, 64)) * other).astype(np.float32)
        right = exact(a, b)
        fits = np.abs(right) < np.finfo(np.float32).max / 2
        with np.errstate(over="ignore", invalid="ignore"):
            found, again = product(a, b)
        assert (np.abs(found - right) <= bound(a, b))[fits].all() and not again.any()


def test_what_two_planes_cannot_hold_is_computed_by_fma() -> None:
    a, b = operands(0, 128)
    a[3] *= np.float32(2.0**-40)
    a[3, 5], b[:7] = 1.0, 0.0  # the one large value of the row meets a zero
    b[:7, 9] = 1.0
    found, again = product(a, b)
    assert again[3, :7].all() and (found[3, :7] == a[3, 9]).all()
    assert (np.abs(found - exact(a, b)) <= bound(a, b)).all()
    wrong = np.where(again, 0, 1)
    assert wrong.sum() > again.size / 2  # and nothing else is


def test_weights_of_a_softmax_need_no_fma() -> None:
    rng = np.random.default_rng(2)
    scores = 4 * rng.standard_normal((ROWS, 1024))
    weights = np.exp(scores - scores.max(1, keepdims=True)).astype(np.float32)
    values = rng.standard_normal((COLUMNS, 1024)).astype(np.float32)
    found, again = product(weights, values)
    assert not again.any() and (np.abs(found - exact(weights, values)) <= bound(weights, values)).all()


def test_zeros_stay_zero() -> None:
    a, b = operands(0, 64)
    a[2] = 0.0
    found, again = product(a, b)
    assert (found[2] == 0).all() and not again.any()
