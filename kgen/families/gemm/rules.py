"""The compiled rules of the GEMM family on one arch: what the hardware allows and what the templates print."""

from functools import cache

from kgen.families.gemm.rules_facts import GEMM_VOCABULARY, GemmFacts, copies_of
from kgen.families.rules_files import family_rules
from kgen.ir.dtype import DType
from kgen.rules.ruleset import RuleSet
from kgen.rules.solve import BoundRules, bind, solve
from kgen.target import Arch, Device

_TRIED = 4096  # extents of the products that are tried: every tile divides them


def gemm_rules(arch: Arch, *, lowered: bool = True) -> RuleSet:
    """Return the rules of an arch; without `lowered`, what the hardware allows alone."""
    return family_rules(GEMM_VOCABULARY, arch, lowered=lowered)


def bind_gemm(facts: GemmFacts, device: Device, *, lowered: bool = True) -> BoundRules:
    """Give the rules of a device's arch the facts of one problem."""
    return bind(gemm_rules(device.arch, lowered=lowered), {**device.rule_fields(), **facts.as_mapping()})


@cache
def narrow_products(device: Device) -> frozenset[DType]:
    """Return the types narrower than their sums that the kernels for a device multiply: the rules leave a candidate."""
    types = (DType.BF16, DType.FP16, DType.FP8_E4M3, DType.FP8_E5M2, DType.INT8)
    return frozenset(dtype for dtype in types if _is_multiplied(dtype, device))


@cache
def multiplies_tf32(device: Device) -> bool:
    """Return whether the kernels for a device multiply fp32 operands rounded to tf32."""
    return _is_multiplied(DType.FP32, device, "tf32")


def _is_multiplied(dtype: DType, device: Device, name: str = "") -> bool:
    sums = dtype.accumulator
    facts = GemmFacts(
        m=_TRIED,
        n=_TRIED,
        k=_TRIED,
        in_dtype=name or str(dtype),
        in_bytes=dtype.bytes,
        promo=copies_of(dtype),
        out_dtype=str(sums),
        out_bytes=sums.bytes,
    )
    return solve(bind_gemm(facts, device)).count > 0
