"""Constants of pointwise ops: what torch gives for them, so that a kernel holds the result."""

import operator
from collections.abc import Callable
from typing import Any, Final

import torch
import torch.nn.functional as F

from kgen.frontend.dtypes import TORCH_DTYPES
from kgen.ir.dtype import DType
from kgen.ir.pointwise import PointwiseOp as Op
from kgen.ir.problem import Const, Operand

_PREDICATES: Final[dict[Op, Callable[..., Any]]] = {
    **{op: getattr(operator, op.value) for op in (Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE)},
    Op.LOGICAL_AND: lambda x, y: bool(x) and bool(y),
    Op.LOGICAL_OR: lambda x, y: bool(x) or bool(y),
    Op.LOGICAL_NOT: operator.not_,
}
_FUNCTIONS: Final[dict[Op, Callable[..., torch.Tensor]]] = {  # where torch's own has another name or other arguments
    Op.TRUNC_DIVIDE: lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    Op.ATAN2: torch.arctan2,
    Op.GELU_ERF: F.gelu,
    Op.GELU_TANH: lambda x: F.gelu(x, approximate="tanh"),
    Op.SILU: F.silu,
    Op.MISH: F.mish,
    Op.SOFTSIGN: F.softsign,
    Op.HARDSIGMOID: F.hardsigmoid,
    Op.HARDSWISH: F.hardswish,
    Op.LOGSIGMOID: F.logsigmoid,
    Op.SOFTPLUS: lambda x, beta, threshold: F.softplus(x, beta.item(), threshold.item()),
    Op.LEAKY_RELU: lambda x, slope: torch.where(x > 0, x, x * slope),
    Op.ELU: lambda x, alpha, scale, inner: torch.where(x > 0, x * scale, alpha * scale * torch.expm1(x * inner)),
    Op.SHIFT_LEFT: torch.bitwise_left_shift,
    Op.SHIFT_RIGHT: torch.bitwise_right_shift,
}


def folded(op: Op, operands: tuple[Operand, ...], dtype: DType) -> Operand | None:
    """Return the value of an op computed in `dtype` where constants decide it, else None."""
    first, *others = operands
    if op is Op.WHERE and isinstance(first, Const):
        return others[0] if first.value else others[1]
    values = [operand.value for operand in operands if isinstance(operand, Const)]
    if len(values) < len(operands):
        return None
    if op in _PREDICATES:
        return Const(bool(_PREDICATES[op](*values)))
    tensors = [torch.tensor(value, dtype=TORCH_DTYPES[dtype]) for value in values]
    function = _FUNCTIONS.get(op) or getattr(torch, op.value)
    try:
        return Const(function(*tensors).item())
    except RuntimeError:  # division of integers by zero: the kernel gives what the hardware gives
        return None
