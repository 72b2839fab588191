"""What `gemm.py` compares for each type of operands: the reference that kgen compiles, and what torch runs.

A is (m, k) and B is (n, k), both row-major.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import torch

Kernel = Callable[..., torch.Tensor]


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A product in the operands' own type."""
    return torch.matmul(a, b.t())


def fp8_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A product of fp8 operands with a bf16 result."""
    return (a.to(torch.float32) @ b.t().to(torch.float32)).to(torch.bfloat16)


def wide_fp8_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The same with an fp32 result."""
    return a.to(torch.float32) @ b.t().to(torch.float32)


@cache
def _one(device: torch.device) -> torch.Tensor:
    """A scale that is made once, so that no call times its making."""
    return torch.ones((), device=device)


def scaled_mm(a: torch.Tensor, b: torch.Tensor, out_dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """What torch runs for fp8, without fast accumulation."""
    one = _one(a.device)
    return torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=out_dtype, use_fast_accum=False)


def int8_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A product of int8 operands in int32."""
    return a.to(torch.int32) @ b.t().to(torch.int32)


def int_mm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """What torch runs for int8."""
    return torch._int_mm(a, b.t())


@dataclass(frozen=True, slots=True)
class Comparison:
    """One type of operands: torch's, the rules' name of the products, and that of their peak.

    `limit` is of rel_err against float64, of each side. `wide` are both sides with an fp32 result, where the result's
    own rounding hides the error of the sums.
    """

    dtype: torch.dtype
    name: str
    peak: str
    limit: float
    out_bytes: int
    reference: Kernel = product
    peer: Kernel = product
    wide: tuple[Kernel, Kernel] | None = None

    def operand(self, rows: int, k: int, generator: torch.Generator) -> torch.Tensor:
        """Return a random operand, such that the elements of a product are near 1; all values of int8."""
        if not self.dtype.is_floating_point:
            return torch.randint(-128, 128, (rows, k), generator=generator, device="cuda", dtype=self.dtype)
        return (torch.randn((rows, k), generator=generator, device="cuda") * k**-0.25).to(self.dtype)


_WIDE_FP8 = (wide_fp8_product, partial(scaled_mm, out_dtype=torch.float32))
COMPARISONS = {
    "bfloat16": Comparison(torch.bfloat16, "bf16", "bf16", 0.01, 2),
    "float16": Comparison(torch.float16, "fp16", "fp16", 0.01, 2),
    "float8_e4m3fn": Comparison(
        torch.float8_e4m3fn, "fp8_e4m3", "fp8", 0.01, 2, fp8_product, scaled_mm, wide=_WIDE_FP8
    ),
    "int8": Comparison(torch.int8, "int8", "int8", 0.0, 4, int8_product, int_mm),
    "tf32": Comparison(torch.float32, "tf32", "tf32", 1e-3, 4),
    "float32": Comparison(torch.float32, "fp32", "fp32_planes", 1e-5, 4),
}


def comparison(name: str) -> Comparison:
    """Return the comparison of that name, and set torch's flag as it needs it."""
    torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
    return COMPARISONS[name]
