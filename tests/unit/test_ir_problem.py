"""Problems of several families can be written down, verified and printed: none of them is a special case of the IR."""

from dataclasses import replace

import pytest

from kgen.ir.access import Access, Affine, Bound
from kgen.ir.dtype import DType
from kgen.ir.pointwise import PointwiseOp as Op
from kgen.ir.problem import (
    Axis,
    Combine,
    Const,
    Contract,
    Index,
    Load,
    Map,
    Problem,
    ProblemTensor,
    Reduce,
    Store,
    TensorRole,
)
from kgen.ir.tensor import ExtentRange, TensorType
from kgen.ir.verify_problem import ProblemInvariantError, verify_problem

BF16, FP32, BOOL = DType.BF16, DType.FP32, DType.BOOL
IN, OUT = TensorRole.INPUT, TensorRole.OUTPUT


def at(tensor: str, *axes: str) -> Access:
    return Access(tensor, tuple(Affine.of(a) for a in axes))


def tensor(name: str, role: TensorRole, *shape: int) -> ProblemTensor:
    return ProblemTensor(name, TensorType.contiguous(BF16, shape), role)


def axes(**extents: int) -> tuple[Axis, ...]:
    return tuple(Axis(name, extent) for name, extent in extents.items())


GATED = Problem(
    "gated_gemm",
    axes(m=256, n=512, k=1024),
    (
        tensor("x", IN, 256, 1024),
        tensor("gate", IN, 512, 1024),
        tensor("up", IN, 512, 1024),
        tensor("out", OUT, 256, 512),
    ),
    (
        Load("x_value", at("x", "m", "k"), BF16),
        Load("gate_value", at("gate", "n", "k"), BF16),
        Load("up_value", at("up", "n", "k"), BF16),
        Contract("g", "x_value", "gate_value", ("k",), FP32),
        Contract("u", "x_value", "up_value", ("k",), FP32),
        Map("silu", Op.SILU, ("g",), FP32),
        Map("mul", Op.MUL, ("silu", "u"), FP32),
        Store("mul", at("out", "m", "n")),
    ),
)

NORM = Problem(
    "rms_norm_residual",
    (Axis("r", ExtentRange("rows", 1, 65536)), Axis("c", 4096)),
    (
        tensor("x", IN, 65536, 4096),
        tensor("res", IN, 65536, 4096),
        tensor("w", IN, 4096),
        tensor("y", OUT, 65536, 4096),
        tensor("h", OUT, 65536, 4096),
    ),
    (
        Load("x_value", at("x", "r", "c"), BF16),
        Load("res_value", at("res", "r", "c"), BF16),
        Map("sum", Op.ADD, ("x_value", "res_value"), FP32),
        Map("square", Op.MUL, ("sum", "sum"), FP32),
        Reduce("total", Combine.SUM, "square", ("c",), FP32),
        Map("mean", Op.MUL, ("total", Const(1 / 4096)), FP32),
        Map("shifted", Op.ADD, ("mean", Const(1e-6)), FP32),
        Map("rstd", Op.RSQRT, ("shifted",), FP32),
        Map("scaled", Op.MUL, ("sum", "rstd"), FP32),
        Load("w_value", at("w", "c"), BF16),
        Map("out", Op.MUL, ("scaled", "w_value"), FP32),
        Store("out", at("y", "r", "c")),
        Store("sum", at("h", "r", "c")),
    ),
)

# Eight query heads on two key heads: head h reads key head h // 4.
_KEY_HEAD = Affine((("h", 1),), divisor=4)
ATTENTION = Problem(
    "attention",
    axes(b=2, h=8, i=128, j=128, d=64, e=64),
    (
        tensor("q", IN, 2, 8, 128, 64),
        tensor("k", IN, 2, 2, 128, 64),
        tensor("v", IN, 2, 2, 128, 64),
        tensor("o", OUT, 2, 8, 128, 64),
    ),
    (
        Load("q_value", at("q", "b", "h", "i", "d"), BF16),
        Load("k_value", Access("k", (Affine.of("b"), _KEY_HEAD, Affine.of("j"), Affine.of("d"))), BF16),
        Contract("s", "q_value", "k_value", ("d",), FP32),
        Map("scaled", Op.MUL, ("s", Const(0.125)), FP32),
        Index("row", "i"),
        Index("column", "j"),
        Map("seen", Op.LE, ("column", "row"), BOOL),
        Map("masked", Op.WHERE, ("seen", "scaled", Const(float("-inf"))), FP32),
        Reduce("top", Combine.MAX, "masked", ("j",), FP32),
        Map("below", Op.SUB, ("masked", "top"), FP32),
        Map("p", Op.EXP, ("below",), FP32),
        Reduce("total", Combine.SUM, "p", ("j",), FP32),
        Map("p_bf16", Op.CAST, ("p",), BF16),
        Load("v_value", Access("v", (Affine.of("b"), _KEY_HEAD, Affine.of("j"), Affine.of("e"))), BF16),
        Contract("weighted", "p_bf16", "v_value", ("j",), FP32),
        Map("o_value", Op.DIV, ("weighted", "total"), FP32),
        Store("o_value", at("o", "b", "h", "i", "e")),
    ),
)


def _tap(outer: str, inner: str) -> Affine:
    return Affine(((outer, 1), (inner, 1)), -1)


def _inside(index: Affine) -> Bound:
    return Bound(index, Affine(), Affine((), 32))


CONVOLUTION = Problem(
    "convolution",
    axes(n=2, o=64, y=32, x=32, c=16, r=3, s=3),
    (tensor("image", IN, 2, 16, 32, 32), tensor("filter", IN, 64, 16, 3, 3), tensor("out", OUT, 2, 64, 32, 32)),
    (
        Load(
            "pixel",
            Access(
                "image",
                (Affine.of("n"), Affine.of("c"), _tap("y", "r"), _tap("x", "s")),
                (_inside(_tap("y", "r")), _inside(_tap("x", "s"))),
            ),
            BF16,
        ),
        Load("weight", at("filter", "o", "c", "r", "s"), BF16),
        Contract("acc", "pixel", "weight", ("c", "r", "s"), FP32),
        Store("acc", at("out", "n", "o", "y", "x")),
    ),
)


@pytest.mark.parametrize("problem", [GATED, NORM, ATTENTION, CONVOLUTION], ids=lambda p: p.name)
def test_problem_is_whole(problem: Problem) -> None:
    verify_problem(problem)
    lines = str(problem).splitlines()
    assert len(lines) == 1 + len(problem.tensors) + len(problem.body)
    assert all(line.isascii() and len(line) < 120 for line in lines)


def test_gated_gemm_prints() -> None:
    assert (
        str(GATED)
        == """\
problem gated_gemm [m:256, n:512, k:1024]
  input x: bf16[256,1024]
  input gate: bf16[512,1024]
  input up: bf16[512,1024]
  output out: bf16[256,512]
  x_value:bf16 = load x[m, k]
  gate_value:bf16 = load gate[n, k]
  up_value:bf16 = load up[n, k]
  g:fp32 = contract[k] x_value, gate_value
  u:fp32 = contract[k] x_value, up_value
  silu:fp32 = silu g
  mul:fp32 = mul silu, u
  store mul -> out[m, n]"""
    )


def test_norm_has_two_outputs_and_a_range() -> None:
    assert [t.name for t in NORM.outputs] == ["y", "h"]
    text = str(NORM)
    assert text.startswith("problem rms_norm_residual [r:rows[1..65536], c:4096]")
    assert "total:fp32 = reduce.sum[c] square" in text


def test_grouped_heads_and_padding_are_accesses() -> None:
    assert "k_value:bf16 = load k[b, h//4, j, d]" in str(ATTENTION)
    assert (
        "pixel:bf16 = load image[n, c, y + r - 1, x + s - 1] where 0 <= y + r - 1 < 32 and 0 <= x + s - 1 < 32 else 0"
    ) in str(CONVOLUTION)


def _swap(problem: Problem, position: int, **fields: object) -> Problem:
    body = list(problem.body)
    body[position] = replace(body[position], **fields)  # type: ignore[type-var]
    return replace(problem, body=tuple(body))


@pytest.mark.parametrize(
    ("broken", "invariant"),
    [
        (_swap(GATED, 3, lhs="nothing"), "value nothing is defined before its use"),
        (_swap(GATED, 3, axes=("n",)), "both operands vary along each contracted axis"),
        (_swap(GATED, 4, result="g"), "value g is defined once"),
        (_swap(GATED, 0, access=at("x", "m")), "x takes 2 indices"),
        (_swap(GATED, 0, access=at("x", "m", "z")), "every axis is declared"),
        (_swap(GATED, 0, access=at("y", "m", "k")), "tensor y is declared"),
        (_swap(GATED, 0, access=at("out", "m", "n")), "an output is not read"),
        (_swap(GATED, 7, access=at("x", "m", "k")), "an input is not written"),
        (_swap(GATED, 7, access=at("out", "m", "m")), "the value varies along stored axes only"),
        (_swap(GATED, 6, operands=("silu",)), "mul takes 2 operands"),
        (replace(GATED, body=GATED.body[:-1]), "every output is stored once"),
        (replace(GATED, axes=GATED.axes[:1] + GATED.axes), "axis names are unique"),
        (_swap(NORM, 4, axes=("z",)), "the operand varies along each reduced axis"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_broken_problem_is_refused(broken: Problem, invariant: str) -> None:
    with pytest.raises(ProblemInvariantError) as caught:
        verify_problem(broken)
    assert invariant in str(caught.value)
