"""torch's arithmetic on element types: promotion of operands, and rounding of Python numbers."""

from dataclasses import dataclass

import torch

from kgen.errors.base import Where
from kgen.errors.frontend import ScalarOverflowError
from kgen.frontend.dtypes import TORCH_DTYPES, dtype_of
from kgen.ir.dtype import DType

Number = bool | int | float


@dataclass(frozen=True, slots=True)
class Typed:
    """What promotion knows of a tensor operand."""

    dtype: DType
    rank: int


def promoted(operands: tuple[Typed | Number, ...]) -> DType:
    """Return the dtype torch computes in: tensors with axes count before 0-dim tensors, and those before numbers."""
    state = [torch.empty((0,) * o.rank, dtype=TORCH_DTYPES[o.dtype]) if isinstance(o, Typed) else o for o in operands]
    found = state[0]
    for other in state[1:]:
        found = torch.empty(_joint_shape(found, other), dtype=torch.result_type(found, other))
    dtype = found.dtype if isinstance(found, torch.Tensor) else torch.result_type(found, found)
    return dtype_of(dtype, "operand")


def _joint_shape(*operands: torch.Tensor | Number) -> tuple[int, ...]:
    return (0,) * max(o.dim() if isinstance(o, torch.Tensor) else 0 for o in operands)


def compute_dtype(dtype: DType) -> DType:
    """Return the type a kernel computes in for a torch dtype: fp32 for every narrower float."""
    return DType.FP32 if dtype.is_float and dtype.bits < 32 else dtype


def widens(source: DType, target: DType) -> bool:
    """Return whether a carried value of the type `source` is one of `target` as it stands, with no rounding."""
    if compute_dtype(source) is not compute_dtype(target):
        return False
    return source == target or source.bits < target.bits


def rounded(value: Number, dtype: DType, op: str, where: Where | None) -> Number:
    """Return a Python number as torch stores it in an element type: integers wrap, floats must not overflow."""
    torch_dtype = TORCH_DTYPES[dtype]
    stored: Number = torch.tensor(value, dtype=torch.float64 if dtype.is_float else None).to(torch_dtype).item()
    if dtype.is_float and abs(value) != float("inf") and abs(stored) == float("inf"):
        raise ScalarOverflowError(where=where, op=op, value=repr(value), dtype=dtype)
    return stored


def fitting(value: Number, dtype: DType, op: str, where: Where | None) -> Number:
    """Return a Python number as fills store it in an element type; one that does not fit is an error, as in torch."""
    stored = rounded(value, dtype, op, where)
    if not dtype.is_float and dtype is not DType.BOOL and stored != int(value):
        raise ScalarOverflowError(where=where, op=op, value=repr(value), dtype=dtype)
    return stored
