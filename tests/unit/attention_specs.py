"""Specs that between them print every section of the attention templates; emitted once per process and device."""

from dataclasses import replace
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from emitted_specs import BF16, BOOL, FP16, FP32, INT32, e

from kgen.frontend.importers import spec_from_callable
from kgen.pipeline import run
from kgen.planning.plan import Plan
from kgen.planning.plan_attention import AttentionVariant
from kgen.spec.model import FixedAxis
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


def _causal_free(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def _decode_lse(q, k, v):
    k, v = (t.repeat_interleave(4, dim=1) for t in (k, v))
    s = _scores(q, k)
    return s.softmax(-1).to(v.dtype) @ v, torch.logsumexp(s, -1)


def _decode_softcap(q, k, v):
    k, v = (t.repeat_interleave(4, dim=1) for t in (k, v))
    return (30.0 * torch.tanh(_scores(q, k) / 30.0)).softmax(-1).to(v.dtype) @ v


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


def _behind_a_cache(q, k, v, lengths):
    rows, columns = (torch.arange(t.shape[2], device=q.device) for t in (q, k))
    mask = columns <= (lengths[:, None, None] - q.shape[2] + rows[:, None])
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None], enable_gqa=True)


def _causal_sequences(q, k, v, ids):
    tokens = torch.arange(q.shape[1], device=q.device)
    keep = (ids[:, None] == ids) & (tokens[:, None] >= tokens)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=keep)


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
    "lengths_behind": (_behind_a_cache, *_qkv(300, 900, 128, heads=(8, 2)), e(2, dtype=INT32)),
    "sequences_causal": (_causal_sequences, *(e(4, 900, 128) for _ in range(3)), e(900, dtype=torch.int64)),
    "packed": (_packed, e(2, 300, 3, 4, 64)),
}


# What no spec would choose by itself.
FIXED = {"over_q": (FixedAxis("o_path", "over_q", "so that the template prints it"),)}
FUNCTIONS |= {"over_q": (_causal, *_qkv(1024, 1024, 128, heads=(16, 4)))}


def _decode(q, k, v):
    k, v = k.transpose(1, 2), v.transpose(1, 2)
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def _lower_right(q, k, v):
    """Attend to the keys before the last queries, each to those up to its own."""
    rows, columns = (torch.arange(extent, device=q.device) for extent in (q.shape[-2], k.shape[-2]))
    mask = columns <= rows[:, None] + (k.shape[-2] - q.shape[-2])
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)


def _last_window(q, k, v):
    k, v = (t.repeat_interleave(4, dim=1) for t in (k, v))
    s = _scores(q, k)
    distance = _distance(s) - (k.shape[-2] - q.shape[-2])
    return s.masked_fill((distance > 0) | (distance <= -300), -INF).softmax(-1).to(v.dtype) @ v


def _grouped_alibi(q, k, v, slopes):
    k, v = (t.repeat_interleave(4, dim=1) for t in (k, v))
    s = _scores(q, k)
    s = s + slopes.view(-1, 1, 1) * _distance(s)
    return s.softmax(-1).to(v.dtype) @ v


def _grouped_mask(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)


def _grouped_epilogue(q, k, v, residual):
    return F.relu(F.scaled_dot_product_attention(q, k, v, enable_gqa=True).float() + residual)


def _shared(q, k, v):
    """One prompt for all sequences."""
    k, v = (t.expand(q.shape[0], -1, -1, -1) for t in (k, v))
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def _cached_lengths(q, k, v, lengths):
    k, v = k.transpose(1, 2), v.transpose(1, 2)
    mask = (torch.arange(k.shape[2], device=q.device) < lengths[:, None])[:, None, None]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)


def _last_queries(q, k, v, lengths):
    """The queries are the last tokens of each sequence."""
    k, v = k.transpose(1, 2), v.transpose(1, 2)
    rows, columns = (torch.arange(t.shape[2], device=q.device) for t in (q, k))
    mask = columns <= (lengths[:, None, None] - q.shape[2] + rows[:, None])
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None], enable_gqa=True)


def _lengths_and_mask(q, k, v, lengths, mask):
    keep = (torch.arange(k.shape[1], device=q.device) < lengths[:, None]) & mask
    k, v = k.transpose(1, 2), v.transpose(1, 2)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=keep[:, None, None], enable_gqa=True)


def _pages(q, k, v, table, lengths):
    return _cached_lengths(q, *(x[table].flatten(1, 2) for x in (k, v)), lengths)


def _pages_alone(q, k, v, table):
    k, v = (x.index_select(0, table.flatten()).view(len(table), -1, *x.shape[2:]).transpose(1, 2) for x in (k, v))
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def _pages_heads_first(q, k, v, table, lengths):
    k, v = (x[table].transpose(1, 2).flatten(2, 3) for x in (k, v))
    return _last_queries(q, k.transpose(1, 2), v.transpose(1, 2), lengths)


def _pool(pages: int, size: int, heads: int, d: int) -> tuple[torch.Tensor, torch.Tensor]:
    return e(pages, size, heads, d), e(pages, size, heads, d)


def _shared_keys(q, k, v):
    k = k.expand(q.shape[0], -1, -1, -1)
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def _cache(batch: int, length: int, heads: int, d: int, dtype=BF16) -> tuple[torch.Tensor, torch.Tensor]:
    """Return K and V of (batch, tokens, heads, dim)."""
    return e(batch, length, heads, d, dtype=dtype), e(batch, length, heads, d, dtype=dtype)


def _grouped(batch: int, queries: int, keys: int, d: int, *, dv: int = 0, heads: int = 8, kv: int = 2, dtype=BF16):
    shapes = ((batch, heads, queries, d), (batch, kv, keys, d), (batch, kv, keys, dv or d))
    return tuple(e(*shape, dtype=dtype) for shape in shapes)


WALKS: dict[str, tuple[Any, ...]] = {
    "decode": (_decode, e(8, 32, 1, 128), *_cache(8, 4096, 8, 128)),
    "decode_joined": (_lower_right, e(2, 16, 4, 128), e(2, 2, 40, 128), e(2, 2, 40, 128)),
    "decode_whole": (_decode, e(64, 32, 1, 128), *_cache(64, 600, 8, 128)),
    "decode_one_head": (_dense, *_grouped(1, 1, 4096, 64, heads=1, kv=1)),
    "decode_dim_256": (_causal_free, *_grouped(4, 1, 3000, 256)),
    "decode_dims_80_48": (_causal_free, *_grouped(4, 1, 3000, 80, dv=48, dtype=FP16)),
    "decode_queries": (_lower_right, *_grouped(4, 5, 3000, 128)),
    "decode_queries_whole": (_lower_right, *_grouped(64, 3, 500, 64, heads=24, kv=8)),
    "decode_window": (_last_window, *_grouped(4, 6, 3000, 128)),
    "decode_padding": (_grouped_mask, *_grouped(16, 1, 3000, 128), e(16, 1, 1, 3000, dtype=BOOL)),
    "decode_flags": (_grouped_mask, *_grouped(16, 4, 3000, 128), e(16, 1, 4, 3000, dtype=BOOL)),
    "decode_alibi": (_grouped_alibi, *_grouped(4, 3, 3000, 64), e(8, dtype=FP32)),
    "decode_softcap": (_decode_softcap, *_grouped(4, 2, 3000, 128)),
    "decode_lse": (_decode_lse, *_grouped(4, 2, 3000, 128)),
    "decode_lse_whole": (_decode_lse, *_grouped(140, 2, 300, 128)),
    "decode_epilogue": (_grouped_epilogue, *_grouped(4, 2, 3000, 128), e(4, 8, 2, 128)),
    "decode_epilogue_whole": (_grouped_epilogue, *_grouped(140, 2, 300, 128), e(140, 8, 2, 128)),
    "decode_lengths": (_cached_lengths, e(16, 32, 1, 128), *_cache(16, 3000, 8, 128), e(16, dtype=torch.int32)),
    "decode_lengths_whole": (_cached_lengths, e(132, 16, 1, 64), *_cache(132, 600, 2, 64), e(132, dtype=torch.int64)),
    "decode_last_queries": (_last_queries, e(9, 16, 3, 128), *_cache(9, 2000, 4, 128), e(9, dtype=torch.int32)),
    "decode_lengths_mask": (
        *(_lengths_and_mask, e(9, 16, 1, 128), *_cache(9, 2000, 4, 128)),
        *(e(9, dtype=torch.int32), e(9, 2000, dtype=BOOL)),
    ),
    "decode_pages_16": (
        *(_pages, e(16, 32, 1, 128), *_pool(3000, 16, 8, 128)),
        *(e(16, 128, dtype=torch.int32), e(16, dtype=torch.int32)),
    ),
    "decode_pages_64": (_pages_alone, e(9, 16, 1, 64), *_pool(500, 64, 4, 64), e(9, 30, dtype=torch.int32)),
    "decode_pages_256": (
        *(_pages_heads_first, e(9, 16, 3, 128), e(99, 4, 256, 128), e(99, 4, 256, 128)),
        *(e(9, 7, dtype=torch.int64), e(9, dtype=torch.int64)),
    ),
    "decode_shared_keys": (_shared_keys, e(16, 8, 1, 128), e(1, 2, 2000, 128), e(16, 2, 2000, 128)),
    "decode_shared": (_shared, e(16, 8, 1, 128), e(1, 2, 2000, 128), e(1, 2, 2000, 128)),
}
FUNCTIONS |= WALKS
TILES = tuple(name for name in FUNCTIONS if name not in WALKS)
NAMES = tuple(FUNCTIONS)


@cache
def made_of(name: str) -> dict[str, object]:
    """Return what each stage makes of a spec."""
    reference, *tensors = FUNCTIONS[name]
    spec = replace(spec_from_callable(reference, tuple(tensors), name=name), fixed=FIXED.get(name, ()))
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
