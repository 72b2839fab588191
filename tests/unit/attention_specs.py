"""Specs that between them print every section of the attention templates; emitted once per process and device."""

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from emitted_specs import BF16, BOOL, FP16, FP32, INT32, e

from kgen.frontend.importers import spec_from_callable
from kgen.pipeline import run
from kgen.planning.plan import Plan
from kgen.planning.plan_attention import AttentionVariant
from kgen.target import load_device

INF = float("inf")


def _dense(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)


def _causal(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def _masked(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def _negative(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, scale=-0.1)


def _distance(s):
    rows, columns = (torch.arange(extent, device=s.device) for extent in s.shape[-2:])
    return columns - rows[:, None]


def _scores(q, k):
    return (q @ k.transpose(-1, -2)).float() * q.shape[-1] ** -0.5


def _window(q, k, v):
    s = _scores(q, k)
    distance = _distance(s)
    s = s.masked_fill((distance > 0) | (distance <= -100), -INF)
    return s.softmax(-1).to(v.dtype) @ v, torch.logsumexp(s, -1)


def _both_ways(q, k, v):
    s = _scores(q, k)
    return s.masked_fill(_distance(s).abs() > 70, -INF).softmax(-1).to(v.dtype) @ v


def _softcap(q, k, v):
    s = 30.0 * torch.tanh(_scores(q, k) / 30.0)
    return s.masked_fill(_distance(s) > 0, -INF).softmax(-1).to(v.dtype) @ v


def _alibi(q, k, v, slopes):
    s = _scores(q, k)
    s = s + slopes.view(-1, 1, 1) * _distance(s)
    return s.softmax(-1).to(v.dtype) @ v


def _lengths(q, k, v, lengths):
    keep = torch.arange(k.shape[2], device=k.device) < lengths[:, None]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=keep[:, None, None], enable_gqa=True)


def _sequences(q, k, v, ids):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=ids[:, None] == ids)


def _epilogue(q, k, v, residual):
    return F.relu(F.scaled_dot_product_attention(q, k, v).float() + residual)


def _packed(x):
    q, k, v = (t.transpose(1, 2) for t in x.unbind(2))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)


def _qkv(queries: int, keys: int, d: int, *, dv: int = 0, heads: tuple[int, int] = (4, 4), dtype=BF16):
    q, k, v = (2, heads[0], queries, d), (2, heads[1], keys, d), (2, heads[1], keys, dv or d)
    return tuple(e(*shape, dtype=dtype) for shape in (q, k, v))


def _bhsd(*shape: int) -> torch.Tensor:
    """Return a tensor of (batch, heads, tokens, dim) with tokens before heads in memory."""
    b, h, s, d = shape
    return e(b, h, s, d, stride=(h * s * d, d, h * d, 1))


FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "long": (_dense, *_qkv(2048, 2048, 128, heads=(16, 16))),
    "long_causal": (_causal, *_qkv(4096, 4096, 128, heads=(16, 4))),
    "tokens_first": (_dense, _bhsd(2, 4, 300, 64), _bhsd(2, 4, 500, 64), _bhsd(2, 4, 500, 64)),
    "dim_64": (_causal, *_qkv(2048, 2048, 64, heads=(16, 8))),
    "dim_256": (_causal, *_qkv(1024, 1024, 256, heads=(16, 16))),
    "dim_40": (_dense, *_qkv(300, 500, 40, dtype=FP16)),
    "dims_192_48": (_dense, *_qkv(300, 500, 192, dv=48)),
    "one_query": (_dense, *_qkv(1, 500, 128)),
    "negative": (_negative, *_qkv(300, 500, 64)),
    "flags": (_masked, *_qkv(300, 500, 64), e(2, 1, 300, 500, dtype=BOOL)),
    "padding": (_masked, *_qkv(300, 500, 128), e(2, 1, 1, 500, dtype=BOOL)),
    "added": (_masked, *_qkv(300, 500, 64), e(4, 300, 500)),
    "window": (_window, *_qkv(700, 500, 128)),
    "both_ways": (_both_ways, *_qkv(500, 700, 64)),
    "softcap": (_softcap, *_qkv(1024, 1024, 128)),
    "alibi": (_alibi, *_qkv(300, 500, 64), e(4, dtype=FP32)),
    "epilogue": (_epilogue, *_qkv(300, 500, 128), e(2, 4, 300, 128)),
    "lengths": (_lengths, *_qkv(100, 300, 128, heads=(8, 2)), e(2, dtype=INT32)),
    "sequences": (_sequences, *_qkv(300, 300, 64), e(300, dtype=INT32)),
    "packed": (_packed, e(2, 300, 3, 4, 64)),
}
NAMES = tuple(FUNCTIONS)


@cache
def made_of(name: str) -> dict[str, object]:
    """Return what each stage makes of a spec."""
    reference, *tensors = FUNCTIONS[name]
    spec = spec_from_callable(reference, tuple(tensors), name=name)
    return dict(run(spec, load_device("h200")).made)


def files_of(name: str) -> dict[str, str]:
    """Return the package."""
    files = made_of(name)["render"]
    assert isinstance(files, dict)
    return files


def plan_of(name: str) -> Plan:
    """Return the plan."""
    plan = made_of(name)["plan"]
    assert isinstance(plan, Plan)
    return plan


def variant_of(name: str) -> AttentionVariant:
    """Return the one variant of a spec's one kernel."""
    (variant,) = plan_of(name).variants
    assert isinstance(variant, AttentionVariant)
    return variant
