"""Random spellings of attention: how people write one, drawn part by part, each with its inputs."""

import math
import random
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from spellings import BF16, FP32, t

INF = float("inf")
LAYOUTS = ("bhsd", "bshd", "packed", "packed_heads")
HEADS = ("equal", "sdpa", "repeat_interleave", "expand", "groups")
PRODUCTS = ("matmul", "einsum", "bmm")
SCALES = ("after", "divided", "query", "none")
SCORES = ("none", "softcap", "alibi", "bias")
MASKS = ("none", "causal", "causal_filled", "bool", "padding", "added", "window")
SOFTMAXES = ("softmax", "fp32", "by_hand", "divided_after", "logsumexp")
OUTPUTS = ("heads", "tokens", "features", "relu")


@dataclass(frozen=True)
class Spelling:
    """One way to write an attention of `batch` sequences; `ratio` heads of Q share one of K and V."""

    layout: str
    heads: str
    product: str
    scale: str
    score: str
    mask: str
    softmax: str
    output: str
    sizes: tuple[int, int, int, int, int, int]  # batch, kv heads, queries, keys, d, dv
    ratio: int
    dtype: torch.dtype

    @property
    def is_op(self) -> bool:
        """Whether torch's own operation writes it."""
        return self.heads == "sdpa"

    def __str__(self) -> str:
        sizes = "x".join(map(str, self.sizes))
        parts = (self.layout, self.heads, self.product, self.scale, self.score, self.mask, self.softmax, self.output)
        return "-".join((*parts, sizes, str(self.ratio), str(self.dtype).removeprefix("torch.")))

    def __call__(self, q, k, v, *more):
        """Compute it; `more` are the mask or bias tensors."""
        q, k, v = self.unpacked(q, k, v)
        extra = list(more)
        if self.is_op:
            return self.written(self.op(q, k, v, extra))
        if self.heads == "groups":
            q = q.unflatten(1, (k.shape[1], self.ratio))
            k, v = k.unsqueeze(2), v.unsqueeze(2)
        elif self.ratio > 1:
            k, v = (self.repeated(x) for x in (k, v))
        found = self.softmaxed(self.masked(self.scored(self.scores(q, k), extra), extra), v)
        if self.heads == "groups":
            found = (found[0].flatten(1, 2), *found[1:])
        return self.written(*found)

    def unpacked(self, q, k, v):
        """Return q, k and v as (batch, heads, tokens, dim)."""
        if self.layout == "bhsd":
            return q, k, v
        if self.layout == "bshd":
            return q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        if self.layout == "packed":  # one projection for all three, q alone in the argument q
            q, k, v = (x.transpose(1, 2) for x in q.unbind(2))
            return q, k, v
        d = self.sizes[4]
        k, v = k.split([self.sizes[1] * d, self.sizes[1] * self.sizes[5]], -1)
        kv = (x.unflatten(-1, (self.sizes[1], -1)).transpose(1, 2) for x in (k, v))
        return q.unflatten(-1, (-1, d)).transpose(1, 2), *kv

    def repeated(self, x):
        if self.heads == "repeat_interleave":
            return x.repeat_interleave(self.ratio, dim=1)
        b, h, s, d = x.shape
        return x[:, :, None].expand(b, h, self.ratio, s, d).reshape(b, h * self.ratio, s, d)

    def op(self, q, k, v, extra):
        options = {"is_causal": True} if self.mask in ("causal", "causal_filled", "window") else {}
        if extra and self.mask in ("bool", "padding", "added"):
            options["attn_mask"] = extra[-1]
        scale = 0.31 if self.scale == "query" else None
        return F.scaled_dot_product_attention(q, k, v, scale=scale, enable_gqa=self.ratio > 1, **options)

    def scores(self, q, k):
        d = q.shape[-1]
        q = q * 0.25 if self.scale == "query" else q
        if self.product == "einsum" and self.heads != "groups":
            s = torch.einsum("bhqd,bhkd->bhqk", q, k)
        elif self.product == "bmm" and self.heads != "groups":
            s = torch.bmm(q.flatten(0, 1), k.flatten(0, 1).transpose(1, 2)).unflatten(0, q.shape[:2])
        else:
            s = q @ k.transpose(-2, -1)
        if self.scale == "divided":
            return s / math.sqrt(d)
        return s * d**-0.5 if self.scale == "after" else s

    def scored(self, s, extra):
        if self.score == "softcap":
            return torch.tanh(s / 5.0) * 5.0
        if self.score == "alibi":
            distance = torch.arange(s.shape[-1]) - torch.arange(s.shape[-2])[:, None]
            slopes = extra[0].view(-1, self.ratio, 1, 1) if self.heads == "groups" else extra[0].view(-1, 1, 1)
            return s + slopes * distance
        return s + extra[0] if self.score == "bias" else s

    def masked(self, s, extra):
        rows, columns = torch.arange(s.shape[-2])[:, None], torch.arange(s.shape[-1])
        match self.mask:
            case "causal":
                return s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool).triu(1), -INF)
            case "causal_filled":
                return torch.where(rows >= columns, s, -INF)
            case "window":
                return torch.where((rows >= columns) & (rows - columns < 3), s, -INF)
            case "bool":
                return s.masked_fill(~extra[-1], -INF)
            case "padding":
                mask = extra[-1].unsqueeze(1) if s.dim() == 5 else extra[-1]
                return s.masked_fill(mask.logical_not(), -INF)
            case "added":
                return s + extra[-1]
        return s

    def softmaxed(self, s, v):
        match self.softmax:
            case "softmax":
                return (s.softmax(-1).to(v.dtype) @ v,)
            case "fp32":
                return (F.softmax(s, dim=-1, dtype=torch.float32).to(v.dtype) @ v,)
            case "by_hand":
                e = torch.exp(s - s.amax(-1, keepdim=True))
                return ((e / e.sum(-1, keepdim=True)).to(v.dtype) @ v,)
            case "divided_after":
                e = torch.exp(s - s.max(-1, keepdim=True).values)
                return ((e.to(v.dtype) @ v) / e.sum(-1, keepdim=True),)
        return s.softmax(-1).to(v.dtype) @ v, torch.logsumexp(s, -1)

    def written(self, out, *more):
        match self.output:
            case "tokens":
                out = out.transpose(1, 2)
            case "features":
                out = out.transpose(1, 2).reshape(out.shape[0], out.shape[2], -1)
            case "relu":
                out = out.relu() * 2
        return (out, *more) if more else out


def drawn(seed: int) -> tuple[Spelling, tuple[torch.Tensor, ...]]:
    """Return a spelling and its inputs."""
    r = random.Random(seed)
    layout, heads = r.choice(LAYOUTS), r.choice(HEADS)
    batch, kv, d = r.randint(1, 3), r.randint(1, 3), r.choice((2, 3, 5, 8))
    ratio = 1 if heads == "equal" or layout == "packed" else r.randint(1, 3)
    rows = r.choice((2, 3, 5) if layout == "packed" else (1, 2, 3, 5))
    keys = rows if layout == "packed" else r.choice((2, 3, 7))
    dv = d if layout == "packed" else r.choice((1, 3, d))
    score = "none" if heads == "sdpa" else r.choice(SCORES)
    sizes, dtype = (batch, kv, rows, keys, d, dv), r.choice((FP32, FP32, BF16))
    spelling = Spelling(
        layout, heads, r.choice(PRODUCTS), r.choice(SCALES), score, r.choice(MASKS), r.choice(SOFTMAXES),
        r.choice(OUTPUTS), sizes, ratio, dtype,
    )  # fmt: skip
    return spelling, (*operands(spelling, seed), *masks(spelling, seed))


def operands(spelling: Spelling, seed: int) -> tuple[torch.Tensor, ...]:
    """Return q, k and v in the layout of a spelling."""
    (batch, kv, rows, keys, d, dv), dtype = spelling.sizes, spelling.dtype
    heads = kv * spelling.ratio
    shapes = {
        "bhsd": ((batch, heads, rows, d), (batch, kv, keys, d), (batch, kv, keys, dv)),
        "bshd": ((batch, rows, heads, d), (batch, keys, kv, d), (batch, keys, kv, dv)),
        "packed": ((batch, rows, 3, heads, d), (1,), (1,)),
        "packed_heads": ((batch, rows, heads * d), (batch, keys, kv * (d + dv)), (1,)),
    }[spelling.layout]
    return tuple(t(*shape, dtype=dtype, seed=seed + 7 * i) for i, shape in enumerate(shapes))


def masks(spelling: Spelling, seed: int) -> list[torch.Tensor]:
    """Return the tensors of bias and mask; explicit spellings keep a key in each row, for NaN compares to nothing."""
    batch, kv, rows, keys, *_ = spelling.sizes
    heads, found = kv * spelling.ratio, []
    if spelling.score == "alibi":
        found.append(t(heads, seed=seed).abs())
    elif spelling.score == "bias":
        found.append(t(rows, keys, seed=seed))
    keep = t(rows, keys, dtype=torch.bool, seed=seed)
    if not spelling.is_op:
        keep[:, 0] = True
    if spelling.mask == "bool":
        found.append(keep)
    elif spelling.mask == "added":
        found.append(torch.where(keep, t(rows, keys), -INF).to(spelling.dtype))
    elif spelling.mask == "padding":
        found.append(keep[:1].expand(batch, keys).clone()[:, None, None, :])
    return found
