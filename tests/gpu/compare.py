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


def expected(reference: Callable[..., torch.Tensor], tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the reference computed in float64; casts that are written in it round, and nothing else does."""
    with _RoundingCasts():
        return reference(*(t.double() if t.is_floating_point() else t for t in tensors)).detach().double()


class _RoundingCasts(TorchFunctionMode):
    """Makes `x.to(dtype)` round to the type and stay in float64."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return result.double() if func is torch.Tensor.to and result.is_floating_point() else result


def compare(out: torch.Tensor, want: torch.Tensor, like: torch.Tensor) -> Comparison:
    """Compare with the float64 result `want`; `like` (eager's result) gives the dtype and the shape."""
    faults = []
    if out.dtype != like.dtype:
        faults.append(f"dtype {out.dtype}, expected {like.dtype}")
    if out.shape != like.shape:
        return Comparison(math.nan, (*faults, f"shape {tuple(out.shape)}, expected {tuple(like.shape)}"))
    rounded = want.to(like.dtype).double()  # what overflows the result's type is infinite
    found = out.double()
    for what, test in (("NaN", torch.isnan), ("+inf", torch.isposinf), ("-inf", torch.isneginf)):
        if differing := int((test(found) != test(rounded)).sum()):
            faults.append(f"{what} differs in {differing} of {out.numel()} places")
    finite = torch.isfinite(found) & torch.isfinite(rounded)
    difference = torch.where(finite, found - want, 0.0).norm().item()
    size = torch.where(finite, want, 0.0).norm().item()
    rel_err = difference / size if size else float(difference != 0)
    limit = REL_ERR.get(like.dtype, 0.0)
    if not rel_err <= limit:
        faults.append(f"rel_err {rel_err:.2e}, limit {limit}")
    return Comparison(rel_err, tuple(faults))


def run_poisoned(kernel: Callable[..., torch.Tensor], tensors: Sequence[torch.Tensor], poison: float) -> torch.Tensor:
    """Run the kernel where the allocator's next block of its result's size holds the poison."""
    probe = kernel(*tensors)
    if probe.is_floating_point():
        probe.fill_(poison)
    place = probe.data_ptr()
    del probe
    out = kernel(*tensors)
    if out.numel() and out.data_ptr() != place:
        raise AssertionError("the allocator did not hand the poisoned block out again")
    return out


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bytes of a tensor, so that NaN equals itself."""
    return tensor.contiguous().reshape(-1).view(torch.uint8).clone()


def check_runs(kernel: Callable[..., torch.Tensor], tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, list[str]]:
    """Run twice on poisoned results; return the first one, and what differs between the two."""
    first, second = (run_poisoned(kernel, tensors, poison).clone() for poison in POISONS)
    faults = []
    if not torch.equal(bits(first), bits(second)):
        differing = int((bits(first) != bits(second)).sum())
        faults.append(f"two runs differ in {differing} bytes")
    return first, faults
