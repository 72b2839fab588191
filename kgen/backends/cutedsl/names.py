"""Python names for the user's tensors inside an emitted kernel: theirs, unless its own names are in the way."""

import keyword
import re
from collections.abc import Callable

from kgen.backends.cutedsl.expressions import library_names

# Names that the emitted code uses for its own.
_TAKEN = frozenset(
    {
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
        "along_m",
        "along_n",
        "at",
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
        "float",
        "found",
        "function",
        "fused",
        "gemm_no_k",
        "gemm_simt",
        "gemm_staged",
        "gemm_tma",
        "grid",
        "index",
        "k",
        "kernel",
        "launch_no_k",
        "launch_simt",
        "launch_staged",
        "launch_tma",
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
        "prod",
        "rank",
        "refusal",
        "self",
        "shape",
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
_TAKEN_BY_HOST = frozenset(
    {
        "PLAN",
        "TypeError",
        "ValueError",
        "alignment",
        "base",
        "compiled",
        "d",
        "device",
        "error",
        "found",
        "function",
        "kernel",
        "launches",
        "made",
        "name",
        "next",
        "refusal",
        "run",
        "self",
        "shape",
        "sm_count",
        "stride",
        "t",
        "tensors",
        "torch",
        "tuple",
        "variants",
    }
)
# Names that the code of loop kernels uses beside those of its library.
_TAKEN_BY_LOOPS = frozenset(
    {
        "Access",
        "Boolean",
        "INDEX",
        "LAUNCH",
        "Model",
        "NAME",
        "PLAN",
        "RULES",
        "SIGNATURES",
        "SmemAllocator",
        "VARIANTS",
        "Variant",
        "WARP",
        "_",
        "at_col",
        "at_row",
        "block",
        "cache",
        "chunk",
        "cluster",
        "col",
        "compile_variant",
        "compiled",
        "cute",
        "cutlass",
        "dataclass",
        "device",
        "e",
        "error",
        "first",
        "float",
        "found",
        "i",
        "inside",
        "is_row",
        "kernel",
        "lane",
        "lanes",
        "launched",
        "launches",
        "made",
        "name",
        "prod",
        "refusal",
        "row",
        "run",
        "s",
        "smem",
        "stream",
        "tensors",
        "thread",
        "torch",
        "v",
        "variants",
        "vector",
        "version",
    }
)
# Names that the code of loop kernels makes: none ends in an underscore, so that one more always leads out of them.
_MADE_BY_LOOPS = re.compile(
    r"(x\d+|\w*_(at|raw|new|parts)\d*|rules_\w*|launch_\w*|join_\w*|(guard|index)_at\d*|\w*_(flat|resident|streamed|scan)"
    r"|(sum|prod|max|min|argmax|argmin|any|all|m2|sumexp)_\d+\w*)(?<!_)"
)
# Suffixes of the names that the emitted code makes from the user's.
_MADE = re.compile(r"x\d+|\w*_(view|fused|stride)|\w*_fused_\d+")


def device_names(tensors: tuple[str, ...]) -> dict[str, str]:
    """Return a distinct name for every tensor that is free in the device code and in the launch functions."""
    return _distinct(tensors, _is_free)


def loop_names(tensors: tuple[str, ...]) -> dict[str, str]:
    """Return a distinct name for every tensor that is free in the code of loop kernels, host function included."""

    def is_free(name: str) -> bool:
        taken = keyword.iskeyword(name) or name in _TAKEN_BY_LOOPS or name in _TAKEN_BY_HOST or name in library_names()
        return not taken and not _MADE_BY_LOOPS.fullmatch(name)

    return _distinct(tensors, is_free)


def host_names(tensors: tuple[str, ...]) -> dict[str, str]:
    """Return a distinct name for every tensor that is free in the host function: the reference's own, if it can be."""
    return _distinct(tensors, lambda name: not keyword.iskeyword(name) and name not in _TAKEN_BY_HOST)


def _distinct(tensors: tuple[str, ...], is_free: Callable[[str], bool]) -> dict[str, str]:
    names: dict[str, str] = {}
    for tensor in tensors:
        name = re.sub(r"\W", "_", tensor)
        while not is_free(name) or name in names.values():
            name += "_"
        names[tensor] = name
    return names


def _is_free(name: str) -> bool:
    taken = keyword.iskeyword(name) or name in _TAKEN or name in library_names()
    return not taken and not _MADE.fullmatch(name)
