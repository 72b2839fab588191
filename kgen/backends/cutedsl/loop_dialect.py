"""The words of the CuTe DSL for loop kernels on Hopper."""

from typing import Final

from kgen.backends.cutedsl.expressions import CUTEDSL, memory
from kgen.backends.cutedsl.loaded import LOADED_IMPORTS
from kgen.backends.loops.dialect import AHEAD, LoopDialect
from kgen.backends.source.file_text import torch_type
from kgen.families.strided.caching import Eviction
from kgen.ir.dtype import DType

_FP8 = (DType.FP8_E4M3, DType.FP8_E5M2)  # arrive as bytes


def _signature_type(dtype: DType) -> str:
    return memory(DType.UINT8) if dtype in _FP8 else memory(dtype)


CUTEDSL_LOOPS: Final = LoopDialect(
    values=CUTEDSL,
    folder="cutedsl/sm90/loops",
    units="SMs",
    imports=(
        "from dataclasses import dataclass",
        "from functools import cache",
        "from importlib.metadata import version",
        "import cutlass",
        "import cutlass.cute as cute",
        "import torch",
        "from cutlass.cute.runtime import make_fake_stream, make_fake_tensor",
        *LOADED_IMPORTS,
    ),
    imports_by_word={"SmemAllocator": "from cutlass.memory import SmemAllocator"},
    taken=frozenset({"SmemAllocator", "cute", "cutlass"}),
    index={DType.INT32: "cutlass.Int32", DType.INT64: "cutlass.Int64"},
    variant_parameter="v: cutlass.Constexpr",
    tensor_parameter="{0}",
    entered="",
    begins=(
        "cute.arch.griddepcontrol_launch_dependents()  # once all CTAs run, those of the next kernel may follow",
        "cute.arch.griddepcontrol_wait()  # until what the kernel before has written is there",
    ),
    most_bytes=None,
    given={
        dtype: f"{{0}} = cute.make_tensor(cute.recast_ptr({{0}}.iterator, dtype={memory(dtype)}), {{0}}.layout)"
        for dtype in _FP8
    },
    has_scalars=True,
    torch_type=torch_type,
    signature_type=_signature_type,
    kept={
        "vec": "elements of a vector",
        "steps": "vectors of a thread that are in flight together",
        AHEAD: "vectors of what rows share that are in flight before they are needed",
        "threads": "",
        "row_threads": "threads of a CTA that share a row",
        "cluster": "CTAs that share a row",
    },
    has_clusters=True,
    evictions={Eviction.FIRST: "EVICT_FIRST", Eviction.LAST: "EVICT_LAST"},
    constants={
        "EVICT_FIRST": "EVICT_FIRST = 0x12F0000000000000  # policy of loads in L2: what is read leaves at once",
        "EVICT_LAST": "EVICT_LAST = 0x14F0000000000000  # policy of loads in L2: what is read stays beside results",
    },
    paired={DType.BF16: "from_bf16"},
    gathers_places=True,
    holds_powers=True,
    unrolled="cutlass.range_constexpr",
    exp="cute.math.exp({0}, fastmath=True)",
    fragment="fragment(v, {access}, {type}, {count})",
    registers="cute.make_rmem_tensor({shape}, {type})",
    allocator="SmemAllocator()",
    scan_slots="({slots},), _ = exchange(v, smem, {type})",
    scan="{name}_carry = scan_row(v, {name}_totals, {name}_carry, {join}, {first}, {name}_slots)",
    across={},
    operations={},
)
