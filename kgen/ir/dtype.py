"""Element types, by the names a spec uses; the target decides details such as which fp8 encoding is meant."""

from enum import StrEnum


class DType(StrEnum):
    """An element type. The value is the name used in specs, plans and printed IR."""

    BOOL = "bool"
    INT8 = "int8"
    UINT8 = "uint8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FP8_E4M3 = "fp8_e4m3"
    FP8_E5M2 = "fp8_e5m2"
    FP16 = "fp16"
    BF16 = "bf16"
    FP32 = "fp32"
    FP64 = "fp64"

    @property
    def bits(self) -> int:
        """Bits of one element in memory."""
        return _BITS[self]

    @property
    def bytes(self) -> int:
        """Bytes of one element in memory."""
        return self.bits // 8

    @property
    def torch_name(self) -> str:
        """The name that torch has for the type, as in `torch.bfloat16`."""
        return f"torch.{_TORCH_NAMES.get(self, self)}"

    @property
    def is_float(self) -> bool:
        """Whether the type is a floating-point type."""
        return self in _FLOATS

    @property
    def accumulator(self) -> "DType":
        """The type sums of this element type are kept in."""
        if self is DType.FP64:
            return DType.FP64
        if self.is_float:
            return DType.FP32
        return DType.INT32 if self in (DType.INT8, DType.UINT8) else DType.INT64


_BITS = {
    DType.BOOL: 8,
    DType.INT8: 8,
    DType.UINT8: 8,
    DType.INT16: 16,
    DType.INT32: 32,
    DType.INT64: 64,
    DType.FP8_E4M3: 8,
    DType.FP8_E5M2: 8,
    DType.FP16: 16,
    DType.BF16: 16,
    DType.FP32: 32,
    DType.FP64: 64,
}
_TORCH_NAMES = {  # where torch's own differs
    DType.FP8_E4M3: "float8_e4m3fn",
    DType.FP8_E5M2: "float8_e5m2",
    DType.FP16: "float16",
    DType.BF16: "bfloat16",
    DType.FP32: "float32",
    DType.FP64: "float64",
}
_FLOATS = frozenset({DType.FP8_E4M3, DType.FP8_E5M2, DType.FP16, DType.BF16, DType.FP32, DType.FP64})
