"""The names of the array types, and bit arithmetic that numpy does not have."""

from typing import Any

import numpy as np
import numpy.typing as npt

Bits = npt.NDArray[np.uint32]
Mask = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
Rows = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
Array = npt.NDArray[Any]

_ONES = np.array([bin(byte).count("1") for byte in range(256)], np.uint8)
_REVERSED = np.array([int(f"{byte:08b}"[::-1], 2) for byte in range(256)], np.uint8)


def choose(where: Mask, chosen: Array, otherwise: Array) -> Array:
    """Return `chosen` where the condition holds, `otherwise` elsewhere."""
    return np.asarray(np.where(where, chosen, otherwise))


def popcount(values: Array) -> Bits:
    """Return the number of set bits of each unsigned integer."""
    values = np.ascontiguousarray(values)
    ones = _ONES[values.view(np.uint8)].reshape(*values.shape, values.itemsize)
    return np.asarray(ones.sum(-1, dtype=np.uint32))


def reverse_bits(values: Array) -> Array:
    """Return each unsigned integer with its bits in the opposite order."""
    values = np.ascontiguousarray(values)
    octets = values.view(np.uint8).reshape(*values.shape, values.itemsize)
    return np.ascontiguousarray(_REVERSED[octets][..., ::-1]).view(values.dtype)[..., 0]


def lowest_bit(values: Array) -> Bits:
    """Return the index of the lowest set bit, all ones where there is none."""
    below = (values & (~values + values.dtype.type(1))) - values.dtype.type(1)
    return np.where(values == 0, np.uint32(0xFFFFFFFF), popcount(below))


def leading_zeros(values: Bits) -> Bits:
    """Return the number of zero bits above the highest set bit of 32, all ones for zero."""
    length = np.frexp(values.astype(np.float64))[1]
    return np.where(values == 0, np.uint32(0xFFFFFFFF), (32 - length).astype(np.uint32))


def lanes_of(words: npt.NDArray[np.uint64]) -> Mask:
    """Return 64-bit lane masks [w] as booleans [w, lane]."""
    octets = np.ascontiguousarray(words).view(np.uint8).reshape(-1, 8)
    return np.unpackbits(octets, axis=1, bitorder="little").view(np.bool_)


def words_of(lanes: Mask) -> npt.NDArray[np.uint64]:
    """Return booleans [w, lane] as 64-bit lane masks [w]."""
    return np.packbits(lanes, axis=1, bitorder="little").view(np.uint64)[:, 0]
