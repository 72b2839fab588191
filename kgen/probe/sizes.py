"""What is measured on a GPU, from the facts of its driver: sizes of buffers, shapes of products, how many rounds.

Everything fits half of the memory, and copies are far larger than the caches.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kgen.probe.driver import Facts
from kgen.target import Arch

GIB = 2**30
LARGEST_COPY = 2 * GIB  # bytes of the source
CACHE_PASSES = 8  # source and destination of a copy, in sizes of the largest cache, at least
BUFFER_SETS = 2
ROUNDS, PRODUCT_ROUNDS = 12, 1  # forth and back over all of one kind: two samples, or two runs of a product, each
# A run of a product, call by call, after a rest: a power limit takes tens of milliseconds to act on the clock.
PRODUCT_REST_SECONDS, PRODUCT_WARM_UP_US, PRODUCT_RUN_US = 0.5, 25_000.0, 100_000.0
BURST_US = 40_000.0  # of a product on end, between two looks at the time
SUSTAINED_SECONDS = 2.0  # of one product; the second half counts
# m, n, k. Quarters of the memory bound the operands of the first, so that they fit every GPU of these arches.
LARGE_PRODUCTS = ((4096, 4096, 4096), (8192, 8192, 8192), (8192, 4096, 14336), (16384, 8192, 8192))
# fp32 and fp64 are slow, and a card may have hardly any fp64: one shape, so that a probe stays short
SLOW_PRODUCTS = {"fp32": ((4096, 4096, 4096),), "fp64_matrix": ((2048, 2048, 4096),)}
# Types whose rate the tensor cores give: a cut of theirs concerns all of these. Names of dense peaks.
TENSOR_TYPES = ("bf16", "fp16", "tf32", "fp8", "int8")


@dataclass(frozen=True, slots=True)
class Products:
    """Products of one type, by the vendor's library: `dtype` names a dense peak, `torch_dtype` the operands' type."""

    dtype: str
    torch_dtype: str
    shapes: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Request:
    """What the measuring process is asked for. Sizes in bytes; `cached` are sources of copies inside of the L2.

    Of the products, those of the first type are also run on end.
    """

    copies: tuple[int, ...]
    cached: tuple[int, ...]
    products: tuple[Products, ...]
    api: str
    sensor: str | None
    sets: int = BUFFER_SETS
    rounds: int = ROUNDS
    product_rounds: int = PRODUCT_ROUNDS
    product_rest_seconds: float = PRODUCT_REST_SECONDS
    product_warm_up_us: float = PRODUCT_WARM_UP_US
    product_run_us: float = PRODUCT_RUN_US
    burst_us: float = BURST_US
    sustained_seconds: float = SUSTAINED_SECONDS
    device: str = "cuda"


def request_of(facts: Facts, arch: Arch) -> Request:
    """Return what is measured on a GPU; types without a rate in the arch file are left out."""
    return Request(
        copies=tuple(_copies(facts)),
        cached=_cached(facts),
        products=tuple(_products(arch)),
        api=facts.api,
        sensor=facts.sensor,
    )


def _copies(facts: Facts) -> Iterator[int]:
    """Yield sizes of sources, largest first: the sets of source and destination are half of the memory at most."""
    largest = LARGEST_COPY
    while largest * 2 * BUFFER_SETS > facts.memory_bytes // 2:
        largest //= 2
    for size in (largest, largest // 2, largest // 4):
        if size == largest or 2 * size >= CACHE_PASSES * facts.cache_bytes:
            yield size


def _cached(facts: Facts) -> tuple[int, ...]:
    """Return two sources whose copies stay in the L2; none where several dies have one each, which a copy crosses."""
    if facts.api != "cuda" or not facts.l2_bytes:
        return ()
    return tuple(int(facts.l2_bytes * share) // 4096 * 4096 for share in (1 / 32, 3 / 16))


def _products(arch: Arch) -> Iterator[Products]:
    fp8 = "float8_e4m3fnuz" if arch.fp8 == "fnuz" else "float8_e4m3fn"
    names = {"bf16": "bfloat16", "fp16": "float16", "tf32": "float32", "fp8": fp8, "int8": "int8"}
    known = dict(arch.rates)
    yield from (Products(dtype, names[dtype], LARGE_PRODUCTS) for dtype in TENSOR_TYPES if dtype in known)
    slow = {"fp32": "float32", "fp64_matrix": "float64"}
    yield from (Products(dtype, slow[dtype], SLOW_PRODUCTS[dtype]) for dtype in slow if dtype in known)
