"""The words of FlyDSL for values; how ops are printed with them is `kgen/backends/source/dialect.py`'s.

Ops with more than one instruction of their own are calls of functions in `templates/flydsl/lib`. An element of fp8 is a
byte in a kernel: the DSL converts none, and its meaning is the arch's, FNUZ on gfx942 and OCP on gfx950.
"""

from functools import cache
from typing import Final

from kgen.backends.flydsl.forms import FORMS
from kgen.backends.source.dialect import Dialect
from kgen.ir.dtype import DType
from kgen.target import Fp8

_TYPES: Final = {
    DType.BOOL: "fx.Uint8",
    DType.INT8: "fx.Int8",
    DType.UINT8: "fx.Uint8",
    DType.INT16: "fx.Int16",
    DType.INT32: "fx.Int32",
    DType.INT64: "fx.Int64",
    DType.FP8_E4M3: "fx.Uint8",
    DType.FP8_E5M2: "fx.Uint8",
    DType.FP16: "fx.Float16",
    DType.BF16: "fx.BFloat16",
    DType.FP32: "fx.Float32",
    DType.FP64: "fx.Float64",
}
_FP8_NAMES: Final = {DType.FP8_E4M3: "e4m3", DType.FP8_E5M2: "e5m2"}
_LIBRARY: Final = (
    *("hardware.py", "approximate.py", "pointwise.py", "narrow.py", "integers.py", "doubles.py", "loops.py"),
)


@cache
def flydsl(fp8: Fp8) -> Dialect:
    """Return the words for an arch that has these encodings of fp8."""
    return Dialect(
        types=_TYPES,
        boolean="fx.Boolean",
        narrowed_by={dtype: f"to_{name}_{fp8}" for dtype, name in _FP8_NAMES.items()},
        # the DSL reads a byte as a signed one
        widened_by={DType.UINT8: "fx.Uint8"} | {dtype: f"from_{name}_{fp8}" for dtype, name in _FP8_NAMES.items()},
        rounded_by="rounded",
        forms=FORMS,
        library=tuple(f"flydsl/lib/{file}" for file in _LIBRARY),
    )
