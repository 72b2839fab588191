"""The element types of products in FlyDSL: those that MFMA multiplies, sums and writes."""

from typing import Final

from kgen.ir.dtype import DType
from kgen.target import Arch, Fp8

MFMA_TYPES: Final = {
    DType.BF16: "fx.BFloat16",
    DType.FP16: "fx.Float16",
    DType.FP32: "fx.Float32",
    DType.INT8: "fx.Int8",
    DType.FP8_E5M2: "fx.Float8E5M2",
}
_FP8: Final = {Fp8.OCP: "fx.Float8E4M3FN", Fp8.FNUZ: "fx.Float8E4M3FNUZ"}


def mfma_type(dtype: DType, arch: Arch) -> str:
    """Return the type of MFMA's operands; the arch decides which fp8 there is."""
    return _FP8[arch.fp8] if dtype is DType.FP8_E4M3 else MFMA_TYPES[dtype]


def sum_dtype(dtype: DType) -> DType:
    """Return the type that products of a type are summed in."""
    return DType.INT32 if dtype is DType.INT8 else DType.FP32
