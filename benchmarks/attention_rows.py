"""What `attention.py` measures: shapes, references and peers of prefill and decode, on (batch, tokens, heads, dim)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

Tensors = tuple[torch.Tensor, ...]
TOKENS = 16384  # of all sequences together


@dataclass(frozen=True, slots=True)
class Row:
    """One shape: `batch` sequences of `length` keys, and as many queries or one; FLOP or bytes are what counts."""

    length: int
    heads: int
    kv_heads: int
    d: int
    causal: bool
    batch: int
    queries: int
    page: int = 0  # keys of a page of K and V, which a random table says the order of; 0: no pages

    @property
    def is_decode(self) -> bool:
        return self.queries == 1

    @property
    def flops(self) -> float:
        """Operations of both products; those of a causal row count half, as its peers' authors count."""
        return 4.0 * self.batch * self.heads * self.queries * self.length * self.d * (0.5 if self.causal else 1.0)

    def speed(self, time_us: float) -> float:
        """Return TFLOP/s, or for one query per sequence TB/s of K and V."""
        return (self.cache_bytes if self.is_decode else self.flops) / time_us / 1e6

    @property
    def cache_bytes(self) -> int:
        """Bytes of K and V."""
        return 2 * self.batch * self.length * self.kv_heads * self.d * 2

    @property
    def bytes(self) -> int:
        """Bytes of Q, K, V and the result."""
        return self.cache_bytes + 2 * self.batch * self.queries * self.heads * self.d * 2

    def tensors(self, seed: int) -> Tensors:
        """Return random Q, K and V in bf16."""
        generator = torch.Generator("cuda").manual_seed(seed)

        def draw(tokens: int, heads: int) -> torch.Tensor:
            shape = (self.batch, tokens, heads, self.d)
            return torch.randn(shape, generator=generator, device="cuda", dtype=torch.bfloat16)

        q, k, v = draw(self.queries, self.heads), draw(self.length, self.kv_heads), draw(self.length, self.kv_heads)
        if not self.page:
            return q, k, v
        pages = self.batch * self.length // self.page
        table = torch.randperm(pages, generator=generator, device="cuda").to(torch.int32).view(self.batch, -1)
        return q, *(x.view(pages, self.page, self.kv_heads, self.d) for x in (k, v)), table

    def reference(self) -> Callable[..., torch.Tensor]:
        """Return torch's own operation."""
        causal, grouped = self.causal, self.heads != self.kv_heads

        def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=grouped).transpose(1, 2)

        def paged(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
            return attention(q, *(x[table].flatten(1, 2) for x in (k, v)))

        return paged if self.page else attention

    def unpaged(self, kernel: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        """Return a kernel of the same row without pages as one that takes the pages as they lie."""

        def run(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
            shape = (self.batch, self.length, self.kv_heads, self.d)
            return kernel(q, k.view(shape), v.view(shape))

        return run

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
        if self.is_decode:
            pages = f"pages of {self.page}" if self.page else "decode"
            return f"B{self.batch} S{self.length} h{heads} {pages}"
        return f"S{self.length} d{self.d} h{heads} {'causal' if self.causal else 'dense'}"


def _prefill(length: int, heads: int, kv_heads: int, d: int, causal: bool) -> Row:
    """Return the row of as many sequences as make TOKENS."""
    return Row(length, heads, kv_heads, d, causal, batch=TOKENS // length, queries=length)


LENGTHS = (1024, 4096, 16384)
PREFILL = tuple(_prefill(length, 16, 16, 128, causal) for length in LENGTHS for causal in (False, True))
DIMS = tuple(_prefill(4096, 2048 // d, 2048 // d, d, causal) for d in (64, 256) for causal in (False, True))
GROUPED = tuple(_prefill(length, 32, 8, 128, causal) for length in (4096,) for causal in (False, True))
DECODE = tuple(
    Row(length, 32, 8, 128, causal=False, batch=batch, queries=1)
    for batch, length in ((64, 8192), (8, 32768), (128, 2048))
)
PAGED = tuple(replace(row, page=page) for row in DECODE[:2] for page in (16, 64, 256))
ROWS = (*PREFILL, *DIMS, *GROUPED)
CANDIDATES = (PREFILL[3], DIMS[0], DIMS[3], DECODE[0])  # of different kinds: whose legal candidates are compared
