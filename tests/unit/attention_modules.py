"""Modules around an attention, as models have them: projections, heads, masks in buffers, norms, residuals."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class MaskedSelfAttention(nn.Module):
    """One projection for q, k and v, split into heads; a softmax that is written out; a projection of the joined heads.

    `mask` says where the causal mask comes from: "ones" and "bool" are buffers of 1 and 0 and of True and False, whose
    values a kernel reads; "made" is built in `forward`, "op" is that of torch's operation.
    """

    def __init__(self, width: int, heads: int, longest: int, mask: str = "ones") -> None:
        super().__init__()
        self.heads, self.mask = heads, mask
        self.project = nn.Linear(width, 3 * width)
        self.join = nn.Linear(width, width)
        self.dropout = nn.Dropout(0.0)
        seen = torch.ones(longest, longest).tril()[None, None]
        self.register_buffer("seen", seen.bool() if mask == "bool" else seen)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        parts = self.project(x).split(width, dim=-1)
        q, k, v = (y.view(batch, tokens, self.heads, width // self.heads).transpose(1, 2) for y in parts)
        y = self.attend(q, k, v).transpose(1, 2).contiguous().view(batch, tokens, width)
        return self.dropout(self.join(y))

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        if self.mask == "op":
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        tokens = q.shape[-2]
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(q.shape[-1]))
        match self.mask:
            case "ones":
                hidden = self.seen[:, :, :tokens, :tokens] == 0
            case "bool":
                hidden = ~self.seen[..., :tokens, :tokens]
            case _:
                hidden = torch.ones(tokens, tokens, dtype=torch.bool, device=q.device).triu(1)
        return self.dropout(F.softmax(scores.masked_fill(hidden, float("-inf")), dim=-1)) @ v


class TransformerBlock(nn.Module):
    """Attention and a wider layer with GELU by its tanh, each behind a norm and beside a residual."""

    def __init__(self, width: int, heads: int, longest: int) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = MaskedSelfAttention(width, heads, longest)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.before(x))
        y = self.widen(self.between(x))
        y = 0.5 * y * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (y + 0.044715 * torch.pow(y, 3.0))))
        return x + self.narrow(y)


class PixelAttention(nn.Module):
    """torch's multi-head attention among the pixels of an image, which it takes tokens first; residual and norm."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.attention, self.norm = nn.MultiheadAttention(channels, heads), nn.LayerNorm(channels)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        batch, channels, height, width = image.shape
        x = image.view(batch, channels, height * width).permute(2, 0, 1)
        y, _ = self.attention(x, x, x)
        return self.norm(y + x).permute(1, 2, 0).view(batch, channels, height, width)


class PlainAttention(nn.Module):
    """torch's operation alone."""

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v)
