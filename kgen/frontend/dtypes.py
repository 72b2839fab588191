"""torch's element types by the names of the IR."""

import torch

from kgen.errors.frontend import UnsupportedDTypeError
from kgen.ir.dtype import DType
from kgen.ir.tensor import TensorType

TORCH_DTYPES: dict[DType, torch.dtype] = {d: getattr(torch, d.torch_name.removeprefix("torch.")) for d in DType}
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
