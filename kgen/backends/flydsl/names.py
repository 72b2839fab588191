"""Python names for the user's tensors inside of products on CDNA: theirs, unless the kernel's own are in the way."""

import keyword
import re

from kgen.backends.flydsl.expressions import flydsl
from kgen.backends.source.names import distinct
from kgen.target import Arch

# Names that the emitted code uses for its own where a tensor's name stands beside them.
_TAKEN = frozenset(
    {
        *("Stages", "a", "acc", "b", "batch", "buffers", "count", "d", "done", "epilogue", "epilogue_ops", "first"),
        *("fused", "fx", "held", "i", "inside", "kernel", "launch", "lds", "left", "m", "n", "neighbours", "offset"),
        *("operand_a", "operand_b", "operands", "part_of_k", "parts", "registers", "sources", "steps_of", "stream"),
        *("store_piece", "sum_parts", "sums", "target", "tile", "tiles", "v", "view", "whole", "workgroup", "write"),
        *("index", "along_n", "add_row", "only", "buffer_copy", "float", "OUT", "ahead", "accumulators", "flyc"),
    }
)
_MADE = re.compile(r"x\d+|\w*_(stride|vector|fused|kernel)|\w*_fused_\d+")


def device_names(tensors: tuple[str, ...], arch: Arch) -> dict[str, str]:
    """Return a distinct name for every tensor that is free in the device code and in the launch functions."""
    library = flydsl(arch.fp8).library_names()
    return distinct(tensors, lambda n: not (keyword.iskeyword(n) or n in _TAKEN or n in library or _MADE.fullmatch(n)))
