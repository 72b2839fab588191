"""What `attention.py` measures: shapes, references and peers of prefill attention, on (batch, tokens, heads, dim)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

Tensors = tuple[torch.Tensor, ...]
TOKENS = 16384  # of all sequences together


@dataclass(frozen=True, slots=True)
class Row:
    """One shape: as many sequences of `length` tokens as make TOKENS."""

    length: int
    heads: int
    kv_heads: int
    d: int
    causal: bool

    @property
    def batch(self) -> int:
        return TOKENS // self.length

    @property
    def flops(self) -> float:
        """Operations of both products; those of a causal row count half, as its peers' authors count."""
        return 4.0 * self.batch * self.heads * self.length**2 * self.d * (0.5 if self.causal else 1.0)

    @property
    def bytes(self) -> int:
        """Bytes of Q, K, V and the result."""
        return 2 * TOKENS * self.d * 2 * (self.heads + self.kv_heads)

    def tensors(self, seed: int) -> Tensors:
        """Return random Q, K and V in bf16."""
        generator = torch.Generator("cuda").manual_seed(seed)

        def draw(heads: int) -> torch.Tensor:
            shape = (self.batch, self.length, heads, self.d)
            return torch.randn(shape, generator=generator, device="cuda", dtype=torch.bfloat16)

        return draw(self.heads), draw(self.kv_heads), draw(self.kv_heads)

    def reference(self) -> Callable[..., torch.Tensor]:
        """Return torch's own operation."""
        causal, grouped = self.causal, self.heads != self.kv_heads

        def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=grouped).transpose(1, 2)

        return attention

    def peers(self) -> dict[str, Callable[..., Any]]:
        """Return cuDNN's kernel and, where it is installed, FlashAttention-4."""
        reference = self.reference()

        def cudnn(*tensors: torch.Tensor) -> torch.Tensor:
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                return reference(*tensors)

        found: dict[str, Callable[..., Any]] = {"cudnn": cudnn}
        try:
            from flash_attn.cute import flash_attn_func
        except ImportError:
            return found

        def flash(*tensors: torch.Tensor) -> torch.Tensor:
            out = flash_attn_func(*tensors, causal=self.causal)
            return out[0] if isinstance(out, tuple) else out

        return {**found, "fa4": flash}

    def __str__(self) -> str:
        heads = f"{self.heads}/{self.kv_heads}" if self.heads != self.kv_heads else str(self.heads)
        return f"S{self.length} d{self.d} h{heads} {'causal' if self.causal else 'dense'}"


LENGTHS = (1024, 4096, 16384)
PREFILL = tuple(Row(length, 16, 16, 128, causal) for length in LENGTHS for causal in (False, True))
DIMS = tuple(Row(4096, 2048 // d, 2048 // d, d, causal) for d in (64, 256) for causal in (False, True))
GROUPED = tuple(Row(length, 32, 8, 128, causal) for length in (4096,) for causal in (False, True))
ROWS = (*PREFILL, *DIMS, *GROUPED)
