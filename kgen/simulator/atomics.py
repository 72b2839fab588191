"""Atomic operations on global memory. Lanes that name the same address are applied one after the other."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kgen.simulator.arrays import Array, Bits, choose
from kgen.simulator.global_memory import GlobalMemory, gather, scatter
from kgen.simulator.numbers import bf16_to_f32, f32_to_bf16


@dataclass(frozen=True, slots=True)
class Atomic:
    """What an atomic makes of the old value and the operand, as arrays of `dtype`; `size` in bytes.

    A compare-and-swap has two operands: the new value, then the one to compare with.
    """

    dtype: str
    function: Callable[..., Array]
    operands: int = 1

    @property
    def size(self) -> int:
        """The bytes in memory."""
        return np.dtype(self.dtype).itemsize


def add_pairs_bf16(old: Array, x: Array) -> Array:
    """Add two bf16 at once."""
    low = f32_to_bf16(bf16_to_f32(old & 0xFFFF) + bf16_to_f32(x & 0xFFFF))
    high = f32_to_bf16(bf16_to_f32(old >> 16) + bf16_to_f32(x >> 16))
    return low | high << np.uint32(16)


def add_pairs_f16(old: Array, x: Array) -> Array:
    """Add two f16 at once."""
    pairs = old[:, None].view(np.float16) + x[:, None].view(np.float16)
    return np.ascontiguousarray(pairs).view(np.uint32)[:, 0]


OPERATIONS: dict[str, Atomic] = {
    "add": Atomic("u4", lambda old, x: old + x),
    "sub": Atomic("u4", lambda old, x: old - x),
    "and": Atomic("u4", lambda old, x: old & x),
    "or": Atomic("u4", lambda old, x: old | x),
    "xor": Atomic("u4", lambda old, x: old ^ x),
    "umax": Atomic("u4", np.maximum),
    "umin": Atomic("u4", np.minimum),
    "smax": Atomic("i4", np.maximum),
    "smin": Atomic("i4", np.minimum),
    "inc": Atomic("u4", lambda old, x: choose(old >= x, np.zeros_like(old), old + 1)),
    "swap": Atomic("u4", lambda old, x: x),
    "cmpswap": Atomic("u4", lambda old, x, expected: choose(old == expected, x, old), operands=2),
    "add_f32": Atomic("f4", lambda old, x: old + x),
    "pk_add_f16": Atomic("u4", add_pairs_f16),
    "pk_add_bf16": Atomic("u4", add_pairs_bf16),
    "add_x2": Atomic("u8", lambda old, x: old + x),
    "add_f64": Atomic("f8", lambda old, x: old + x),
    "max_f64": Atomic("f8", np.fmax),
    "min_f64": Atomic("f8", np.fmin),
}


def rounds(addresses: Array) -> list[Array]:
    """Return groups of accesses in which no address repeats, in order: the k-th accesses to each address."""
    order = np.argsort(addresses, kind="stable")
    ordered = addresses[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    if len(starts) == len(addresses):
        return [np.arange(len(addresses))]
    nth = np.arange(len(addresses)) - np.repeat(starts, np.diff(np.r_[starts, len(addresses)]))
    return [order[nth == turn] for turn in range(int(nth.max()) + 1)]


def apply(memory: GlobalMemory, operation: Atomic, addresses: Array, registers: Bits) -> Bits:
    """Apply an atomic to addresses inside of buffers; return the old values [register, access]."""
    words = operation.size // 4
    operands = [
        np.ascontiguousarray(registers[place * words : (place + 1) * words].T).view(operation.dtype)[:, 0]
        for place in range(operation.operands)
    ]
    result = np.zeros((len(addresses), operation.size), np.uint8)
    for turn in rounds(addresses) if len(addresses) else []:
        _, parts = memory.split(addresses[turn], operation.size)
        for number, which, offsets in parts:
            data, accesses = memory.buffers[number].data, turn[which]
            old = gather(data, offsets, operation.size)
            new = operation.function(old.view(operation.dtype)[:, 0], *[x[accesses] for x in operands])
            scatter(data, offsets, np.ascontiguousarray(new.astype(operation.dtype)[:, None]).view(np.uint8))
            result[accesses] = old
    return np.ascontiguousarray(result).view(np.uint32).T
