"""The words of FlyDSL for loop kernels on CDNA."""

from dataclasses import replace
from functools import cache
from typing import Final

from kgen.backends.flydsl.expressions import flydsl
from kgen.backends.loops.dialect import LoopDialect
from kgen.ir.dtype import DType
from kgen.ir.problem import Combine
from kgen.target import Arch

SHORT_NANS: Final = frozenset({DType.BF16, DType.FP8_E4M3, DType.FP8_E5M2})  # in fp32, 16 bits below them are 0
_BY_INTEGERS: Final = "gfx942"  # which has no conversion to bf16
MOST_BYTES: Final = 2**32 - 2**6  # that a buffer descriptor counts, less what an access past the end spans
_BYTES: Final = (DType.BOOL, DType.FP8_E4M3, DType.FP8_E5M2)
_ACROSS: Final = {
    Combine.SUM: "sum_across",
    Combine.PROD: "product_across",
    Combine.MAX: "largest_across",
    Combine.ANY: "largest_across",
    Combine.MIN: "smallest_across",
    Combine.ALL: "smallest_across",
    Combine.ARGMAX: "first_of_largest_across",
    Combine.ARGMIN: "first_of_smallest_across",
    Combine.M2: "moments_across",
    Combine.SUMEXP: "exponents_across",
}
_OPERATIONS: Final = {
    Combine.SUM: "fx.ReductionOp.ADD",
    Combine.PROD: "fx.ReductionOp.MUL",
    Combine.MAX: "fx.ReductionOp.MAX",
    Combine.ANY: "fx.ReductionOp.MAX",
    Combine.MIN: "fx.ReductionOp.MIN",
    Combine.ALL: "fx.ReductionOp.MIN",
}


@cache
def flydsl_loops_of(arch: Arch, floats: frozenset[DType]) -> LoopDialect:
    """Return the words for kernels that read floats of these types only.

    Where no NaN among them reaches below bf16, rounding to it in integers keeps every NaN without looking for it. Else
    LLVM's conversion does, by three instructions more.
    """
    dialect = flydsl_loops(arch)
    if arch.isa != _BY_INTEGERS or not floats <= SHORT_NANS:
        return dialect
    narrowed = {**dialect.values.narrowed_by, DType.BF16: "to_bf16"}
    return replace(dialect, values=replace(dialect.values, narrowed_by=narrowed))


@cache
def flydsl_loops(arch: Arch) -> LoopDialect:
    """Return the words for an arch."""
    return LoopDialect(
        values=flydsl(arch.fp8),
        folder="flydsl/loops",
        units="CUs",
        imports=(
            "from functools import cache",
            "from importlib.metadata import version",
            "from typing import NamedTuple",
            "import flydsl.compiler as flyc",
            "import flydsl.expr as fx",
            "import torch",
        ),
        imports_by_word={},
        taken=frozenset({"HINTS", "NamedTuple", "flyc", "fx", "range", "require_taken", "strides_that_count"}),
        index={DType.INT32: "fx.Int32", DType.INT64: "fx.Int64"},
        variant_parameter="v: fx.Constexpr[tuple]",
        tensor_parameter="{0}: fx.Tensor",
        entered="{0} = bounded({0})",
        begins=(),
        most_bytes=MOST_BYTES,
        given={},
        has_scalars=False,
        torch_type=arch.torch_name,
        signature_type=_signature_type,
        kept={
            "vec": "elements of a vector",
            "steps": "vectors of a thread that are in flight together",
            "threads": "",
            "row_threads": "threads of a workgroup that share a row",
        },
        has_clusters=False,
        evictions={},
        constants={},
        paired={},
        gathers_places=False,
        holds_powers=False,
        unrolled="fx.range_constexpr",
        exp="exp_approximate({0})",
        fragment="{{}}",
        registers="{{}}",
        allocator="fx.SharedAllocator()",
        scan_slots="({slots},) = exchange(v, smem, {type})",
        scan="{name}_carry = scan_row(v, {name}_totals, {name}_carry, {join}, {operation}, {name}_slots)",
        across=_ACROSS,
        operations=_OPERATIONS,
    )


def _signature_type(dtype: DType) -> str:
    return DType.UINT8.torch_name if dtype in _BYTES else dtype.torch_name
