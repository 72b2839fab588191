"""torch's element types by the names of the IR."""

import torch

from kgen.errors.frontend import UnsupportedDTypeError
from kgen.ir.dtype import DType
from kgen.ir.tensor import TensorType

TORCH_DTYPES = {
    DType.BOOL: torch.bool,
    DType.INT8: torch.int8,
    DType.UINT8: torch.uint8,
    DType.INT16: torch.int16,
    DType.INT32: torch.int32,
    DType.INT64: torch.int64,
    DType.FP8_E4M3: torch.float8_e4m3fn,
    DType.FP8_E5M2: torch.float8_e5m2,
    DType.FP16: torch.float16,
    DType.BF16: torch.bfloat16,
    DType.FP32: torch.float32,
    DType.FP64: torch.float64,
}
_DTYPES = {torch_dtype: dtype for dtype, torch_dtype in TORCH_DTYPES.items()}


def dtype_of(torch_dtype: torch.dtype, what: str) -> DType:
    """Return the IR's dtype; raise `UnsupportedDTypeError` naming `what` for a type the IR lacks."""
    if torch_dtype not in _DTYPES:
        raise UnsupportedDTypeError(what=what, dtype=torch_dtype, supported=", ".join(DType))
    return _DTYPES[torch_dtype]


def type_of(tensor: torch.Tensor, what: str) -> TensorType:
    """Return the IR's type of a tensor, real or fake."""
    shape = tuple(int(extent) for extent in tensor.shape)
    return TensorType(dtype_of(tensor.dtype, what), shape, tuple(int(s) for s in tensor.stride()))
