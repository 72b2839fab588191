"""The words of the CuTe DSL for values; how ops are printed with them is `kgen/backends/source/dialect.py`'s.

Ops with more than one instruction of their own are calls of functions in `templates/cutedsl/lib`.
"""

from typing import Final

from kgen.backends.cutedsl.forms import FORMS
from kgen.backends.source.dialect import Dialect, carried_dtype
from kgen.ir.dtype import DType

ELEMENT_TYPES: Final = {
    DType.BF16: "cutlass.BFloat16",
    DType.FP16: "cutlass.Float16",
    DType.FP32: "cutlass.Float32",
    DType.BOOL: "cutlass.Boolean",
    DType.INT8: "cutlass.Int8",
    DType.UINT8: "cutlass.Uint8",
    DType.INT16: "cutlass.Int16",
    DType.INT32: "cutlass.Int32",
    DType.INT64: "cutlass.Int64",
}
_MEMORY: Final = ELEMENT_TYPES | {
    DType.BOOL: "cutlass.Uint8",
    DType.FP8_E4M3: "cutlass.Float8E4M3FN",
    DType.FP8_E5M2: "cutlass.Float8E5M2",
    DType.FP64: "cutlass.Float64",
}
_LIBRARY: Final = ("pointwise.py", "integers.py", "doubles.py", "approximate.py", "loops.py")

CUTEDSL: Final = Dialect(
    types=_MEMORY,
    boolean="cutlass.Boolean",
    narrowed_by={DType.FP8_E4M3: "to_e4m3", DType.FP8_E5M2: "to_e5m2"},
    widened_by={},
    rounded_by="",
    forms=FORMS,
    library=tuple(f"cutedsl/lib/{file}" for file in _LIBRARY),
)
memory, carried, constant = CUTEDSL.memory, CUTEDSL.carried, CUTEDSL.constant
loaded, stored, print_ops = CUTEDSL.loaded, CUTEDSL.stored, CUTEDSL.print_ops
library_source, library_names = CUTEDSL.library_source, CUTEDSL.library_names

__all__ = [
    "CUTEDSL",
    "ELEMENT_TYPES",
    "carried",
    "carried_dtype",
    "constant",
    "library_names",
    "library_source",
    "loaded",
    "memory",
    "print_ops",
    "stored",
]
