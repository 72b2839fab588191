"""The programs of `mixed_programs.py`: functions as text and modules in train mode, matrix products among loops."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from program_model import LIMITS, Program, ProgramTensor
from torch import nn

BF16, FP16, FP32 = "bfloat16", "float16", "float32"


class LinearGroupNormMin(nn.Module):
    """A product, a group norm and the least value of each row."""

    def __init__(self) -> None:
        super().__init__()
        self.gemm, self.norm = nn.Linear(257, 96), nn.GroupNorm(8, 96)
        self.bias = nn.Parameter(torch.linspace(-1, 1, 96).reshape(1, 96, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what the layers make of x."""
        return torch.min(self.norm(self.gemm(x)), dim=1, keepdim=True)[0] + self.bias


class LinearBatchNorm(nn.Module):
    """A product and a batch norm that keeps running statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.gemm, self.norm = nn.Linear(130, 64), nn.BatchNorm1d(64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what the layers make of x."""
        return F.relu(self.norm(self.gemm(x)))


class LayerNormMlp(nn.Module):
    """Two products behind a layer norm, added to what came in."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(128)
        self.layers = nn.Sequential(nn.Linear(128, 320), nn.GELU(), nn.Linear(320, 128))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what the layers make of x."""
        return x + self.layers(self.norm(x))


class LinearSigmoidLogsumexp(nn.Module):
    """Two products, a sum of sigmoids between them, and a logsumexp of all."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(100, 200), nn.Linear(200, 50)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what the layers make of x."""
        return torch.logsumexp(torch.sigmoid(self.second(torch.sigmoid(self.first(x)))), dim=1)


@dataclass(frozen=True, slots=True)
class Mixed:
    """A program: a function as text, or a module whose parameters are drawn from a seed; and its inputs."""

    index: int
    name: str
    tensors: tuple[ProgramTensor, ...]
    lines: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    module: Callable[[], nn.Module] | None = None

    @property
    def program(self) -> Program:
        """The function and the inputs."""
        return Program(1000 + self.index, self.name, self.tensors, self.lines, self.results)

    @property
    def limit(self) -> float:
        """The rel_err that its coarsest float type allows; sums of products of fp32 are in another order."""
        limit = self.program.limit if self.lines else max(LIMITS.get(t.dtype, 0.0) for t in self.tensors)
        return max(limit, 2e-5)

    def reference(self, device: str) -> Callable[..., Any]:
        """Return the function, or the module in train mode; the same parameters every time."""
        if self.module is None:
            return self.program.reference()
        torch.manual_seed(self.index)
        return self.module().to(device, getattr(torch, self.tensors[0].dtype)).train()

    def __str__(self) -> str:
        return f"{self.index:2} {self.name}: {'; '.join(map(str, self.tensors))}"


def state_of(reference: Callable[..., Any]) -> list[torch.Tensor]:
    """Return the buffers of a module; a function has none."""
    return [*reference.buffers()] if isinstance(reference, nn.Module) else []


def in_float64(reference: Callable[..., Any]) -> Callable[..., Any]:
    """Return a copy of a module in float64; a function computes in the type of its inputs."""
    return copy.deepcopy(reference).double() if isinstance(reference, nn.Module) else reference


def _t(
    name: str, dtype: str, *shape: int, values: str = "normal", layout: str = "dense", updated: bool = False
) -> ProgramTensor:
    return ProgramTensor(name, shape, dtype, values, layout, updated=updated)


def _weights(dtype: str, count: int, outer: int, inner: int) -> tuple[ProgramTensor, ProgramTensor]:
    return _t(f"w{count}", dtype, outer, inner, values="share"), _t(f"b{count}", dtype, outer)


def _layers(dtype: str, rows: int, k: int, n: int, out: int) -> tuple[ProgramTensor, ...]:
    w1, b1 = _weights(dtype, 1, n, k)
    w2, b2 = _weights(dtype, 2, out, n)
    return _t("x", dtype, rows, k), w1, b1, _t("g", dtype, n, values="near_one"), _t("h", dtype, n), w2, b2


def _products(dtype: str, batch: int, *extents: int, layout: str = "dense") -> tuple[ProgramTensor, ...]:
    pairs = zip("xyzw", pairwise(extents), strict=False)
    return tuple(_t(name, dtype, batch, m, k, layout=layout) for name, (m, k) in pairs)


_LAYER_NORM = ("u = F.layer_norm(F.linear(x, w1, b1), b1.shape, g, h)",)
_HEADS = (_t("x", BF16, 6, 100, 64), _t("y", BF16, 6, 72, 64, layout="offset"), _t("z", BF16, 6, 72, 64))
_ATTENTION = ("p = torch.softmax((x @ y.transpose(1, 2)).float() * 0.125, -1).to(z.dtype)",)
_IN_PLACE = (_t("c", BF16, 64, 96, layout="offset", updated=True), _t("x", BF16, 64, 130), _t("y", BF16, 130, 96))
_MASKED = (_t("x", BF16, 65, 64), _t("y", BF16, 64, 130), _t("m", "bool", 65, 130, values="flags"))
_KEPT = (_t("s", FP32, 96, values="positive", updated=True), _t("x", BF16, 200, 128), _t("y", BF16, 128, 96))
_CLASSES = (*_products(FP32, 1, 100, 77, 50), _t("t", "int64", 100, values="class 50"))

_DRAWN: tuple[tuple[Any, ...], ...] = (
    ("linear softmax", _layers(BF16, 130, 128, 256, 8)[:3], ("u = F.linear(x, w1, b1).float() * 0.1",),
     "torch.softmax(u, -1)"),
    ("linear softmax, odd", _layers(FP16, 33, 77, 131, 8)[:3], ("u = torch.softmax(F.linear(x, w1, b1), -1)",), "u"),
    ("linear, layer norm, linear", _layers(BF16, 200, 256, 512, 128), _LAYER_NORM, "F.linear(u, w2, b2)"),
    ("linear, layer norm, linear, odd", _layers(FP16, 33, 77, 129, 65), _LAYER_NORM, "u", "F.linear(u, w2, b2)"),
    ("two linears, fp32", _layers(FP32, 70, 130, 90, 33), ("u = F.gelu(F.linear(x, w1, b1))",), "F.linear(u, w2, b2)"),
    ("attention", _HEADS, _ATTENTION, "p @ z"),
    ("bmm chain, odd", _products(FP16, 3, 65, 33, 47, 65, 10), ("u = torch.bmm(x @ y, z)",), "torch.bmm(u, w)"),
    ("bmm chain, transposed", _products(BF16, 2, 64, 96, 72, 40, layout="transposed"), ("u = x @ y",), "u @ z"),
    ("in place", _IN_PLACE, ("c.addmm_(x, y)",), "x.float().sum(0)"),
    ("mask", _MASKED, ("u = torch.where(m, x @ y, 0.0)",), "m.any(-1)", "u.float().sum(0)", "u"),
    ("scan between products", _layers(BF16, 40, 64, 96, 72),
     ("u = (torch.sigmoid(F.linear(x, w1, b1)) / 96).cumsum(-1)",), "F.linear(u, w2)"),
    ("running mean", _KEPT, ("u = x @ y", "s.mul_(0.9).add_(u.float().mean(0) * 0.1)"), "torch.relu(u)"),
    ("cross entropy", _CLASSES, ("u = x[0] @ y[0]",), "F.cross_entropy(u, t)", "u"),
    ("no rows", _layers(BF16, 0, 64, 96, 72)[:3], ("u = F.linear(x, w1, b1).softmax(-1)",), "u", "u.float().sum()"),
)  # fmt: skip
_MODULES: tuple[tuple[Any, ...], ...] = (
    ("group norm, min", LinearGroupNormMin, _t("x", FP32, 128, 257)),
    ("batch norm", LinearBatchNorm, _t("x", FP32, 300, 130)),
    ("layer norm, two layers", LayerNormMlp, _t("x", FP16, 2, 50, 128)),
    ("sigmoid, logsumexp", LinearSigmoidLogsumexp, _t("x", BF16, 64, 100)),
)
CASES = (
    *(Mixed(i, name, tensors, lines, tuple(results)) for i, (name, tensors, lines, *results) in enumerate(_DRAWN)),
    *(Mixed(len(_DRAWN) + i, name, (x,), module=module) for i, (name, module, x) in enumerate(_MODULES)),
)
