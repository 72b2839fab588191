"""What a wgmma on operands of each type is in the CuTe DSL: element, instruction, accumulator, and its templates."""

from dataclasses import dataclass, replace
from typing import Final

from kgen.families.gemm.form import GemmForm
from kgen.ir.dtype import DType


@dataclass(frozen=True, slots=True)
class Product:
    """One type of operands.

    `element` is their type in smem, `op` the class of the instruction and `types` its first arguments, `k` what one
    instruction sums. `sections` are the templates of operands, `mainloop` that of the sums. `any_major`: the
    instruction reads rows or columns, and not k runs alone. `byte_wise`: the host passes operands as bytes, and the
    launch function views them as elements. `rounds_bulk_loads`: bulk loads convert to `element`.

    Staged loads write to the smem `written` of a tile: elements as they are (`moved`), fp32 values `rounded`, and
    `zero` beyond an operand's edge.
    """

    element: str
    op: str
    types: str
    k: int
    sections: tuple[str, ...] = ("operands_k",)
    mainloop: str = "mainloop"
    any_major: bool = False
    byte_wise: bool = False
    rounds_bulk_loads: bool = False
    zero: str = "IN(0.0)"
    moved: str = "x0"
    rounded: str = "{}"
    written: str = "{}"

    @property
    def bits(self) -> int:
        """Bits of one operand element: an instruction reads 32 bytes of k."""
        return 256 // self.k

    def operands(self, stores_columns: bool) -> tuple[str, ...]:
        """Return the templates of the smem of operands, and of what else lies in smem as they do."""
        needs_columns = self.any_major or stores_columns
        major = ["major"] if self.any_major else []
        return (*major, "row_major", *(["column_major"] if needs_columns else []), *self.sections)


def _half(element: str) -> Product:
    op, rounded = "warpgroup.MmaF16BF16Op", f"{{}}.to({element})"
    return Product(element, op, "IN, ACC", 16, ("operands",), any_major=True, rounded=rounded)


def _fp8(element: str) -> Product:
    return Product(element, "warpgroup.MmaF8Op", "IN, IN, ACC", 32, mainloop="mainloop_promoted", byte_wise=True)


SIMT: Final = Product("cutlass.Float32", "", "", 1, zero="ACC(0.0)")  # no tensor core: FMA on fp32
_TO_TF32: Final = "cutlass.Int32(cute.arch.cvt_f32_tf32({}))"  # the DSL's own cast to tf32 does not round
# Two planes of fp16 for each operand of fp32; what is done before the product is done in fp32, where they are cut.
PLANES: Final = replace(_half("cutlass.Float16"), mainloop="mainloop_planes", zero=SIMT.zero, rounded=SIMT.rounded)
_PRODUCTS: Final = {
    "bf16": _half("cutlass.BFloat16"),
    "fp16": _half("cutlass.Float16"),
    "fp8_e4m3": _fp8("cutlass.Float8E4M3FN"),
    "fp8_e5m2": _fp8("cutlass.Float8E5M2"),
    "fp32": PLANES,
    "tf32": Product(
        "cutlass.TFloat32",
        "MmaTf32Op",
        "IN, ACC",
        8,
        ("operands_k", "tf32_op"),
        rounds_bulk_loads=True,
        zero="cutlass.Int32(0)",
        moved=_TO_TF32.format("x0"),
        rounded=_TO_TF32,
        written="cute.recast_tensor({}, cutlass.Int32)",
    ),
    "int8": Product("cutlass.Int8", "warpgroup.MmaI8Op", "IN, IN, ACC", 32, zero="IN(0)"),
}


def product_of(form: GemmForm) -> Product:
    """Return what a form's products are on tensor cores. KeyError for a type that they do not multiply."""
    return _PRODUCTS[form.product_dtype]


def passed_as_bytes(form: GemmForm) -> frozenset[str]:
    """Return the tensors that the host passes as bytes."""
    product = _PRODUCTS.get(form.product_dtype)
    return frozenset(o.tensor for o in form.operands) if product and product.byte_wise else frozenset()


def sum_dtype(form: GemmForm) -> DType:
    """Return the type of the accumulator."""
    return DType.FP32 if form.mma_dtype.is_float else DType.INT32
