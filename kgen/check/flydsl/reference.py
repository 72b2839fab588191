"""The reference on a CPU as it is on a GPU, where torch's CPU kernel treats special values or sums in another way.

torch's CPU kernel of group norm folds mean, deviation and weight into one factor and one summand, and so does its
decomposition for CPU tensors alone (torch/_refs, `native_group_norm`): an infinite weight then gives NaN where a GPU
gives infinity. Its CPU kernel of the negative log likelihood sums bf16 and fp16 in that type, 1.6 % off over 8192 rows;
a GPU sums in fp32.
"""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_GROUP_NORM = torch.ops.aten.native_group_norm.default
_NLL_LOSS = torch.ops.aten.nll_loss_forward.default


class AsOnGpu(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Computes such ops in the order of a GPU."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is _GROUP_NORM:
            return _group_norm(*args)
        if func is _NLL_LOSS:
            return _nll_loss(*args)
        return func(*args, **(kwargs or {}))


def _group_norm(
    x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, *sizes: Any
) -> tuple[torch.Tensor, ...]:
    found, mean, rstd = _GROUP_NORM(x.float(), None, None, *sizes)
    per_channel = (1, -1, *[1] * (x.ndim - 2))
    if weight is not None:
        found = found * weight.float().reshape(per_channel)
    if bias is not None:
        found = found + bias.float().reshape(per_channel)
    return found.to(x.dtype), mean.to(x.dtype), rstd.to(x.dtype)


def _nll_loss(
    x: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None, *rest: Any
) -> tuple[torch.Tensor, ...]:
    found = _NLL_LOSS(x.float(), target, None if weight is None else weight.float(), *rest)
    return tuple(part.to(x.dtype) for part in found)
