"""Specs that between them print every section of the templates; emitted once per process and device."""

from functools import cache
from pathlib import Path

import torch
import torch.nn.functional as F

from kgen.frontend.importers import spec_from_callable
from kgen.pipeline import run
from kgen.planning.plan import Plan
from kgen.spec.load import parse_spec
from kgen.spec.model import Spec
from kgen.target import load_device

BF16, FP16, FP32, INT32, BOOL = torch.bfloat16, torch.float16, torch.float32, torch.int32, torch.bool
FP8, INT8 = torch.float8_e4m3fn, torch.int8


def e(*shape: int, dtype: torch.dtype = BF16, stride: tuple[int, ...] | None = None) -> torch.Tensor:
    """Return a tensor of which only the type is read."""
    return torch.empty_strided(shape, stride or torch.empty(shape, device="meta").stride(), dtype=dtype, device="cpu")


def _everything(a, b, row, column, full, scale, mask, count):
    x = torch.where(mask, (a @ b).float() * scale + row + column, float("-inf"))
    return (F.gelu(x) + full * torch.sigmoid(x) + count).clamp(-30, 30).to(BF16)


def _colliding(v, d, x1, k, fused, tile, at):
    return F.silu(v @ d + x1) * k + fused + tile.float() * at


def _library_names(relu, select, maximum, silu, sigmoid):
    return F.silu(torch.relu(relu @ select) + maximum) * silu + torch.sigmoid(sigmoid)


def _lambda_names(lambda_, class_, x_1):
    return lambda_ @ class_ + x_1


def _operand_names(a, b, d):
    return a @ b + a + b * d


def _gated(x, weight, bias):
    gate, up = F.linear(x, weight, bias).chunk(2, dim=-1)
    return F.silu(gate) * up


def _gated_int8(x, gate, up):
    return (torch.relu((x.int() @ gate.int().T).float()) * (x.int() @ up.int().T)).to(BF16)


def _grouped(x, weight, starts, bias, residual):
    return F.silu(torch._grouped_mm(x, weight.mT, offs=starts[1:]) + bias) + residual


def _grouped_gate(x, weight, offs):
    gate, up = torch._grouped_mm(x, weight.mT, offs=offs).chunk(2, dim=-1)
    return F.silu(gate) * up


def _scaled_blocks(x, w, sx, sw):
    weight = w.float() * sw.repeat_interleave(128, 0)[: w.shape[0]].repeat_interleave(128, 1)
    return ((x.float() * sx.repeat_interleave(128, 1)) @ weight.T).to(BF16)


def _scaled_rows(x, w, sx, sw, bias):
    return (x.float() * sx.float().repeat_interleave(128, 1)) @ (w.float() * sw.repeat_interleave(128, 1)).T + bias


# id -> (reference, inputs)
FUNCTIONS = {
    "plain": (lambda a, b: a @ b, e(1024, 1024), e(1024, 1024)),
    "columns": (lambda a, b: a @ b, e(512, 512, stride=(1, 512)), e(512, 512, stride=(1, 512))),
    "padded": (lambda a, b: a @ b, e(512, 512, stride=(520, 1)), e(512, 512, stride=(1, 528))),
    "fp16": (lambda a, b: a @ b, e(512, 512, dtype=FP16), e(512, 512, dtype=FP16)),
    "fp32_result": (lambda a, b: (a @ b).float(), e(4096, 4096), e(4096, 4096)),
    "wide_fused": (lambda a, b, c: (a @ b).float() + c, e(4096, 4096), e(4096, 4096), e(4096, 4096)),
    "batch": (torch.bmm, e(8, 512, 256), e(8, 256, 512)),
    "shared_b": (torch.matmul, e(8, 512, 256, stride=(512 * 264, 264, 1)), e(256, 512)),
    "broadcast": (torch.matmul, e(4, 1, 512, 256), e(3, 256, 512)),
    "heads": (lambda q, k: torch.einsum("bmhd,bnhd->bhmn", q, k), e(2, 512, 4, 64), e(2, 512, 4, 64)),
    "everything": (
        _everything,
        e(512, 256),
        e(256, 512),
        e(512, dtype=FP16),
        e(512, 1, dtype=FP32),
        e(512, 512),
        e(dtype=FP32),
        e(512, 512, dtype=BOOL),
        e(1, 512, dtype=INT32),
    ),
    "mask_times": (lambda a, b, m: (a @ b) * m, e(512, 256), e(256, 512), e(512, 512, dtype=BOOL)),
    "logic": (
        lambda a, b, c: torch.where((c > 0) & ~(c > 1) | c.isnan(), a @ b, c),
        e(512, 256),
        e(256, 512),
        e(512, 512),
    ),
    "input_ops": (lambda a, b: (a * 0.5 + 1) @ b.relu(), e(512, 256), e(256, 512)),
    "gated_input": (lambda a, b: (a * torch.sigmoid(a)) @ b, e(512, 256), e(256, 512)),
    "odd_k": (F.linear, e(512, 257), e(512, 257)),
    "odd_n": (lambda a, b, c: a @ b + c, e(512, 256), e(256, 511), e(511)),
    "fp32": (lambda a, b: a @ b, e(256, 128, dtype=FP32), e(128, 256, dtype=FP32)),
    "fp32_fused": (
        lambda a, b, c: F.gelu(a.relu() @ b.float() + c),
        e(4, 100, 60, dtype=FP32),
        e(60, 90),
        e(4, 100, 1, dtype=FP32),
    ),
    "k_zero": (lambda a, b, c: a @ b + c, e(64, 0), e(0, 96), e(96)),
    "one_row": (F.linear, e(1, 1024), e(4096, 1024)),
    "decode": (F.linear, e(16, 4096), e(4096, 4096)),
    "decode_fused": (
        lambda x, w, bias, residual: F.gelu(F.linear(x, w, bias)) * 2 + residual,
        e(13, 4096),
        e(4096, 4096),
        e(4096),
        e(13, 4096),
    ),
    "decode_wide": (lambda x, w: F.linear(x, w).float(), e(5, 4096), e(4096, 4096)),
    "decode_odd": (F.linear, e(7, 4100), e(4099, 4100)),
    "decode_batch": (torch.bmm, e(3, 8, 2048), e(3, 2048, 1024)),
    "deep_k": (lambda a, b: a @ b, e(256, 16384), e(16384, 512)),
    "deep_k_fused": (lambda a, b, c: torch.relu(a @ b + c).float(), e(200, 16384), e(16384, 264), e(200, 1)),
    "one_column": (lambda a, b: a @ b, e(1024, 1024), e(1024, 1)),
    "empty": (lambda a, b: a @ b, e(0, 64), e(64, 128)),
    "transposed": (lambda a, b: (a @ b).T.contiguous(), e(512, 256), e(256, 1024)),
    "expanded_rows": (lambda a, b: a @ b, e(1, 256).expand(512, 256), e(256, 512)),
    "same_twice": (lambda x: x @ x.T + x, e(512, 512)),
    "colliding_names": (_colliding, e(64, 64), e(64, 64), e(64), e(64), e(64, 64), e(64, 1), e(dtype=FP32)),
    "library_names": (_library_names, e(64, 64), e(64, 64), e(64), e(64, 64), e(64, 1)),
    "lambda_names": (_lambda_names, e(64, 64), e(64, 64), e(64)),
    "operand_names": (_operand_names, e(64, 64), e(64, 64), e(64, 64)),
    "fp8": (
        lambda a, b, s, t: ((a.float() @ b.float()) * s * t).to(BF16),
        e(512, 512, dtype=FP8),
        e(512, 512, dtype=FP8, stride=(1, 512)),
        e(512, 1, dtype=FP32),
        e(512, dtype=FP32),
    ),
    "fp8_transposed": (lambda a, b: a.float() @ b.float(), e(256, 512, dtype=FP8), e(512, 264, dtype=FP8)),
    "int8": (
        lambda a, b, c: a.int() @ b.int() + c,
        e(512, 512, dtype=INT8),
        e(512, 256, dtype=INT8),
        e(256, dtype=INT32),
    ),
    "fp8_decode": (
        lambda a, b, s: (a.float() @ b.float() * s).to(BF16),
        e(16, 8192, dtype=FP8),
        e(8192, 4096, dtype=FP8, stride=(1, 8192)),
        e(4096, dtype=FP32),
    ),
    "fp8_blocks": (
        _scaled_blocks,
        e(4095, 1024, dtype=FP8),
        e(2112, 1024, dtype=FP8),
        e(4095, 8, dtype=FP32),
        e(17, 8, dtype=FP32),
    ),
    "fp8_blocks_decode": (
        _scaled_blocks,
        e(3, 7168, dtype=FP8),
        e(2112, 7168, dtype=FP8),
        e(3, 56, dtype=FP32, stride=(1, 3)),
        e(17, 56, dtype=FP32),
    ),
    "fp8_blocks_rows": (
        _scaled_rows,
        e(512, 1024, dtype=FP8),
        e(576, 1024, dtype=FP8),
        e(512, 8),
        e(576, 8, dtype=FP32),
        e(576, dtype=FP32),
    ),
    "fp32_deep_k": (
        lambda a, b, c: a @ b + c,
        e(256, 65536, dtype=FP32),
        e(65536, 256, dtype=FP32),
        e(256, dtype=FP32),
    ),
    "int8_deep_k": (
        lambda a, b: a.int() @ b.int(),
        e(128, 16384, dtype=INT8),
        e(16384, 256, dtype=INT8, stride=(1, 16384)),
    ),
    "gated": (_gated, e(512, 256), e(1024, 256), e(1024)),
    "gated_int8": (_gated_int8, e(512, 256, dtype=INT8), e(512, 256, dtype=INT8), e(512, 256, dtype=INT8)),
    "grouped": (_grouped, e(300, 256), e(6, 512, 256), e(7, dtype=INT32), e(512), e(300, 512)),
    "grouped_columns": (
        lambda ends, groups, rows: torch._grouped_mm(ends, groups, offs=rows).float(),
        e(4096, 1024),
        e(8, 1024, 2048),
        e(8, dtype=INT32),
    ),
    "grouped_gate": (_grouped_gate, e(2000, 256), e(4, 1024, 256), e(4, dtype=INT32)),
    "two_readings": (lambda a, b, c: a @ b + c + c.T, e(256, 256), e(256, 256), e(256, 256)),
}

CASES = """
name: cases
reference: |
  def gemm(a, b, bias):
      return a @ b + bias
inputs:
  a: {shape: [M, K], dtype: bf16}
  b: {shape: [K, N], dtype: bf16}
  bias: {shape: [N], dtype: bf16}
extents: {M: 4096, N: 4096, K: 4096}
cases:
  even: {}
  ragged: {M: 100, N: 72, K: 56}
  odd: {M: 33, N: 17, K: 19}
"""

FIXED = """
name: fixed
reference: |
  def gemm(a, b):
      return a @ b
inputs:
  a: {shape: [M, K], dtype: bf16}
  b: {shape: [K, N], dtype: bf16}
extents: {M: 4096, N: 4096, K: 4096}
accepts: {base_alignment: 16}
fixed:
  tile_m: {value: 128, because: "the incumbent's"}
  cluster_m: {value: 2, because: "two CTAs share B"}
"""

CLUSTER_K = """
name: cluster_k
reference: |
  def gemm(a, b):
      return a @ b
inputs:
  a: {shape: [M, K], dtype: bf16}
  b: {shape: [K, N], dtype: bf16}
extents: {M: 256, N: 512, K: 16384}
fixed:
  split_k: {value: 1, because: "parts of k are added up in a cluster"}
"""

# a product of vectors is a loop where no axis is decided
VECTORS = """
name: vectors
reference: |
  import torch

  def gemm(a, b):
      return torch.dot(a, b)
inputs:
  a: {shape: [K], dtype: bf16}
  b: {shape: [K], dtype: bf16}
extents: {K: 4096}
fixed:
  split_k: {value: 1, because: "its text is that of a product"}
"""

# one case whose parts of k pass through a workspace, one whose parts a cluster adds up, one with all of k in a CTA
DEEP_CASES = """
name: deep_cases
reference: |
  def gemm(a, b):
      return a @ b.T
inputs:
  a: {shape: [M, K], dtype: bf16}
  b: {shape: [N, K], dtype: bf16}
extents: {M: 256, N: 256, K: 32768}
cases:
  deep: {}
  few: {M: 512, N: 512, K: 1024}
  large: {M: 2048, N: 2048, K: 1024}
fixed_by_case:
  few:
    cluster_k: {value: 2, because: "the kernel of a cluster stands beside the others"}
"""

# cases of fp32 with launch functions of their own, and no variant to choose in either
FP32_CASES = """
name: fp32_cases
reference: |
  def gemm(a, b):
      return a @ b
inputs:
  a: {shape: [M, K], dtype: fp32}
  b: {shape: [K, N], dtype: fp32}
extents: {M: 256, N: 256, K: 32768}
cases:
  deep: {}
  large: {M: 2048, N: 2048, K: 1024}
accepts: {base_alignment: 16}
"""

FP32_SPEC = """
name: fp32_spec
reference: |
  def gemm(a, b):
      return a @ b
inputs:
  a: {shape: [M, K], dtype: fp32}
  b: {shape: [K, N], dtype: fp32, layout: col}
extents: {M: 512, N: 256, K: 132}
"""

MODULE = """
name: module
reference: |
  import math
  from collections import OrderedDict
  from functools import partial

  import torch
  import torch.nn as nn
  import torch.nn.functional as F

  GAIN, EPSILON = 2.0, 1e-6
  WIDTH: int = 256


  def scaled(count: int) -> float:
      return GAIN / math.sqrt(count)


  class Base(nn.Module):
      factor = 0.5

      def __init__(self):
          super().__init__()
          self.offset = nn.Parameter(torch.zeros(WIDTH, dtype=torch.bfloat16))


  class Layer(Base):
      eps = EPSILON

      def __init__(self, features: int, bias: bool = True):
          super().__init__()
          self.layers = nn.Sequential(OrderedDict(proj=nn.Linear(features, WIDTH, bias=bias, dtype=torch.bfloat16)))
          self.register_buffer("gain", torch.tensor(scaled(features)))
          self.make = partial(torch.full, (1,), self.eps)
          self.reset()

      def reset(self) -> None:
          nn.init.normal_(self.layers.proj.weight, std=self.factor * scaled(WIDTH))

      def forward(self, x):
          return F.silu(self.layers(x)) * self.gain + self.offset
inputs:
  x: {shape: [B, S, 128], dtype: bf16}
extents: {B: 2, S: 256}
"""
INIT = "  init_args: [128]\n"


def _module_spec() -> str:
    head, body = MODULE.split("reference: |\n")
    code, rest = body.split("inputs:\n")
    source = "".join(f"  {line}" if line.strip() else line for line in code.splitlines(keepends=True))
    return f"{head}reference:\n  source: |\n{source}  entry: Layer\n{INIT}inputs:\n{rest}"


# extents of run time
DYNAMIC = """
name: dynamic
reference: |
  import torch.nn.functional as F

  def linear(x, weight, bias, residual):
      return F.gelu(F.linear(x, weight, bias)) + residual
inputs:
  x: {shape: [M, K], dtype: bf16}
  weight: {shape: [N, K], dtype: bf16}
  bias: {shape: [N], dtype: bf16}
  residual: {shape: [M, N], dtype: bf16}
extents:
  M: {range: [1, 1024]}
  N: 2048
  K: 4096
"""

DYNAMIC_ROWS = """
name: dynamic_rows
reference: |
  def linear(x, weight):
      return (x.reshape(-1, 100) @ weight.T).float()
inputs:
  x: {shape: [B, 6, 100], dtype: bf16}
  weight: {shape: [99, 100], dtype: bf16}
extents:
  B: {range: [4, 256], multiple_of: 4, tests: [4, 20]}
"""

DYNAMIC_FP8 = """
name: dynamic_fp8
reference: |
  import torch

  def scaled(a, b, s):
      return (a.float() @ b.float().T * s).to(torch.bfloat16)
inputs:
  a: {shape: [rows, 8192], dtype: fp8_e4m3}
  b: {shape: [4096, 8192], dtype: fp8_e4m3}
  s: {shape: [rows, 1], dtype: fp32}
extents:
  rows: {range: [0, 64]}
accepts: {base_alignment: 16}
"""

DYNAMIC_BLOCKS = """
name: dynamic_blocks
reference: |
  import torch

  def scaled(x, w, sx, sw):
      weight = w.float() * sw.repeat_interleave(128, 0).repeat_interleave(128, 1)
      return (x.float() * sx.repeat_interleave(128, 1)) @ weight.T
inputs:
  x: {shape: [rows, 2048], dtype: fp8_e4m3}
  w: {shape: [4096, 2048], dtype: fp8_e4m3}
  sx: {shape: [rows, 16], dtype: fp32}
  sw: {shape: [32, 16], dtype: fp32}
extents:
  rows: {range: [0, 256]}
accepts: {base_alignment: 16}
"""

OF_RUN_TIME = {
    "dynamic": DYNAMIC,
    "dynamic_rows": DYNAMIC_ROWS,
    "dynamic_fp8": DYNAMIC_FP8,
    "dynamic_blocks": DYNAMIC_BLOCKS,
}
TEXTS = {
    "cases": CASES,
    "fixed": FIXED,
    "cluster_k": CLUSTER_K,
    "vectors": VECTORS,
    "deep_cases": DEEP_CASES,
    "fp32_cases": FP32_CASES,
    "module": _module_spec(),
    "tf32": FP32_SPEC + "precision: tf32\n",
    "ieee": FP32_SPEC + "precision: ieee\n",
    **OF_RUN_TIME,
}
NAMES = (*FUNCTIONS, *TEXTS)


@cache
def spec_of(name: str) -> Spec:
    """Return the spec of that id."""
    if name in TEXTS:
        return parse_spec(TEXTS[name], Path("specs") / f"{name}.yaml")
    fn, *inputs = FUNCTIONS[name]
    return spec_from_callable(fn, inputs, name=name)


@cache
def made_of(name: str, device: str = "h200") -> dict[str, object]:
    """Return what the stages of the pipeline made."""
    return dict(run(spec_of(name), load_device(device)).made)


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
