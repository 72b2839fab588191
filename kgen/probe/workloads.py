"""What is timed in the measuring process: copies, reads, an empty kernel, products by the vendor's library.

Every function writes into buffers that are there before, so that no call allocates. Values are random: zeros draw less
power, and then clocks are higher than a kernel ever meets.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

Tensors = tuple[torch.Tensor, ...]


@dataclass(frozen=True, slots=True)
class Work:
    """A function and its sets of buffers; `amount` bytes or operations a call, of a quantity of section `measured`."""

    quantity: str
    label: str
    amount: int
    function: Callable[..., Any]
    sets: tuple[Tensors, ...]


def memory_works(request: Mapping[str, Any]) -> Iterator[Work]:
    """Yield copies and reads of several sizes, all of them views of the same buffers, and what the L2 holds."""
    largest, device = max(request["copies"]), request["device"]
    pairs = [tuple(_noise(largest // 4, device) for _ in range(2)) for _ in range(request["sets"])]
    for size in request["copies"]:
        sets = tuple((source[: size // 4], target[: size // 4]) for source, target in pairs)
        mib = f"{size / 2**20:g} MiB"
        yield Work("copy_bandwidth", f"copy_ of {mib}", 2 * size, _copy, sets)
        yield Work("copy_bandwidth", f"neg of {mib}", 2 * size, _negate, sets)
        yield Work("read_bandwidth", f"sum of {mib}", size, _sum, tuple((source,) for source, _ in sets))
        yield Work("read_bandwidth", f"amax of {mib}", size, _amax, tuple((source,) for source, _ in sets))
    for size in request["cached"]:
        source, target = pairs[0]
        sets = ((source[: size // 4], target[: size // 4]),)
        yield Work("l2_copy_bandwidth", f"neg of {size / 2**20:g} MiB", 2 * size, _negate, sets)
    yield Work("launch", "an empty kernel", 0, _nothing, ((),))


def product_works(products: Mapping[str, Any], request: Mapping[str, Any]) -> Iterator[Work]:
    """Yield the products of one type: A (m, k) and B (n, k), both row-major, views of the same buffers."""
    dtype, shapes, device = getattr(torch, products["torch_dtype"]), products["shapes"], request["device"]
    function, out_dtype = _FUNCTIONS.get(products["dtype"], _matmul), _OUT_DTYPES.get(products["dtype"], dtype)
    extents = [max(extent) for extent in ([m * k for m, _, k in shapes], [n * k for _, n, k in shapes])]
    most_out = max(m * n for m, n, _ in shapes)
    buffers = [
        (
            *(_operand(extent, dtype, device) for extent in extents),
            torch.empty(most_out, dtype=out_dtype, device=device),
        )
        for _ in range(request["sets"])
    ]
    for m, n, k in shapes:
        sets = tuple((a[: m * k].view(m, k), b[: n * k].view(n, k), d[: m * n].view(m, n)) for a, b, d in buffers)
        yield Work(products["dtype"], f"{m}x{n}x{k}", 2 * m * n * k, function, sets)


def _noise(elements: int, device: str) -> torch.Tensor:
    return torch.empty(elements, dtype=torch.float32, device=device).normal_()


def _operand(elements: int, dtype: torch.dtype, device: str) -> torch.Tensor:
    if not dtype.is_floating_point:
        return torch.randint(-128, 128, (elements,), dtype=dtype, device=device)
    return torch.randn(elements, device=device).to(dtype)


def _copy(source: torch.Tensor, target: torch.Tensor) -> None:
    target.copy_(source)


def _negate(source: torch.Tensor, target: torch.Tensor) -> None:
    torch.neg(source, out=target)


def _nothing() -> None:
    torch.cuda._sleep(0)  # type: ignore[no-untyped-call]  # a kernel that waits for no cycle


def _sum(source: torch.Tensor) -> torch.Tensor:
    return torch.sum(source)


def _amax(source: torch.Tensor) -> torch.Tensor:
    return torch.amax(source)


def _matmul(a: torch.Tensor, b: torch.Tensor, d: torch.Tensor) -> None:
    torch.set_float32_matmul_precision("highest")
    torch.matmul(a, b.t(), out=d)


def _tf32(a: torch.Tensor, b: torch.Tensor, d: torch.Tensor) -> None:
    torch.set_float32_matmul_precision("high")  # read when the call is made: a graph keeps the kernel it chose
    torch.matmul(a, b.t(), out=d)


def _fp8(a: torch.Tensor, b: torch.Tensor, d: torch.Tensor) -> None:
    one = _one(a.device)
    torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=d.dtype, use_fast_accum=True, out=d)


@cache
def _one(device: torch.device) -> torch.Tensor:
    """A scale that is made once, so that no call times its making."""
    return torch.ones((), device=device)


def _int8(a: torch.Tensor, b: torch.Tensor, d: torch.Tensor) -> None:
    torch._int_mm(a, b.t(), out=d)


_FUNCTIONS: Mapping[str, Callable[..., None]] = {"tf32": _tf32, "fp8": _fp8, "int8": _int8}
_OUT_DTYPES = {"fp8": torch.bfloat16, "int8": torch.int32}
