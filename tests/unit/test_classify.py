"""Classification: every spelling gives the matrices it should, and what is no single product is refused by name."""

from dataclasses import replace

import pytest
import spellings
import torch
import torch.nn.functional as F
from form_eval import evaluate_form
from problem_eval import evaluate

from kgen.errors import UnsupportedError
from kgen.errors.family import (
    MixedOperandError,
    NotOneProductError,
    RangedExtentError,
    TooManyBatchAxesError,
    UnfoldableAxesError,
)
from kgen.families.gemm.classify import classify_gemm, free_strides
from kgen.families.gemm.form import GemmForm
from kgen.frontend.importers import spec_from_callable
from kgen.frontend.lower import lower
from kgen.frontend.trace import trace, trace_live
from kgen.ir.access import Access, Affine, Bound
from kgen.ir.dtype import DType
from kgen.ir.pointwise import PointwiseOp
from kgen.ir.problem import Axis, Combine, Contract, Load, Map, Problem, ProblemTensor, Reduce, Store, TensorRole
from kgen.ir.tensor import ExtentRange, TensorType

BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
# Sums in another order, then one rounding of the result; the interpreter rounds at the same places.
_TOLERANCE = {FP32: 1e-4, FP16: 4e-3, BF16: 3e-2}


def e(*shape: int, dtype: torch.dtype = BF16, stride: tuple[int, ...] | None = None) -> torch.Tensor:
    return torch.empty_strided(shape, stride, dtype=dtype) if stride else torch.empty(shape, dtype=dtype)


def form_of(fn, *inputs: torch.Tensor) -> GemmForm:
    spec = spec_from_callable(fn, inputs, name="case")
    return classify_gemm(lower(trace(spec, spec.cases[0]), spec).problems[0])


# Sums over two axes that lie in the operands' memory in two orders, or far apart.
UNFOLDABLE = ("addbmm", "tensordot")
NAMES = [*spellings.PRODUCTS, *spellings.VIEWS, *spellings.EPILOGUES, *spellings.REDUCED]


@pytest.mark.parametrize("name", [name for name in NAMES if name not in UNFOLDABLE])
def test_the_form_means_what_torch_computes(name: str) -> None:
    fn, *inputs = spellings.ALL[name]
    spec = spec_from_callable(fn, inputs, name="case")
    traced = trace_live(spec, spec.cases[0])
    (problem,) = lower(traced.graph, spec).problems
    tensors = {i.name: x for i, x in zip(spec.inputs, inputs, strict=True)} | traced.hidden
    form = classify_gemm(problem)
    found, expected = evaluate_form(form, problem, tensors), fn(*(x.clone() for x in inputs))
    tolerance = max(_TOLERANCE.get(x.dtype, 0) for x in (*inputs, expected))
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
    exchanged = evaluate_form(form.exchanged, problem, tensors)
    torch.testing.assert_close(exchanged, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
    torch.testing.assert_close(found, evaluate(problem, tensors), rtol=tolerance, atol=tolerance, equal_nan=True)


# (reference, inputs), then m, n, k, batch, and the strides of A (m, k, *batch), B (n, k, *batch), D (m, n, *batch)
SHAPES = {
    "plain": (lambda a, b: a @ b, e(4, 8), e(8, 6), (4, 6, 8, ()), (8, 1), (1, 6), (6, 1)),
    "linear": (F.linear, e(4, 8), e(6, 8), (4, 6, 8, ()), (8, 1), (8, 1), (6, 1)),
    "both_transposed": (lambda a, b: a.T @ b.T, e(8, 4), e(6, 8), (4, 6, 8, ()), (1, 4), (8, 1), (6, 1)),
    "padded": (
        lambda a, b: a @ b,
        e(4, 8, stride=(16, 1)),
        e(8, 6, stride=(24, 1)),
        (4, 6, 8, ()),
        (16, 1),
        (1, 24),
        (6, 1),
    ),
    "batch": (torch.bmm, e(3, 4, 8), e(3, 8, 6), (4, 6, 8, (3,)), (8, 1, 32), (1, 6, 48), (6, 1, 24)),
    "two_batches_fold": (
        torch.matmul,
        e(2, 3, 4, 8),
        e(2, 3, 8, 6),
        (4, 6, 8, (6,)),
        (8, 1, 32),
        (1, 6, 48),
        (6, 1, 24),
    ),
    "batch_and_rows_fold_into_m": (F.linear, e(2, 5, 8), e(6, 8), (10, 6, 8, ()), (8, 1), (8, 1), (6, 1)),
    "rows_that_do_not_fold": (
        F.linear,
        e(2, 5, 8, stride=(80, 8, 1)),
        e(6, 8),
        (5, 6, 8, (2,)),
        (8, 1, 80),
        (8, 1, None),
        (6, 1, 30),
    ),
    "bias_of_rows_keeps_them_apart": (
        lambda a, b, c: a @ b + c,
        e(2, 5, 8),
        e(8, 6),
        e(5, 1),
        (5, 6, 8, (2,)),
        (8, 1, 40),
        (1, 6, None),
        (6, 1, 30),
    ),
    "broadcast_both_ways": (
        torch.matmul,
        e(4, 1, 5, 8),
        e(3, 8, 2),
        (5, 2, 8, (4, 3)),
        (8, 1, 40, None),
        (1, 2, None, 16),
        (2, 1, 30, 10),
    ),
    "heads_between_rows": (
        lambda q, k: torch.einsum("bmhd,bnhd->bhmn", q, k),
        e(2, 5, 3, 4),
        e(2, 6, 3, 4),
        (5, 6, 4, (2, 3)),
        (12, 1, 60, 4),
        (12, 1, 72, 4),
        (6, 1, 90, 30),
    ),
    "two_axes_of_k": (
        lambda a, b: torch.tensordot(a, b, dims=([1, 2], [1, 2])),
        e(3, 4, 5),
        e(6, 4, 5),
        (3, 6, 20, ()),
        (20, 1),
        (20, 1),
        (6, 1),
    ),
    "same_tensor_twice": (lambda x: x @ x.T, e(4, 8), (4, 4, 8, ()), (8, 1), (8, 1), (4, 1)),
    "one_row": (lambda a, b: a @ b, e(1, 8), e(8, 6), (1, 6, 8, ()), (16, 1), (1, 6), (16, 1)),
    "k_zero": (lambda a, b: a @ b, e(4, 0), e(0, 6), (4, 6, 0, ()), (1, 1), (1, 6), (6, 1)),
    "empty": (lambda a, b: a @ b, e(0, 8), e(8, 6), (0, 6, 8, ()), (8, 1), (1, 6), (6, 1)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_extents_and_strides(name: str) -> None:
    fn, *inputs, extents, a, b, d = SHAPES[name]
    form = form_of(fn, *inputs)
    assert (form.m, form.n, form.k, form.batch) == extents
    assert (form.a.outer, form.a.k, *form.a.batch) == a
    assert (form.b.outer, form.b.k, *form.b.batch) == b
    assert (form.d.m, form.d.n, *form.d.batch) == d


def test_operands_swap_when_rows_of_d_run_along_the_first() -> None:
    form = form_of(lambda a, b: (a @ b).T, e(4, 8), e(8, 6))
    assert (form.a.tensor, form.b.tensor) == ("a", "b")  # torch lays the transposed result out along n
    swapped = form_of(lambda a, b: (a @ b).T.contiguous(), e(4, 8), e(8, 6))
    assert (swapped.a.tensor, swapped.b.tensor) == ("b", "a")
    assert (swapped.m, swapped.n, swapped.d.m, swapped.d.n) == (6, 4, 4, 1)
    assert (swapped.a.outer, swapped.a.k, swapped.b.outer, swapped.b.k) == (1, 6, 8, 1)


def test_a_single_column_is_computed_as_a_row() -> None:
    form = form_of(lambda a, b: a @ b, e(64, 8), e(8, 1))
    assert (form.m, form.n, form.a.tensor, form.d.n) == (1, 64, "b", 1)


def test_swapped_operands_keep_their_own_input_ops() -> None:
    form = form_of(lambda a, b: ((a * 2) @ b.relu()).T.contiguous(), e(4, 8), e(8, 6))
    assert [op.op for op in form.a_ops.ops] == [PointwiseOp.RELU, PointwiseOp.CAST]
    assert [op.op for op in form.b_ops.ops] == [PointwiseOp.MUL, PointwiseOp.CAST]
    assert (form.a.tensor, form.b.tensor) == ("b", "a")


@pytest.mark.parametrize(
    ("strides", "expected"),
    [
        ((8, 1, 4, 8), (8, 1)),
        ((0, 1, 1, 8), (16, 1)),  # one row: any row length that is aligned
        ((3, 5, 1, 8), (1, 5)),
        ((7, 0, 4, 1), (7, 1)),  # one column
        ((1, 0, 20, 1), (1, 32)),
        ((0, 0, 1, 1), (16, 1)),
        ((1, 1, 1, 1), (16, 1)),
    ],
)
def test_an_extent_of_one_gets_a_stride_that_suits(strides: tuple[int, int, int, int], expected) -> None:
    assert free_strides(*strides) == expected


def test_widening_casts_are_dropped_in_pairs_only() -> None:
    both = form_of(lambda a, b: a.float() @ b.float(), e(4, 8), e(8, 6))
    assert (both.mma_dtype, both.a_ops.ops, both.b_ops.ops) == (DType.BF16, (), ())
    one = form_of(lambda a, b: a.float() @ b, e(4, 8), e(8, 6, dtype=FP32))
    assert (one.mma_dtype, len(one.a_ops.ops), one.b_ops.ops) == (DType.FP32, 1, ())
    other = form_of(lambda a, b: a.float() @ b.float(), e(4, 8), e(8, 6, dtype=FP16))
    assert (other.mma_dtype, len(other.a_ops.ops), len(other.b_ops.ops)) == (DType.FP32, 1, 1)


def test_an_op_after_the_cast_keeps_the_product_in_fp32() -> None:
    form = form_of(lambda a, b: (a.float() * 0.3) @ b.float(), e(4, 8), e(8, 6))
    assert form.mma_dtype is DType.FP32 and [op.op for op in form.a_ops.ops] == [PointwiseOp.CAST, PointwiseOp.MUL]


def test_input_ops_may_use_their_value_twice() -> None:
    form = form_of(lambda a, b: (a * torch.sigmoid(a)) @ b, e(4, 8), e(8, 6))
    assert [op.op for op in form.a_ops.ops] == [PointwiseOp.SIGMOID, PointwiseOp.MUL, PointwiseOp.CAST]


def test_one_tensor_may_be_operand_and_residual() -> None:
    form = form_of(lambda a, b: a @ b + a, e(8, 8), e(8, 8))
    assert [(load.source.tensor, load.source.m, load.source.n) for load in form.epilogue_loads] == [("a", 8, 1)]


@pytest.mark.parametrize(
    ("bias", "strides"),
    [((6,), (0, 1)), ((4, 1), (1, 0)), ((4, 6), (6, 1)), ((1, 6), (0, 1)), ((), (0, 0)), ((1, 1), (0, 0))],
)
def test_broadcast_of_an_epilogue_operand(bias: tuple[int, ...], strides: tuple[int, int]) -> None:
    (load,) = form_of(lambda a, b, c: a @ b + c, e(4, 8), e(8, 6), e(*bias)).epilogue_loads
    assert (load.source.m, load.source.n) == strides


def test_flops_and_bytes() -> None:
    form = form_of(lambda a, b, c: a @ b + c, e(2, 4, 8), e(8, 6), e(6, dtype=FP32))
    assert form.flops == 2 * 8 * 6 * 8
    assert form.bytes == 2 * (8 * 8 + 8 * 6) + 4 * (8 * 6 + 6)


@pytest.mark.parametrize(("name", "tensor"), [("addbmm", "a"), ("tensordot", "b")])
def test_unfoldable_summed_axes_are_refused(name: str, tensor: str) -> None:
    fn, *inputs = spellings.ALL[name]
    with pytest.raises(UnfoldableAxesError, match=f"cannot be walked with one stride: {tensor} has strides") as caught:
        form_of(fn, *inputs)
    assert caught.value.exit_code == 3


def test_too_many_batch_modes_are_refused() -> None:
    a, b = e(2, 3, 2, 3, 4, 8), e(2, 3, 2, 3, 8, 5)
    assert form_of(torch.matmul, a, b).batch == (36,)
    broadcast = (e(2, 1, 2, 1, 4, 8), e(1, 3, 1, 3, 8, 5))
    with pytest.raises(TooManyBatchAxesError, match="needs 4 batch modes"):
        form_of(torch.matmul, *broadcast)


# Problems that the front end does not make: written down by hand.


def load(name: str, *axes: str, dtype: DType = DType.BF16) -> Load:
    return Load(f"{name}_value", Access(name, tuple(Affine.of(a) for a in axes)), dtype)


def hand_written(
    *body, extents: dict[str, object] | None = None, types: dict[str, TensorType] | None = None
) -> Problem:
    m, n, k = 4, 6, 8
    shapes = {"a": (m, k), "b": (n, k), "c": (n, k), "out": (m, n)}
    types = {name: TensorType.contiguous(DType.BF16, shape) for name, shape in shapes.items()} | (types or {})
    roles = {name: TensorRole.OUTPUT if name == "out" else TensorRole.INPUT for name in shapes}
    axes = {"m": m, "n": n, "k": k} | (extents or {})
    return Problem(
        "case",
        tuple(Axis(name, extent) for name, extent in axes.items()),
        tuple(ProblemTensor(name, types[name], roles[name]) for name in shapes),
        body,
    )


PRODUCT = Contract("acc", "a_value", "b_value", ("k",), DType.FP32)
OUT = Access("out", (Affine.of("m"), Affine.of("n")))


def gated(*operands: str) -> Problem:
    """Return the problem of a gate whose second product has these operands."""
    return hand_written(
        load("a", "m", "k"),
        load("b", "n", "k"),
        load("c", "n", "k"),
        PRODUCT,
        Contract("up", *operands, ("k",), DType.FP32),
        Map("gated", PointwiseOp.MUL, ("acc", "up"), DType.FP32),
        Store("gated", OUT),
    )


def test_a_gate_shares_one_operand() -> None:
    form = classify_gemm(gated("a_value", "c_value"))
    assert form.a.tensor == "a" and form.b.tensor == "b" and form.second is not None
    assert form.second.b.tensor == "c" and form.second.accumulator == "up"
    with pytest.raises(NotOneProductError, match="share no operand"):
        classify_gemm(gated("c_value", "c_value"))


def test_a_third_product_is_refused() -> None:
    problem = gated("a_value", "c_value")
    third = Contract("third", "a_value", "c_value", ("k",), DType.FP32)
    with pytest.raises(NotOneProductError, match="it has 3 Contract statements"):
        classify_gemm(replace(problem, body=(*problem.body[:-1], third, problem.body[-1])))


def test_a_row_reduction_after_the_product_is_refused() -> None:
    problem = hand_written(
        load("a", "m", "k"),
        load("b", "n", "k"),
        PRODUCT,
        Reduce("largest", Combine.MAX, "acc", ("n",), DType.FP32),
        Map("shifted", PointwiseOp.SUB, ("acc", "largest"), DType.FP32),
        Store("shifted", OUT),
    )
    with pytest.raises(NotOneProductError, match=r"it has `largest:fp32 = reduce\.max\[n\] acc`"):
        classify_gemm(problem)


def test_two_tensors_before_the_product_are_refused() -> None:
    problem = hand_written(
        load("a", "m", "k"),
        load("b", "n", "k"),
        load("c", "n", "k"),
        Map("sum", PointwiseOp.ADD, ("b_value", "c_value"), DType.BF16),
        Contract("acc", "a_value", "sum", ("k",), DType.FP32),
        Store("acc", OUT),
    )
    with pytest.raises(NotOneProductError, match="`sum:bf16 = add b_value, c_value` before it mixes 2 tensors"):
        classify_gemm(problem)


def test_a_padded_operand_is_refused() -> None:
    inside = (Bound(Affine.of("k"), Affine((), 0), Affine((), 7)),)
    padded = Load("a_value", Access("a", (Affine.of("m"), Affine.of("k")), inside), DType.BF16)
    problem = hand_written(padded, load("b", "n", "k"), PRODUCT, Store("acc", OUT))
    with pytest.raises(NotOneProductError, match="is padded, gathered or divided"):
        classify_gemm(problem)


def test_a_ranged_extent_is_refused() -> None:
    rows = ExtentRange("M", 1, 64)
    types = {"a": TensorType(DType.BF16, (rows, 8), (8, 1)), "out": TensorType(DType.BF16, (rows, 6), (6, 1))}
    body = (load("a", "m", "k"), load("b", "n", "k"), PRODUCT, Store("acc", OUT))
    with pytest.raises(RangedExtentError, match=r"axis m of case has the extent M\[1\.\.64\]"):
        classify_gemm(hand_written(*body, extents={"m": rows}, types=types))


def test_mixed_operands_are_refused() -> None:
    types = {"b": TensorType.contiguous(DType.FP16, (6, 8))}
    problem = hand_written(
        load("a", "m", "k"), load("b", "n", "k", dtype=DType.FP16), PRODUCT, Store("acc", OUT), types=types
    )
    with pytest.raises(MixedOperandError, match="multiplies bf16 by fp16") as caught:
        classify_gemm(problem)
    assert isinstance(caught.value, UnsupportedError)
