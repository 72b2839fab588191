"""The rows that memory-bound kernels are measured on: an operation, an element type and a shape, with their bars."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

ROW_SHAPES = ((65536, 256), (32768, 1024), (32768, 4096), (16384, 8192), (8192, 32768), (2048, 131072))
COPY_BAR, COPY_ELEMENTS, COPY_BYTES = 0.93, 1024, 256 * 2**20  # of rows at least that long, with that much traffic
BEST = "better of eager and torch.compile"
Make = Callable[..., torch.Tensor]


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Of rows."""
    return torch.softmax(x, -1)


def rmsnorm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Of rows, with a weight."""
    return F.rms_norm(x, (x.shape[-1],), w, 1e-6)


def layernorm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Of rows, with weight and bias."""
    return F.layer_norm(x, (x.shape[-1],), w, b, 1e-5)


def row_sum(x: torch.Tensor) -> torch.Tensor:
    """One number per row."""
    return x.sum(-1)


def silu_mul(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Two reads, one write."""
    return F.silu(x) * y


def column_sum(x: torch.Tensor) -> torch.Tensor:
    """One number per column."""
    return x.sum(0)


def full_sum(x: torch.Tensor) -> torch.Tensor:
    """One number."""
    return x.sum()


def argmax(x: torch.Tensor) -> torch.Tensor:
    """One index per row."""
    return x.argmax(-1)


def cumsum(x: torch.Tensor) -> torch.Tensor:
    """Along rows."""
    return x.cumsum(-1)


def cross_entropy(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    """The mean over rows of logits."""
    return F.cross_entropy(x, t)


def group_norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Of 32 groups of channels."""
    return F.group_norm(x, 32, w, b)


def batch_norm(
    x: torch.Tensor, mean: torch.Tensor, var: torch.Tensor, w: torch.Tensor, b: torch.Tensor
) -> torch.Tensor:
    """With the statistics of the batch; updates the running ones."""
    return F.batch_norm(x, mean, var, w, b, True, 0.1, 1e-5)


@dataclass(frozen=True, slots=True)
class Op:
    """A reference, its arguments after x (what they hold, and along which axis they lie), and x's values."""

    function: Callable[..., torch.Tensor]
    shapes: tuple[tuple[int, ...], ...]
    more: tuple[tuple[str, str], ...] = ()
    values: str = "normal"
    is_row: bool = True  # its rows can be held on chip: one read and one write are enough


OPS = {
    "softmax": Op(softmax, ROW_SHAPES),
    "rmsnorm": Op(rmsnorm, ROW_SHAPES, (("normal", "row"),)),
    "layernorm": Op(layernorm, ROW_SHAPES, (("normal", "row"), ("normal", "row"))),
    "sum": Op(row_sum, ROW_SHAPES),
    "silu_mul": Op(silu_mul, ROW_SHAPES, (("normal", "whole"),)),
    "column_sum": Op(column_sum, ((65536, 4096),), is_row=False),
    "full_sum": Op(full_sum, ((32768, 32768),), values="uniform", is_row=False),
    "argmax": Op(argmax, ((32768, 4096),)),
    "cumsum": Op(cumsum, ((32768, 4096),), values="uniform"),
    "cross_entropy": Op(cross_entropy, ((8192, 128256),), (("class", "first"),)),
    "group_norm": Op(group_norm, ((128, 512, 64, 64),), (("normal", "channel"), ("normal", "channel"))),
    "batch_norm": Op(
        batch_norm,
        ((64, 64, 512, 512),),
        (("normal", "channel"), ("uniform", "channel"), ("normal", "channel"), ("normal", "channel")),
        is_row=False,
    ),
}
ROW_OPS = ("softmax", "rmsnorm", "layernorm", "sum", "silu_mul")
OTHER_OPS = tuple(op for op in OPS if op not in ROW_OPS)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    op: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def name(self) -> str:
        """As options select it."""
        return f"{self.op}.{self.dtype}.{'x'.join(map(str, self.shape))}"

    @property
    def function(self) -> Callable[..., torch.Tensor]:
        """The reference."""
        return OPS[self.op].function

    def tensors(self, make: Make) -> tuple[torch.Tensor, ...]:
        """Return the arguments; `make(values, shape, dtype, bound)` draws one."""
        op, dtype = OPS[self.op], getattr(torch, self.dtype)
        sides = {"row": self.shape[-1:], "first": self.shape[:1], "channel": self.shape[1:2], "whole": self.shape}
        more = [
            make(values, sides[side], torch.int64 if values == "class" else dtype, self.shape[-1])
            for values, side in op.more
        ]
        return (make(op.values, self.shape, dtype, 0), *more)

    def bars(self) -> tuple[tuple[str, float], ...]:
        """Return which peers it has to reach, and how nearly."""
        if self.op in OTHER_OPS or self.dtype != "bfloat16":
            return ((BEST, 1.0),)
        if self.op in ("softmax", "rmsnorm"):
            return (("quack", 1.0), ("torch.compile", 1.0))
        return ((BEST, 0.99),) if self.op == "silu_mul" else (("torch.compile", 1.0),)

    def copy_bar(self, traffic: int) -> float | None:
        """Return the share of the copy bandwidth that is asked for, if any; `traffic` in bytes."""
        wanted = OPS[self.op].is_row and self.shape[-1] >= COPY_ELEMENTS and traffic >= COPY_BYTES
        return COPY_BAR if wanted else None


def on_gpu(seed: int) -> Make:
    """Return what draws tensors on the GPU."""
    generator = torch.Generator("cuda").manual_seed(seed)

    def make(values: str, shape: tuple[int, ...], dtype: torch.dtype, bound: int) -> torch.Tensor:
        if values == "class":
            return torch.randint(0, bound, shape, generator=generator, device="cuda")
        draw: Any = torch.rand if values == "uniform" else torch.randn
        return draw(shape, generator=generator, device="cuda", dtype=dtype)

    return make


def on_cpu(values: str, shape: tuple[int, ...], dtype: torch.dtype, bound: int) -> torch.Tensor:
    """Return a tensor of which only the type is read; its memory is never touched."""
    return torch.empty(shape, dtype=dtype)


GROUPS: dict[str, tuple[Row, ...]] = {
    "1": tuple(Row(op, "bfloat16", shape) for op in ROW_OPS for shape in OPS[op].shapes),
    "3": (
        *(Row(op, "bfloat16", shape) for op in OTHER_OPS for shape in OPS[op].shapes),
        *(Row(op, dtype, (16384, 8192)) for dtype in ("float32", "float16") for op in ROW_OPS),
    ),
    "wide": (
        *(Row(op, d, shape) for d in ("float32", "float16") for op in OTHER_OPS for shape in OPS[op].shapes),
        *(
            Row(op, d, shape)
            for d in ("float32", "float16")
            for op in ROW_OPS
            for shape in OPS[op].shapes
            if shape != (16384, 8192)
        ),
    ),
}


def peers(row: Row) -> tuple[str, ...]:
    """Return who else has the operation."""
    return (*(("quack",) if row.op in ("softmax", "rmsnorm") else ()), "eager", "torch.compile")
