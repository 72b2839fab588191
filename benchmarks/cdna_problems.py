"""The problems of the CDNA evidence table: what FlyDSL's own kernel and kgen's compute, and the tile they both use.

The sizes are small, as kernels run in a simulator; what the table compares is per flop or per element of a steady loop.
"""

from dataclasses import dataclass, field
from typing import Any

GFX942, GFX950 = "gfx942", "gfx950"
BOTH = (GFX942, GFX950)
DEVICES = {GFX942: "mi300x", GFX950: "mi355x"}

GEMM_REFERENCE = """
  def gemm(a, b):
      return a @ b.T
"""
INT8_REFERENCE = """
  import torch

  def gemm(a, b):
      return torch._int_mm(a, b.T)
"""
SOFTMAX = """
  import torch

  def softmax(x):
      return torch.softmax(x, dim=-1)
"""
RMS_NORM = """
  import torch.nn.functional as F

  def rms_norm(x, weight):
      return F.rms_norm(x, (x.shape[-1],), weight, 1e-5)
"""
LAYER_NORM = """
  import torch.nn.functional as F

  def layer_norm(x, weight, bias):
      return F.layer_norm(x, (x.shape[-1],), weight, bias, 1e-5)
"""


@dataclass(frozen=True)
class Problem:
    """One row of the table: `peer` names the function of cdna_peers.py that runs FlyDSL's kernel.

    `peer_tile` are the m, n and k of its tile. `fixed` are the axes of kgen's candidate that make its tile the peer's.
    `inputs` are shapes by name, in `dtype`.
    """

    name: str
    peer: str
    isas: tuple[str, ...]
    dtype: str
    extents: dict[str, int]
    reference: str
    inputs: dict[str, str]
    tile: str = ""
    peer_tile: tuple[int, int, int] = (0, 0, 0)
    fixed: dict[str, Any] = field(default_factory=dict)

    def spec(self, isa: str) -> str:
        """Return the spec of kgen's kernel."""
        inputs = "".join(f"  {name}: {{shape: {shape}, dtype: {self.dtype}}}\n" for name, shape in self.inputs.items())
        because = "the tile of the kernel it is compared with"
        fixed = "".join(f"  {axis}: {{value: {v}, because: {because}}}\n" for axis, v in self.fixed.items())
        extents = ", ".join(f"{name}: {value}" for name, value in self.extents.items())
        return (
            f"name: {self.name}_{isa}\nreference: |{self.reference}inputs:\n{inputs}extents: {{{extents}}}\n"
            f"targets: [{DEVICES[isa]}]\n" + (f"fixed:\n{fixed}" if fixed else "")
        )


def _gemm(name: str, peer: str, isas: tuple[str, ...], dtype: str, tile: tuple[int, int, int], **fixed: Any) -> Problem:
    m, n, k = tile
    own = {"tile_m": m, "tile_n": n, "tile_k": k, "split_k": 1, **fixed}
    steps = "" if own["tile_k"] == k else f", kgen in k steps of {own['tile_k']}"
    return Problem(
        name=name,
        peer=peer,
        isas=isas,
        dtype=dtype,
        extents={"M": 2 * m, "N": 2 * n, "K": 32 * k},
        reference=INT8_REFERENCE if dtype == "int8" else GEMM_REFERENCE,
        inputs={"a": "[M, K]", "b": "[N, K]"},
        tile=f"{m}x{n}x{k}{steps}",
        peer_tile=tile,
        fixed=own,
    )


def _rows(name: str, reference: str, inputs: dict[str, str]) -> Problem:
    fixed = {"schedule": "resident", "threads": 256, "row_threads": 256}
    tile = "a row for 256 threads"
    return Problem(name, name, BOTH, "bf16", {"M": 8, "N": 4096}, reference, inputs, tile, fixed=fixed)


# What else is as in FlyDSL's kernels: the way of B, the warps of a tile, the k steps that LDS holds.
B_DIRECT = {"load_path": "b_direct", "warps_m": 1, "warps_n": 4, "mma": 16, "stages": 2}
ASYNC = {"load_path": "async", "warps_m": 2, "mma": 16, "stages": 2}
DEEP = {"tile_k": 32, "stages": 3}
PROBLEMS = (
    _gemm("preshuffle_bf16", "preshuffle", BOTH, "bf16", (128, 128, 64), **B_DIRECT),
    _gemm("preshuffle_fp16", "preshuffle", BOTH, "fp16", (128, 128, 64), **B_DIRECT),
    _gemm("preshuffle_fp8", "preshuffle", BOTH, "fp8_e4m3", (128, 128, 128), **B_DIRECT),
    _gemm("preshuffle_int8", "preshuffle", BOTH, "int8", (128, 128, 128), **B_DIRECT),
    _gemm("a16w16_bf16", "a16w16", (GFX950,), "bf16", (128, 128, 64), **ASYNC, warps_n=2),
    _gemm("a16w16_bf16_large", "a16w16", (GFX950,), "bf16", (256, 256, 64), **ASYNC, warps_n=4),
    # as much LDS in more and smaller stages, so that copies are in flight while a wait for older ones is over
    _gemm("a16w16_bf16_deep", "a16w16", (GFX950,), "bf16", (256, 256, 64), **ASYNC | DEEP, warps_n=4),
    _rows("softmax", SOFTMAX, {"x": "[M, N]"}),
    _rows("rmsnorm", RMS_NORM, {"x": "[M, N]", "weight": "[N]"}),
    _rows("layernorm", LAYER_NORM, {"x": "[M, N]", "weight": "[N]", "bias": "[N]"}),
)
