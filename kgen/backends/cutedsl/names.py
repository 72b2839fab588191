"""Python names for the user's tensors inside an emitted kernel: theirs, unless its own names are in the way."""

import keyword
import re

from kgen.backends.cutedsl.expressions import library_names
from kgen.backends.source.names import distinct

# Names that the emitted code uses for its own.
_TAKEN = frozenset(
    {
        "EXTENT",
        "IN",
        "MMA_M",
        "Model",
        "OUT",
        "PLAN",
        "THREADS",
        "TypeError",
        "ValueError",
        "a_base",
        "a_batch",
        "a_layout",
        "a_ops",
        "acc",
        "aligned",
        "along_m",
        "along_n",
        "at",
        "at_run_time",
        "b_base",
        "b_batch",
        "b_layout",
        "b_ops",
        "base",
        "batch",
        "cache",
        "cluster",
        "clusters",
        "compiled",
        "cpasync",
        "cute",
        "cutlass",
        "d",
        "d_layout",
        "device",
        "epilogue_ops",
        "error",
        "extent",
        "float",
        "found",
        "function",
        "fused",
        "gemm_no_k",
        "gemm_simt",
        "gemm_split",
        "gemm_staged",
        "gemm_tma",
        "grid",
        "index",
        "k",
        "kernel",
        "launch_no_k",
        "launch_simt",
        "launch_split",
        "launch_staged",
        "launch_tma",
        "load",
        "load_a",
        "load_b",
        "m",
        "mA",
        "mB",
        "mD",
        "matrix_view",
        "n",
        "name",
        "next",
        "pipeline",
        "planned",
        "prod",
        "rank",
        "refusal",
        "replace",
        "row",
        "self",
        "shape",
        "shapes",
        "sm_count",
        "stream",
        "stride",
        "tensors",
        "threads",
        "tile",
        "tiles",
        "tma_a",
        "tma_b",
        "tma_d",
        "torch",
        "tuple",
        "v",
        "variants",
        "warp",
        "warpgroup",
    }
)
# Suffixes of the names that the emitted code makes from the user's.
_MADE = re.compile(r"x\d+|\w*_(view|fused|stride)|\w*_fused_\d+")


def device_names(tensors: tuple[str, ...]) -> dict[str, str]:
    """Return a distinct name for every tensor that is free in the device code and in the launch functions."""
    return distinct(tensors, _is_free)


def _is_free(name: str) -> bool:
    taken = keyword.iskeyword(name) or name in _TAKEN or name in library_names()
    return not taken and not _MADE.fullmatch(name)
