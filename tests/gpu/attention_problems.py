"""Random attentions: problem `index` is the same in every run, and is a text and a list of tensors.

The first PREFILL have any number of queries, the others few: a decoding step over a cache, from DECODE on with a
length for each sequence, or with the pages of a cache; from VARLEN on any number of queries again, with
lengths, or with sequences behind one another; from ODD on operands lie as TMA cannot load them. How it is written, its
mask, what scores are modified with, layouts and ratios turn at different speeds, so that the problems meet most pairs;
lengths, dims and the rest are drawn from a generator seeded with the index.
"""

import linecache
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from problems import Operand

PREFILL = 60
DECODE = 84
VARLEN = 108
ODD = 126
COUNT = 138
DIMS = (64, 128, 80, 96, 256, 40, 192, 72, 128, 64, 160)
RATIOS = (1, 2, 1, 8, 4)
LAYOUTS = ("heads", "tokens", "packed", "padded")
MASKS = ("none", "causal", "window", "bool", "added", "padding", "dead_rows")
SCORES = ("none", "softcap", "none", "alibi", "bias")
DTYPES = ("bfloat16", "bfloat16", "float16")
_OF_OP = ("none", "causal", "bool", "added", "dead_rows")  # masks that torch's own operation takes


@dataclass(frozen=True, slots=True)
class AttentionProblem:
    """A reference as text, and its operands in the order of the arguments."""

    index: int
    words: str
    operands: tuple[Operand, ...]
    lines: tuple[str, ...]

    @property
    def source(self) -> str:
        """The reference."""
        arguments = ", ".join(operand.name for operand in self.operands)
        return "\n".join([f"def reference({arguments}):", *(f"    {line}" for line in self.lines), ""])

    def reference(self) -> Callable[..., Any]:
        """Return the reference as a function whose text tracebacks can show."""
        file = f"<attention {self.index}>"
        linecache.cache[file] = (len(self.source), None, self.source.splitlines(keepends=True), file)
        names: dict[str, Any] = {"torch": torch, "F": F}
        exec(compile(self.source, file, "exec"), names)
        function: Callable[..., Any] = names["reference"]
        return function

    def make(self, device: str) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return each operand and the storage it lies in; masks are drawn as flags."""
        made = [operand.make(device, 100 * self.index + place) for place, operand in enumerate(self.operands)]
        return [
            _flags(*one)
            if operand.name == "mask"
            else _counted(one[0], int(operand.scale), ascend=operand.name == "ids")
            if operand.name in ("lengths", "table", "ids", "numbers")
            else one
            for operand, one in zip(self.operands, made, strict=True)
        ]

    def __str__(self) -> str:
        return f"attention {self.index}: {self.words}"


def _flags(view: torch.Tensor, base: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a mask of drawn bytes as one of flags, three of four true."""
    flags = (view.to(torch.int32) % 4) != 0
    return flags, flags


def _counted(view: torch.Tensor, limit: int, *, ascend: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Return drawn bytes as whole numbers below a limit."""
    numbers = ((view.long() + 128) * 7919 % limit).to(view.dtype)
    numbers = numbers.sort().values if ascend else numbers
    return numbers, numbers


@dataclass(frozen=True, slots=True)
class _Sizes:
    batch: int
    kv_heads: int
    ratio: int
    queries: int
    keys: int
    d: int
    dv: int

    @property
    def heads(self) -> int:
        return self.kv_heads * self.ratio


def problem(index: int) -> AttentionProblem:
    """Return the problem of that index."""
    rng = random.Random(index)
    if index >= ODD:
        return _odd(index, rng)
    if index >= VARLEN:
        return _varlen(index, rng)
    if index >= DECODE:
        return _measured(index, rng)
    if index >= PREFILL:
        return _decode(index, rng)
    sizes = _draw(index, rng)
    layout, mask = LAYOUTS[index % len(LAYOUTS)], MASKS[index % len(MASKS)]
    score, dtype = SCORES[index // 2 % len(SCORES)], DTYPES[index % len(DTYPES)]
    if layout == "packed":
        tokens = max(sizes.queries, 2)
        sizes = _Sizes(sizes.batch, sizes.kv_heads, 1, tokens, tokens, sizes.d, sizes.d)
    is_op = mask in _OF_OP and index % 2 == 0
    score = "none" if is_op else score
    operands, lines = _operands(layout, sizes, dtype, rng)
    lines += _op(mask, sizes, operands, dtype) if is_op else _spelled(mask, score, index, sizes, operands, dtype)
    words = ", ".join(("op" if is_op else "spelled", layout, mask, score, dtype, str(sizes)))
    return AttentionProblem(index, words, tuple(operands), tuple(lines))


def _draw(index: int, rng: random.Random) -> _Sizes:
    d = DIMS[index % len(DIMS)]
    dv = rng.choice((64, 48, 128)) if index % 5 == 4 else d
    queries = rng.choice((1, 17, 64, rng.randint(65, 300), rng.randint(300, 1100)))
    keys = queries if index % 3 == 0 else rng.choice((5, 128, rng.randint(16, 300), rng.randint(300, 1500)))
    return _Sizes(rng.randint(1, 3), rng.randint(1, 3), RATIOS[index % len(RATIOS)], queries, max(keys, 2), d, dv)


def _operands(layout: str, s: _Sizes, dtype: str, rng: random.Random) -> tuple[list[Operand], list[str]]:
    """Return Q, K and V, and the lines that make q, k and v of (batch, heads, tokens, dim)."""
    tokens = ((s.queries, s.heads, s.d), (s.keys, s.kv_heads, s.d), (s.keys, s.kv_heads, s.dv))
    if layout == "packed":
        shape = (s.batch, s.queries, 3, s.heads, s.d)
        return [Operand("x", shape, dtype)], ["q, k, v = (t.transpose(1, 2) for t in x.unbind(2))"]
    if layout == "tokens":
        made = [Operand(name, (s.batch, *shape), dtype) for name, shape in zip("qkv", tokens, strict=True)]
        return made, ["q, k, v = (t.transpose(1, 2) for t in (q, k, v))"]
    pad = 8 * rng.randint(1, 4) if layout == "padded" else 0
    shapes = [(s.batch, heads, length, dim) for length, heads, dim in tokens]
    return [Operand(name, shape, dtype, pad=pad) for name, shape in zip("qkv", shapes, strict=True)], []


def _masked(mask: str, s: _Sizes, operands: list[Operand], dtype: str) -> None:
    """Add the operand that a mask is read from."""
    shapes = {
        "bool": (s.batch, 1, s.queries, s.keys),
        "dead_rows": (s.queries, s.keys),
        "padding": (s.batch, 1, 1, s.keys),
    }
    if mask in shapes:
        operands.append(Operand("mask", shapes[mask], "int8"))
    elif mask == "added":
        operands.append(Operand("added", (s.heads, s.queries, s.keys), dtype))


def _op(mask: str, s: _Sizes, operands: list[Operand], dtype: str) -> list[str]:
    """Return torch's own operation."""
    _masked(mask, s, operands, dtype)
    options = {"causal": ["is_causal=True"], "added": ["attn_mask=added"], "bool": ["attn_mask=mask"]}.get(mask, [])
    lines = []
    if mask == "dead_rows":
        lines = ["mask = mask & (torch.arange(mask.shape[0], device=q.device) % 3 != 0)[:, None]"]
        options = ["attn_mask=mask"]
    options += ["enable_gqa=True"] if s.ratio > 1 else []
    return [*lines, f"return F.scaled_dot_product_attention({', '.join(['q, k, v', *options])})"]


def _spelled(mask: str, score: str, index: int, s: _Sizes, operands: list[Operand], dtype: str) -> list[str]:
    """Return products and softmax as people spell them out; every fourth returns logsumexp, too."""
    lines = []
    if s.ratio > 1:
        lines.append(f"k, v = (t.repeat_interleave({s.ratio}, dim=1) for t in (k, v))")
    lines.append("s = (q @ k.transpose(-1, -2)).float() * q.shape[-1] ** -0.5")
    if score == "alibi" or mask in ("causal", "window"):
        lines += [
            "rows, columns = (torch.arange(extent, device=q.device) for extent in s.shape[-2:])",
            "distance = columns - rows[:, None]",
        ]
    if score == "softcap":
        lines.append("s = 5.0 * torch.tanh(s / 5.0)")
    elif score == "alibi":
        operands.append(Operand("slopes", (s.heads,), "float32", scale=0.01))
        lines.append("s = s + slopes.view(-1, 1, 1) * distance")
    elif score == "bias":
        operands.append(Operand("bias", (s.queries, s.keys), dtype))
        lines.append("s = s + bias")
    _masked(mask, s, operands, dtype)
    dropped = {"causal": "distance > 0", "window": "(distance > 0) | (distance <= -100)"}
    if mask in dropped:
        lines.append(f"s = s.masked_fill({dropped[mask]}, float('-inf'))")
    elif mask in ("bool", "padding", "dead_rows"):
        lines.append("s = s.masked_fill(~mask, float('-inf'))")
    elif mask == "added":
        lines.append("s = s + added")
    lines.append("out = s.softmax(-1).to(v.dtype) @ v")
    return [*lines, "return out, torch.logsumexp(s, -1)" if index % 4 == 3 else "return out"]


DECODE_MASKS = ("none", "padding", "lower_right", "none", "bool", "window", "dead_rows")
DECODE_RATIOS = (4, 1, 8, 2, 3, 16)
DECODE_QUERIES = (1, 1, 3, 1, 1, 5, 1, 4)
MOST_ELEMENTS = 1 << 24  # of K


def _decode(index: int, rng: random.Random) -> AttentionProblem:
    """Return a problem of few queries on a cache, of (batch, tokens, heads, dim) or with the heads first."""
    n = index - PREFILL
    queries, ratio = DECODE_QUERIES[n % len(DECODE_QUERIES)], DECODE_RATIOS[n % len(DECODE_RATIOS)]
    d, kv_heads = DIMS[n % len(DIMS)], rng.choice((1, 2, 8))
    keys = rng.choice((2, 63, 512, *(rng.randint(500, 5000) for _ in range(4))))
    batch = min(rng.choice((1, 2, 7, rng.randint(30, 150))), max(MOST_ELEMENTS // (keys * kv_heads * d), 1))
    sizes = _Sizes(batch, kv_heads, ratio, queries, max(keys, queries), d, rng.choice((d, d, 64)))
    layout, mask = ("tokens", "heads", "padded")[n % 3], DECODE_MASKS[n % len(DECODE_MASKS)]
    dtype, is_op = DTYPES[n % len(DTYPES)], mask != "window" and n % 4 != 3
    score = "none" if is_op else ("softcap", "alibi", "none")[n // 4 % 3]
    operands, lines = _operands(layout, sizes, dtype, rng)
    lines += _decode_op(mask, sizes, operands) if is_op else _decode_spelled(mask, score, sizes, operands, n % 4 == 3)
    words = ", ".join(("decode", "op" if is_op else "spelled", layout, mask, score, dtype, str(sizes)))
    return AttentionProblem(index, words, tuple(operands), tuple(lines))


def _decode_op(mask: str, s: _Sizes, operands: list[Operand]) -> list[str]:
    """Return torch's own operation; the last query sees all keys of a mask of the lower right."""
    shapes = {
        "padding": (s.batch, 1, 1, s.keys),
        "bool": (s.batch, 1, s.queries, s.keys),
        "dead_rows": (s.batch, s.keys),
    }
    lines, options = [], [] if mask == "none" else ["attn_mask=mask"]
    if mask in shapes:
        operands.append(Operand("mask", shapes[mask], "int8"))
    if mask == "dead_rows":
        lines.append("mask = (mask & (torch.arange(mask.shape[0], device=q.device) % 3 != 0)[:, None])[:, None, None]")
    elif mask == "lower_right":
        lines += [
            "rows, columns = (torch.arange(t.shape[-2], device=q.device) for t in (q, k))",
            "mask = columns <= rows[:, None] + (k.shape[-2] - q.shape[-2])",
        ]
    options += ["enable_gqa=True"] if s.ratio > 1 else []
    return [*lines, f"return F.scaled_dot_product_attention({', '.join(['q, k, v', *options])})"]


def _decode_spelled(mask: str, score: str, s: _Sizes, operands: list[Operand], lse: bool) -> list[str]:
    """Return products and softmax as people spell them out, with `lse` logsumexp, too."""
    lines = [f"k, v = (t.repeat_interleave({s.ratio}, dim=1) for t in (k, v))"] if s.ratio > 1 else []
    lines += [
        "s = (q @ k.transpose(-1, -2)).float() * q.shape[-1] ** -0.5",
        "rows, columns = (torch.arange(extent, device=q.device) for extent in s.shape[-2:])",
        "distance = columns - rows[:, None] - (s.shape[-1] - s.shape[-2])",
    ]
    if score == "softcap":
        lines.append("s = 5.0 * torch.tanh(s / 5.0)")
    elif score == "alibi":
        operands.append(Operand("slopes", (s.heads,), "float32", scale=0.01))
        lines.append("s = s + slopes.view(-1, 1, 1) * distance")
    dropped = {"lower_right": "distance > 0", "window": "(distance > 0) | (distance <= -100)"}
    if mask in ("padding", "bool", "dead_rows"):  # a row with no key at all would be NaN
        operands.append(Operand("mask", (s.batch, 1, s.queries if mask == "bool" else 1, s.keys), "int8"))
        lines.append("s = s.masked_fill(~mask, float('-inf'))")
    elif mask in dropped:
        lines.append(f"s = s.masked_fill({dropped[mask]}, float('-inf'))")
    lines.append("out = s.softmax(-1).to(v.dtype) @ v")
    return [*lines, "return out, torch.logsumexp(s, -1)" if lse else "return out"]


PAGE_SIZES = (16, 64, 256)


def _measured(index: int, rng: random.Random) -> AttentionProblem:
    """Return a problem with a length for each sequence; every other one reads its cache through a table of pages."""
    n = index - DECODE
    queries, ratio = DECODE_QUERIES[n % len(DECODE_QUERIES)], DECODE_RATIOS[n % len(DECODE_RATIOS)]
    ratio = min(ratio, 8) if queries > 1 else ratio  # all rows are one tile
    d, kv_heads, dtype = DIMS[n % len(DIMS)], rng.choice((1, 2, 8)), DTYPES[n % len(DTYPES)]
    size = PAGE_SIZES[n // 2 % len(PAGE_SIZES)] if n % 2 else 0
    keys = rng.randint(500, 5000)
    keys = -(-keys // size) * size if size else keys
    batch = min(rng.choice((1, 2, 7, rng.randint(30, 150))), max(MOST_ELEMENTS // (keys * kv_heads * d), 1))
    s = _Sizes(batch, kv_heads, ratio, queries, keys, d, d)
    operands = [Operand("q", (batch, queries, s.heads, d), dtype)]
    whole = "int32" if n % 3 else "int64"
    if size:
        pages = batch * keys // size + 3
        operands += [Operand(name, (pages, size, kv_heads, d), dtype) for name in "kv"]
        operands.append(Operand("table", (batch, keys // size), whole, scale=pages))
        lines = ["k, v = (x[table].flatten(1, 2) for x in (k, v))"]
    else:
        operands += [Operand(name, (batch, keys, kv_heads, d), dtype) for name in "kv"]
        lines = []
    lines += ["q, k, v = (t.transpose(1, 2) for t in (q, k, v))"]
    if n % 7 != 1:
        operands.append(Operand("lengths", (batch,), whole, scale=keys + 1))
        lines += [
            "rows, columns = (torch.arange(t.shape[2], device=q.device) for t in (q, k))",
            "mask = (columns <= lengths[:, None, None] - q.shape[2] + rows[:, None])[:, None]"
            if queries > 1
            else "mask = (columns < lengths[:, None])[:, None, None]",
        ]
    options = (["attn_mask=mask"] if n % 7 != 1 else []) + (["enable_gqa=True"] if ratio > 1 else [])
    lines.append(f"return F.scaled_dot_product_attention({', '.join(['q, k, v', *options])})")
    words = ", ".join(("decode", f"pages of {size}" if size else "lengths", dtype, str(s)))
    return AttentionProblem(index, words, tuple(operands), tuple(lines))


VARLEN_KINDS = ("ids", "lengths", "ids, causal", "behind a cache", "numbers", "lengths, causal")


def _varlen(index: int, rng: random.Random) -> AttentionProblem:
    """Return a problem of any number of queries whose keys a number in memory bounds."""
    n = index - VARLEN
    kind, dtype, d = VARLEN_KINDS[n % len(VARLEN_KINDS)], DTYPES[n % len(DTYPES)], DIMS[n % len(DIMS)]
    whole, ratio = "int64" if n % 4 == 3 else "int32", (1, 4, 2)[n // 2 % 3]
    queries = rng.randint(65, 1500)
    keys = rng.randint(queries, 2000) if kind in ("lengths", "behind a cache") else queries
    s = _Sizes(rng.randint(1, 3), rng.randint(1, 3), ratio, queries, keys, d, d)
    operands, lines = _operands(("heads", "tokens")[n // 6 % 2], s, dtype, rng)
    lines.append("rows, columns = (torch.arange(t.shape[2], device=q.device) for t in (q, k))")
    if kind.startswith(("ids", "numbers")):
        name = kind.partition(",")[0]
        operands.append(Operand(name, (keys,), whole, scale=rng.choice((3, 9, 40))))
        lines.append(f"mask = {name}[:, None] == {name}")
    else:
        operands.append(Operand("lengths", (s.batch,), whole, scale=keys + 1))
        behind = " - q.shape[2] + rows[:, None] + 1" if kind == "behind a cache" else ""
        lines.append(f"mask = (columns < lengths[:, None, None]{behind})[:, None]")
    lines += ["mask = mask & (columns <= rows[:, None])"] if kind.endswith("causal") else []
    options = ", enable_gqa=True" if ratio > 1 else ""
    lines.append(f"return F.scaled_dot_product_attention(q, k, v, attn_mask=mask{options})")
    return AttentionProblem(index, ", ".join(("varlen", kind, dtype, str(s))), tuple(operands), tuple(lines))


ODD_KINDS = ("dim", "V by tokens", "cut", "packed")


def _odd(index: int, rng: random.Random) -> AttentionProblem:
    """Return a problem whose rows are no whole number of 16 bytes, or whose V has its tokens contiguous."""
    n = index - ODD
    kind, dtype = ODD_KINDS[n % len(ODD_KINDS)], DTYPES[n % len(DTYPES)]
    odd = rng.choice((36, 100, 20, 130))
    d = odd if kind in ("dim", "packed") else 64
    queries, keys = rng.choice((1, rng.randint(65, 300))), 8 * rng.randint(4, 100)
    s = _Sizes(rng.randint(1, 3), rng.randint(1, 3), 1, queries, keys, d, d)
    if kind == "packed":
        s = _Sizes(s.batch, s.kv_heads, 1, keys, keys, d, d)
    operands, lines = _operands("packed" if kind == "packed" else "heads", s, dtype, rng)
    if kind == "V by tokens":
        operands[2] = Operand("v", (s.batch, s.kv_heads, d, keys), dtype)
        lines.append("v = v.mT")
    elif kind == "cut":
        operands[1] = Operand("k", (s.batch, s.kv_heads, keys, d + 7), dtype)
        lines.append(f"k = k[..., 3 : {d + 3}]")
    causal = ", is_causal=True" if n % 3 == 1 else ""
    lines.append(f"return F.scaled_dot_product_attention(q, k, v{causal})")
    return AttentionProblem(index, ", ".join(("odd", kind, dtype, str(s))), tuple(operands), tuple(lines))
