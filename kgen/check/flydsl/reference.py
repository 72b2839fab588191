"""The reference on a CPU as it is on a GPU, where torch's CPU kernel treats special values or sums in another way.

torch's kernels of group norm fold mean, deviation and weight into one factor and one summand: an infinite weight gives
NaN on the side of the mean. Where a channel is one element its GPU kernel does not, its CPU kernel does. Its CPU kernel
of the negative log likelihood sums bf16 and fp16 in that type, 1.6 % off over 8192 rows; a GPU sums in fp32. To divide
by a number a GPU multiplies by its inverse, which a step behind it shows; a CPU divides. On some CPUs its fused
attention loses the NaN of a row whose largest score is infinite.
"""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_GROUP_NORM = torch.ops.aten.native_group_norm.default
_ELEMENTS_OF_CHANNEL = 5  # place among its arguments
_NLL_LOSS = torch.ops.aten.nll_loss_forward.default
_DIV = torch.ops.aten.div.Tensor
_ATTENTION = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default


class AsOnGpu(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Computes such ops in the order of a GPU."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is traced under this mode, and to say so to torch would import its compiler, for seconds

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is _GROUP_NORM and args[_ELEMENTS_OF_CHANNEL] == 1:
            return _group_norm(*args)
        if func is _NLL_LOSS:
            return _nll_loss(*args)
        if func is _DIV and not isinstance(args[1], torch.Tensor):
            return _divided_by_number(*args)
        if func is _ATTENTION and not all(bool(x.isfinite().all()) for x in args[:3]):
            return _attention(*args, **(kwargs or {}))
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


def _attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> tuple[torch.Tensor, ...]:
    """Return the attention in steps, a masked score as one that is never looked at, and its logarithms of sums."""
    wide, shared = torch.promote_types(q.dtype, torch.float32), q.shape[1] // k.shape[1]
    wide_k, wide_v = (x.to(wide).repeat_interleave(shared, 1) for x in (k, v))
    scores = q.to(wide) @ wide_k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
    if attn_mask is not None:
        scores = scores + attn_mask.to(wide)
    weights = torch.ops.aten._safe_softmax(scores, -1)
    return (weights @ wide_v).to(q.dtype), scores.logsumexp(-1)


def _divided_by_number(x: torch.Tensor, number: float) -> torch.Tensor:
    kind = torch.result_type(x, float(number))
    computed = torch.promote_types(kind, torch.float32)
    inverse = torch.ones((), dtype=computed) / torch.tensor(number, dtype=computed)
    return (x.to(computed) * inverse).to(kind)
