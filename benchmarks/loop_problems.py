"""Loop kernels whose candidates are timed to calibrate the cost model of `kgen.families.strided.cost`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

SHAPES = ((65536, 256), (32768, 1024), (32768, 4096), (16384, 8192), (8192, 32768), (2048, 131072))
BF16, F32 = torch.bfloat16, torch.float32


@dataclass(frozen=True, slots=True)
class LoopProblem:
    """A function and the types of its inputs: (shape, dtype) each."""

    name: str
    function: Callable[..., Any]
    inputs: tuple[tuple[tuple[int, ...], torch.dtype], ...]


def rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Root mean square norm over rows."""
    return F.rms_norm(x, (x.shape[-1],), weight, 1e-6)


def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Layer norm over rows."""
    return F.layer_norm(x, (x.shape[-1],), weight, bias)


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax over rows."""
    return F.softmax(x, -1)


def row_sum(x: torch.Tensor) -> torch.Tensor:
    """Sum over rows."""
    return x.sum(-1)


def silu_and_mul(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """silu(x) * y."""
    return F.silu(x) * y


def column_sum(x: torch.Tensor) -> torch.Tensor:
    """Sum over columns."""
    return x.sum(0)


def middle_sum(x: torch.Tensor) -> torch.Tensor:
    """Sum over the middle axis."""
    return x.sum(1)


def channel_softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the second axis."""
    return F.softmax(x, 1)


def running_sum(x: torch.Tensor) -> torch.Tensor:
    """Running sum along rows."""
    return x.cumsum(-1)


def _problems() -> tuple[LoopProblem, ...]:
    found = []
    for rows, cols in SHAPES:
        x, row = ((rows, cols), BF16), ((cols,), BF16)
        shape = f"{rows}x{cols}"
        found += [
            LoopProblem(f"softmax {shape}", softmax, (x,)),
            LoopProblem(f"rms_norm {shape}", rms_norm, (x, row)),
            LoopProblem(f"layer_norm {shape}", layer_norm, (x, row, row)),
            LoopProblem(f"row_sum {shape}", row_sum, (x,)),
            LoopProblem(f"silu_and_mul {shape}", silu_and_mul, (x, x)),
        ]
    found += [
        LoopProblem("column_sum 65536x4096", column_sum, (((65536, 4096), BF16),)),
        LoopProblem("column_sum 4096x65536", column_sum, (((4096, 65536), BF16),)),
        LoopProblem("middle_sum 32x4096x4095", middle_sum, (((32, 4096, 4095), F32),)),
        LoopProblem("channel_softmax 64x256x56x56", channel_softmax, (((64, 256, 56, 56), F32),)),
        LoopProblem("running_sum 32768x4096", running_sum, (((32768, 4096), F32),)),
        LoopProblem("softmax fp32 8192x8192", softmax, (((8192, 8192), F32),)),
        LoopProblem("softmax fp32 512x512", softmax, (((512, 512), F32),)),
        LoopProblem("full_sum parts 1024x1048576", row_sum, (((1024, 1048576), F32),)),
    ]
    return tuple(found)


PROBLEMS = _problems()
