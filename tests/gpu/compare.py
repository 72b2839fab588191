"""Whether a kernel's result is right: against the reference in float64, under the package contract's limits."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

REL_ERR = {torch.bfloat16: 0.01, torch.float16: 0.01, torch.float32: 0.01}  # fp32 results of 16-bit products included
POISONS = (math.nan, 12345.0)  # what the result's memory holds before each run: an element not written shows


@dataclass(frozen=True, slots=True)
class Comparison:
    """`rel_err` is ||out - ref|| / ||ref|| over the finite elements; `faults` is empty for a right result."""

    rel_err: float
    faults: tuple[str, ...]


def tensors_of(result: Any) -> tuple[torch.Tensor, ...]:
    """Return a kernel's or reference's result as a tuple of tensors."""
    return tuple(result) if isinstance(result, tuple | list) else (result,)


def widened(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return copies of the tensors, floats in float64."""
    return [t.double() if t.is_floating_point() and t.dtype != torch.float64 else t.clone() for t in tensors]


def expected(reference: Callable[..., Any], tensors: Sequence[torch.Tensor]) -> Any:
    """Return the reference computed in float64; casts that are written in it round, and nothing else does.

    One tensor or a tuple of them, as the reference returns; what is no float stays as it is.
    """
    return expected_of(reference, widened(tensors))


def expected_of(reference: Callable[..., Any], wide: Sequence[torch.Tensor]) -> Any:
    """Return the same from widened tensors, which a reference that writes its inputs changes."""
    with IntegerProducts(), _RoundingCasts():
        result = reference(*wide)
    found = tuple(t.detach().double() if t.is_floating_point() else t for t in tensors_of(result))
    return found[0] if isinstance(result, torch.Tensor) else found


class IntegerProducts(TorchFunctionMode):
    """Multiplies integers in float64, which is exact below 2^53: torch has no such products on a GPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func not in _PRODUCTS or args[0].is_floating_point():
            return func(*args, **(kwargs or {}))
        return func(*(x.double() for x in args)).to(args[0].dtype)


_PRODUCTS = (torch.matmul, torch.mm, torch.bmm, torch.Tensor.matmul, torch.Tensor.__matmul__)


def eager(reference: Callable[..., Any], tensors: Sequence[torch.Tensor]) -> Any:
    """Return what torch computes, integers multiplied in float64."""
    with IntegerProducts():
        return reference(*tensors)


class _RoundingCasts(TorchFunctionMode):
    """Makes `x.to(dtype)` round to the type and stay in float64."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return result.double() if func is torch.Tensor.to and result.is_floating_point() else result


def compare(out: torch.Tensor, want: torch.Tensor, like: torch.Tensor, limit: float | None = None) -> Comparison:
    """Compare with the float64 result `want`; `like` (eager's result) gives the dtype and the shape.

    `limit` of rel_err defaults to `REL_ERR`; what is no float is compared bit for bit.
    """
    faults = []
    if out.dtype != like.dtype:
        faults.append(f"dtype {out.dtype}, expected {like.dtype}")
    if out.shape != like.shape:
        return Comparison(math.nan, (*faults, f"shape {tuple(out.shape)}, expected {tuple(like.shape)}"))
    if not like.is_floating_point():
        if differing := int((out.to(want.dtype) != want).sum()):
            faults.append(f"differs in {differing} of {out.numel()} places")
        return Comparison(0.0, tuple(faults))
    rounded = want.to(like.dtype).double()  # what overflows the result's type is infinite
    found = out.double()
    for what, test in (("NaN", torch.isnan), ("+inf", torch.isposinf), ("-inf", torch.isneginf)):
        if differing := int((test(found) != test(rounded)).sum()):
            faults.append(f"{what} differs in {differing} of {out.numel()} places")
    finite = torch.isfinite(found) & torch.isfinite(rounded)
    difference = torch.where(finite, found - want, 0.0).norm().item()
    size = torch.where(finite, want, 0.0).norm().item()
    rel_err = difference / size if size else float(difference != 0)
    limit = REL_ERR.get(like.dtype, 0.0) if limit is None else limit
    if not rel_err <= limit:
        faults.append(f"rel_err {rel_err:.2e}, limit {limit}")
    return Comparison(rel_err, tuple(faults))


def compare_all(out: Any, want: Any, like: Any, limit: float | None = None) -> Comparison:
    """Compare a result of one or several tensors; faults name the tensor."""
    triples = [tensors_of(r) for r in (out, want, like)]
    if len(triples[0]) != len(triples[2]):
        return Comparison(math.nan, (f"{len(triples[0])} results, expected {len(triples[2])}",))
    found = [compare(*one, limit) for one in zip(*triples, strict=True)]
    faults = [f"result {place}: {fault}" for place, one in enumerate(found) for fault in one.faults]
    return Comparison(max((one.rel_err for one in found), default=0.0), tuple(faults))


def run_poisoned(kernel: Callable[..., Any], tensors: Sequence[torch.Tensor], poison: float) -> Any:
    """Run the kernel where the allocator's next blocks of its results' sizes hold the poison.

    A first run can leave the allocator in another state; from the second on the same blocks are handed out.
    """
    for _ in range(3):
        places = _poisoned(tensors_of(kernel(*tensors)), poison)
        out = kernel(*tensors)
        if all(new.data_ptr() == old or not new.numel() for new, old in zip(tensors_of(out), places, strict=True)):
            return out
        del out
    raise AssertionError("the allocator did not hand the poisoned blocks out again")


def _poisoned(results: tuple[torch.Tensor, ...], poison: float) -> list[int]:
    for one in results:
        one.fill_(min(poison, torch.finfo(one.dtype).max) if one.is_floating_point() else 77)
    return [one.data_ptr() for one in results]


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bytes of a tensor, so that NaN equals itself."""
    return tensor.contiguous().reshape(-1).view(torch.uint8).clone()


def check_runs(kernel: Callable[..., Any], tensors: Sequence[torch.Tensor]) -> tuple[Any, list[str]]:
    """Run twice on poisoned results; return the first one, and what differs between the two."""
    first, second = (tensors_of(run_poisoned(kernel, tensors, poison)) for poison in POISONS)
    faults = []
    for one, other in zip(first, second, strict=True):
        if not torch.equal(bits(one), bits(other)):
            differing = int((bits(one) != bits(other)).sum())
            faults.append(f"two runs differ in {differing} bytes")
    return first[0] if len(first) == 1 else first, faults
