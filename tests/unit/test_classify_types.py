"""Products of fp8, int8 and tf32 operands: what they are called, and which casts and scales become part of them."""

from dataclasses import replace

import pytest
import torch

from kgen.errors.frontend import UnsupportedOpError
from kgen.families.classify import classify
from kgen.families.gemm.facts import facts_of
from kgen.families.gemm.form import GemmForm
from kgen.families.gemm.rules import multiplies_tf32
from kgen.frontend.importers import spec_from_callable
from kgen.frontend.lower import lower
from kgen.frontend.trace import trace
from kgen.ir.pointwise import PointwiseOp
from kgen.ir.problem import Precision
from kgen.spec.model import Spec
from kgen.target import load_device

FP8, FP32, INT8 = torch.float8_e4m3fn, torch.float32, torch.int8


def e(*shape: int, dtype: torch.dtype = FP32, columns: bool = False) -> torch.Tensor:
    return torch.empty(shape[::-1], dtype=dtype).mT if columns else torch.empty(shape, dtype=dtype)


def form_of(spec: Spec, device: str = "h200") -> GemmForm:
    form = classify(lower(trace(spec, spec.cases[0]), spec).problems[0], load_device(device))
    assert isinstance(form, GemmForm)
    return form


def spec_of(fn, *inputs: torch.Tensor, precision: Precision = Precision.DEFAULT) -> Spec:
    return replace(spec_from_callable(fn, inputs, name="case"), precision=precision)


def scaled(a, b, s, t):
    return torch._scaled_mm(a, b, scale_a=s, scale_b=t, out_dtype=torch.bfloat16)


@pytest.mark.parametrize("by_row", [True, False])
def test_scaled_mm_is_a_product_of_fp8_with_scales_after_it(by_row: bool) -> None:
    scales = (e(64, 1), e(1, 128)) if by_row else (e(1), e())
    form = form_of(spec_of(scaled, e(64, 32, dtype=FP8), e(32, 128, dtype=FP8, columns=True), *scales))
    assert (form.mma_dtype, form.a_ops.ops, form.b_ops.ops) == ("fp8_e4m3", (), ())
    assert [op.op for op in form.epilogue_ops] == [PointwiseOp.MUL, PointwiseOp.MUL]
    assert [(x.source.m, x.source.n) for x in form.epilogue_loads] == ([(1, 0), (0, 1)] if by_row else [(0, 0), (0, 0)])


def test_scales_of_other_blocks_are_refused() -> None:
    from kgen.frontend.bind import bind
    from kgen.frontend.expand.builder import Builder
    from kgen.frontend.expand.scaled import SCALED
    from kgen.ir.dtype import DType
    from kgen.ir.graph import GraphInput, InputKind, Node, OpGraph, ValueRef
    from kgen.ir.tensor import TensorType

    types = {"a": (64, 256), "b": (256, 128), "s": (64, 4), "t": (4, 2)}
    inputs = tuple(
        GraphInput(n, InputKind.USER, TensorType.contiguous(DType.FP8_E4M3 if n in "ab" else DType.FP32, shape))
        for n, shape in types.items()
    )
    result = (TensorType.contiguous(DType.BF16, (64, 128)),)
    op = "aten._scaled_mm.default"
    node = Node("x", op, tuple(ValueRef(n) for n in types), (), result, None)
    names, defaults, rule = SCALED[op]
    builder = Builder(OpGraph("case", inputs, (node,), (ValueRef("x"),), ()))
    with pytest.raises(UnsupportedOpError, match="with these scales"):
        rule(builder, bind(node, names, **defaults))


def test_bytes_are_multiplied_as_they_are() -> None:
    ints = form_of(spec_of(lambda a, b: a.int() @ b.int(), e(64, 32, dtype=INT8), e(32, 128, dtype=INT8)))
    assert (ints.mma_dtype, ints.a_ops.ops) == ("int8", ())
    floats = form_of(spec_of(lambda a, b: a.float() @ b.float(), e(64, 32, dtype=INT8), e(32, 128, dtype=INT8)))
    assert floats.mma_dtype == "fp32" and floats.a_ops.ops  # sums of fp32 round: another product


@pytest.mark.parametrize(
    ("columns", "device", "name"),
    [(True, "h200", "tf32"), (False, "h200", "fp32"), (True, "mi300x", "fp32")],
)
def test_tf32_is_taken_where_it_is_asked_for_and_can_be_read(columns: bool, device: str, name: str) -> None:
    operands = (e(64, 32), e(32, 128, columns=columns))
    assert form_of(spec_of(torch.matmul, *operands, precision=Precision.TF32), device).product_dtype == name
    assert form_of(spec_of(torch.matmul, *operands), device).product_dtype == "fp32"


def test_ieee_products_are_a_fact_of_fp32_alone() -> None:
    words, halves = (e(64, 32), e(32, 128)), (e(64, 32, dtype=torch.half), e(32, 128, dtype=torch.half))
    for operands, ieee in ((words, 1), (halves, 0)):
        form = form_of(spec_of(torch.matmul, *operands, precision=Precision.IEEE))
        assert (form.product_dtype in ("fp32", "fp16"), facts_of(form, 16).ieee) == (True, ieee)


def test_of_callables_the_flag_of_torch_decides() -> None:
    before = torch.backends.cuda.matmul.allow_tf32
    try:
        torch.backends.cuda.matmul.allow_tf32 = True
        spec = spec_from_callable(torch.matmul, (e(64, 32), e(32, 128)), name="case")
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    assert spec.precision is Precision.TF32 and spec.tolerance.rel_err == 1e-3


def test_which_devices_multiply_tf32() -> None:
    assert multiplies_tf32(load_device("h200")) and not multiplies_tf32(load_device("mi355x"))
