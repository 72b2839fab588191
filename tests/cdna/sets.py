"""The products that the rules of CDNA are tried on: every layout, type and epilogue that the templates tell apart.

Needs no FlyDSL: a set is a product as the pipeline has it before the plan, and its legal candidates.
"""

from collections.abc import Callable, Mapping
from functools import cache, partial

import torch
import torch.nn.functional as F
from choices import PRODUCTS, Base, Product, base_of

FLOATS = ("bfloat16", "float16")  # products of these are sampled in fp32 as well; those of bytes are below
TYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}


def int8_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A product of bytes, summed in 32 bits."""
    return a.to(torch.int32) @ b.to(torch.int32)


def fp8_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A product of fp8, rounded to bf16."""
    return (a.to(torch.float32) @ b.to(torch.float32)).to(torch.bfloat16)


def product_of_ops(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A product of operands that are computed on their way."""
    return F.gelu(a) @ (b * 0.5)


# Products of bytes: name, reference, element type. gfx942 multiplies e5m2 in fp32.
NARROW = (
    ("int8", int8_product, torch.int8),
    ("fp8", fp8_product, torch.float8_e4m3fn),
    ("e5m2", fp8_product, torch.float8_e5m2),
)
GATED = ("gated", "gated-mn-major", "gated-unaligned")  # a product and a loop: no kernel for CDNA has gates
COMPUTED = {
    "ops": Product(product_of_ops, PRODUCTS["aligned"].operands),
    "ops-ragged": Product(product_of_ops, PRODUCTS["ragged"].operands),
    "ops-unaligned": Product(product_of_ops, PRODUCTS["unaligned"].operands),
}


def narrow_tensors(exchanged: bool, dtype: torch.dtype) -> list[torch.Tensor]:
    """Return operands of a product whose B is stored by columns (`exchanged`) or by rows."""
    product = Product(int8_product, (((512, 1024), False), ((1024, 768), exchanged)))
    return [tensor.to(dtype) for tensor in product.tensors("float32", "cpu")]


@cache
def sets() -> Mapping[str, Callable[[str], Base]]:
    """Return every product with every type by name: a function of the target."""
    found: dict[str, Callable[[str], Base]] = {}
    plain = {name: product for name, product in PRODUCTS.items() if name not in GATED}
    for name, product in {**plain, **COMPUTED}.items():
        for dtype, torch_name in TYPES.items() if product.dtypes == FLOATS else ():
            found[f"{name}_{dtype}"] = partial(_floats, product, torch_name)
    for name, reference, narrow in NARROW:
        for layout in ("nt", "nn"):
            found[f"{name}_{layout}"] = partial(_bytes, reference, layout == "nt", narrow)
    return found


def _floats(product: Product, dtype: str, target: str) -> Base:
    return base_of(product.reference, product.tensors(dtype, "cpu"), target, "sample")


def _bytes(reference: Callable[..., torch.Tensor], exchanged: bool, dtype: torch.dtype, target: str) -> Base:
    return base_of(reference, narrow_tensors(exchanged, dtype), target, "sample")
