"""What a Map means: the torch function of each pointwise op, on operands of one type."""

from collections.abc import Callable

import torch
import torch.nn.functional as F

from kgen.frontend.dtypes import TORCH_DTYPES
from kgen.ir.pointwise import PointwiseOp as Op
from kgen.ir.problem import Map

FUNCTIONS: dict[Op, Callable[..., torch.Tensor]] = {
    Op.TRUNC_DIVIDE: lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    Op.FLOOR_DIVIDE: lambda x, y: torch.div(x, y, rounding_mode="floor"),
    Op.GELU_ERF: F.gelu,
    Op.GELU_TANH: lambda x: F.gelu(x, approximate="tanh"),
    Op.SILU: F.silu,
    Op.MISH: F.mish,
    Op.SOFTSIGN: F.softsign,
    Op.HARDSIGMOID: F.hardsigmoid,
    Op.HARDSWISH: F.hardswish,
    Op.LOGSIGMOID: F.logsigmoid,
    Op.SOFTPLUS: lambda x, beta, threshold: F.softplus(x, float(beta), float(threshold)),
    Op.LEAKY_RELU: lambda x, slope: torch.where(x > 0, x, x * slope),
    Op.ELU: lambda x, a, s, i: torch.where(x > 0, x * s, a * s * torch.expm1(x * i)),
    Op.SHIFT_LEFT: torch.bitwise_left_shift,
    Op.SHIFT_RIGHT: torch.bitwise_right_shift,
}


def evaluated(op: Map, operands: list[torch.Tensor]) -> torch.Tensor:
    """Return the value of a Map on operands of its own type (of a predicate, of one type; of WHERE, a bool first)."""
    if op.op is Op.CAST:
        return operands[0].to(TORCH_DTYPES[op.dtype])
    function = FUNCTIONS.get(op.op) or getattr(torch, op.op.value)
    result = function(*operands)
    assert result.dtype is TORCH_DTYPES[op.dtype], f"{op} gives {result.dtype}"
    return result
