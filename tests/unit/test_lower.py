"""Lowering: the text of a few Problems, the names of axes, the layout of the result, and refusals by line."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from kgen.errors import UnsupportedError
from kgen.errors.frontend import DTypeMismatchError
from kgen.frontend.importers import spec_from_callable
from kgen.frontend.lower import lower
from kgen.frontend.trace import trace
from kgen.ir.program import Program
from kgen.ir.verify_problem import verify_problem
from kgen.spec.load import load_spec, parse_spec

BF16 = torch.bfloat16
SPECS = Path(__file__).parent.parent.parent / "specs"


def e(*shape: int, dtype: torch.dtype = BF16) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype)


def program_of(fn, *inputs: torch.Tensor) -> Program:
    spec = spec_from_callable(fn, inputs, name="case")
    program = lower(trace(spec, spec.cases[0]), spec)
    for problem in program.problems:
        verify_problem(problem)
    return program


def body_of(fn, *inputs: torch.Tensor) -> list[str]:
    return [str(s) for s in program_of(fn, *inputs).problems[0].body]


def test_linear_bias_gelu_prints() -> None:
    spec = load_spec(SPECS / "linear_bf16_bias_gelu.yaml")
    assert (
        str(lower(trace(spec, spec.cases[0]), spec))
        == """\
program linear_bf16_bias_gelu(%x, %weight, %bias) -> out
problem linear_bf16_bias_gelu [m:4096, n:14336, k:4096]
  input x: bf16[4096,4096]
  input weight: bf16[14336,4096]
  input bias: bf16[14336]
  output out: bf16[4096,14336]
  x_value:bf16 = load x[m, k]
  weight_value:bf16 = load weight[n, k]
  acc:fp32 = contract[k] x_value, weight_value
  bias_value:bf16 = load bias[n]
  add:fp32 = add acc, bias_value
  gelu_tanh:fp32 = gelu_tanh add
  store gelu_tanh -> out[m, n]"""
    )


def test_a_bias_is_told_by_its_shape_alone() -> None:
    square = (e(4, 8), e(8, 4))
    row = body_of(lambda a, b, c: a @ b + c, *square, e(4))
    column = body_of(lambda a, b, c: a @ b + c, *square, e(4, 1))
    scalar = body_of(lambda a, b, c: a @ b + c, *square, e())
    assert [b[3] for b in (row, column, scalar)] == [
        "c_value:bf16 = load c[n]",
        "c_value:bf16 = load c[m, 0]",
        "c_value:bf16 = load c[]",
    ]


def test_casts_stand_where_they_are_written() -> None:
    body = body_of(lambda a, b, c: (a.float() @ b.float()).to(BF16) + c, e(4, 8), e(8, 4), e(4))
    assert [line for line in body if "cast" in line or "contract" in line] == [
        "cast:fp32 = cast a_value",
        "cast_1:fp32 = cast b_value",
        "acc:fp32 = contract[k] cast, cast_1",
        "cast_2:bf16 = cast acc",
        "add:fp32 = add cast_2, c_value",
    ]


def test_an_operand_is_rounded_to_its_dtype_before_the_product() -> None:
    body = body_of(lambda a, b: (a * 0.1) @ b, e(4, 8), e(8, 4))
    assert body[1:3] == ["mul:fp32 = mul a_value, 0.1", "cast:bf16 = cast mul"]


def test_numbers_are_rounded_where_torch_rounds_them() -> None:
    compared = body_of(lambda a, b: torch.where(a[:, :4] > 0.1, a @ b, 0.1), e(4, 8), e(8, 4))
    assert "gt:bool = gt a_value, 0.10009765625" in compared
    assert compared[-2].endswith(", 0.10009765625")
    assert "mul:fp32 = mul acc, 0.1" in body_of(lambda a, b: (a @ b) * 0.1, e(4, 8), e(8, 4))


def axes_of(text: str) -> str:
    spec = parse_spec(text, Path("case.yaml"))
    return ", ".join(str(a) for a in lower(trace(spec, spec.cases[0]), spec).problems[0].axes)


@pytest.mark.parametrize(
    ("code", "x", "w", "extents", "axes"),
    [
        ("x @ w", "[M, K]", "[K, N]", "{M: 4, N: 3, K: 8}", "m:4, n:3, k:8"),
        ("x @ w", "[B, S, K]", "[K, N]", "{B: 2, S: 4, N: 3, K: 8}", "b:2, s:4, n:3, k:8"),
        ("x @ w", "[N, K]", "[K, M]", "{M: 4, N: 3, K: 8}", "m:3, n:4, k:8"),
        ("x @ w", "[Rows, D]", "[D, Cols]", "{Rows: 4, Cols: 3, D: 8}", "rows:4, cols:3, d:8"),
        ("x @ w", "[D, D]", "[D, D]", "{D: 4}", "m:4, n:4, k:4"),
        ("x @ w", "[H, M, K]", "[H, K, N]", "{H: 2, M: 4, N: 3, K: 8}", "h:2, m:4, n:3, k:8"),
        ("(x @ w).view(4, 3, 2)", "[M, K]", "[K, N]", "{M: 4, N: 6, K: 8}", "m:4, n0:3, n1:2, k:8"),
    ],
)
def test_axes_take_the_users_names_where_they_fit(code: str, x: str, w: str, extents: str, axes: str) -> None:
    text = (
        f"name: case\nreference: |\n  def f(x, w):\n      return {code}\ninputs:\n"
        f"  x: {{shape: {x}, dtype: bf16}}\n  w: {{shape: {w}, dtype: bf16}}\nextents: {extents}\n"
    )
    assert axes_of(text) == axes


@pytest.mark.parametrize(
    ("fn", "type_"),
    [
        (lambda a, b: (a @ b).t(), "bf16[3,4]/(1,3)"),
        (lambda a, b: (a @ b)[:, ::2], "bf16[4,2]"),
        (lambda a, b: (a @ b).expand(2, 4, 3), "bf16[2,4,3]"),
        (lambda a, b: (a @ b).t().contiguous(), "bf16[3,4]"),
    ],
)
def test_the_result_is_dense_in_torchs_order(fn, type_: str) -> None:
    (out,) = program_of(fn, e(4, 8), e(8, 3)).problems[0].outputs
    assert str(out.type) == type_


def test_arguments_keep_the_signature_and_unused_ones() -> None:
    program = program_of(lambda a, unused, out: (a @ out,), e(4, 8), e(2), e(8, 3))
    assert [i.name for i in program.arguments] == ["a", "unused", "out"]
    assert program.results == ("out_1",) and program.returns_tuple
    assert [t.name for t in program.problems[0].tensors] == ["a", "out", "out_1"]


def test_signed_zeros_are_two_numbers() -> None:
    body = body_of(lambda a, b: (1 / (a @ b * 0.0)) + 1 / (a @ b * -0.0), e(4, 8), e(8, 3))
    assert [line for line in body if " mul acc" in line] == ["mul:fp32 = mul acc, 0.0", "mul_2:fp32 = mul acc, -0.0"]


def test_what_the_result_does_not_need_is_not_lowered() -> None:
    def fn(a, b):
        (a @ b).softmax(-1)
        return (a @ b).relu()

    assert len(body_of(fn, e(4, 8), e(8, 3))) == 5


@pytest.mark.parametrize(
    ("fn", "op"),
    [
        (lambda a, b: (a @ b).sort(-1)[0], "aten.sort.default"),
        (lambda a, b: F.pad(a @ b, (1, 1), mode="reflect"), "aten.pad.default is not supported with 'reflect'"),
        (lambda a, b: (a @ b)[b[:3, :1].long(), b[:3, :1].long()], "with two indices"),
        (lambda a, b: a.unsqueeze(2) @ b[0, None], "aten.matmul.default is not supported as an outer product"),
        (lambda a, b: a[:, :1].expand(4, 8) @ b, "an operand is expanded along the summed axis"),
        (lambda a, b: (a @ b).flatten()[1:9].view(2, 4), "does not split into runs of"),
    ],
)
def test_refusals_name_the_op_and_the_line(fn, op: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        program_of(fn, e(4, 8), e(8, 3))
    assert op in str(caught.value) and caught.value.exit_code == 3
    assert caught.value.where is not None and caught.value.where.file == Path(__file__).name
    assert caught.value.where.line == fn.__code__.co_firstlineno


def test_one_product_at_two_places_goes_through_a_buffer() -> None:
    program = program_of(lambda a, b: torch.mul(*(a @ b).chunk(2, -1)), e(4, 8), e(8, 4)).plain
    assert program is not None
    assert [str(b) for b in program.buffers] == ["buffer buffer_0: bf16[4,4]"]
    assert [str(s) for s in program.problems[1].body[:2]] == [
        "buffer_0_value:bf16 = load buffer_0[i, j]",
        "buffer_0_value_1:bf16 = load buffer_0[i, j + 2]",
    ]


def test_two_dtypes_are_refused_as_in_eager() -> None:
    for fn in (torch.matmul, lambda a, b: torch.einsum("mk,kn->mn", a, b), torch.mm):
        with pytest.raises(RuntimeError, match=r"fp16.*fp32|Half.*float|float16.*float32") as caught:
            program_of(fn, e(4, 8, dtype=torch.float16), e(8, 3, dtype=torch.float32))
        assert isinstance(caught.value, ValueError)
    assert issubclass(DTypeMismatchError, RuntimeError | TypeError)


def test_a_value_that_is_used_twice_at_every_step_is_lowered_once() -> None:
    def squares(a, b):
        for _ in range(40):
            a = a * a
        return a @ b

    assert len(body_of(squares, e(64, 64), e(64, 64))) == 45  # a walk of each use would take 2^40 steps
