"""The reference on a CPU as it is on a GPU, where torch's CPU kernel treats special values in another way.

torch's CPU kernel of group norm folds mean, deviation and weight into one factor and one summand, and so does its
decomposition for CPU tensors alone (torch/_refs, `native_group_norm`): an infinite weight then gives NaN where a GPU
gives infinity.
"""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_GROUP_NORM = torch.ops.aten.native_group_norm.default


class AsOnGpu(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Computes such ops in the order of a GPU."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is _GROUP_NORM:
            return _group_norm(*args)
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
