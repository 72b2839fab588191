"""Printed expressions: every pointwise op prints, and means on single values what torch means by it."""

import ast
import math

import dsl_stand_in
import pytest
import torch
from problem_eval import Evaluation

from kgen.backends.cutedsl.expressions import library_source, print_ops
from kgen.errors.backend import OpNotPrintedError
from kgen.ir.dtype import DType
from kgen.ir.pointwise import PointwiseOp as Op
from kgen.ir.problem import Axis, Const, Map, Problem

VALUES = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-30, -1e-30, 1e-3, -1e-3, 0.5, -0.5, 1.0, -1.0, 1.5, 2.5, -2.5]
VALUES += [3.0, -3.0, 3.7, -3.7, 6.0, 19.9, 20.5, -20.5, 88.0, -88.0, 100.0, -100.0, 1e4, -1e4, 3e38, -3e38]
SECOND = [math.nan, math.inf, 0.0, -0.0, 0.5, 1.0, -2.0, 3.7, -3e38]
PREDICATES = (Op.LOGICAL_AND, Op.LOGICAL_OR, Op.LOGICAL_NOT)
CONSTANTS = {
    Op.SOFTPLUS: [(1.0, 20.0), (2.0, 1.0), (0.5, 20.0)],
    Op.ELU: [(1.0, 1.0, 1.0), (0.7, 1.0, 1.0 / 0.7)],
    Op.LEAKY_RELU: [(0.01,), (0.2,)],
}
EMPTY = Evaluation(Problem("none", (Axis("m", 1),), (), ()), {})


def torch_value(op: Map, values: dict[str, torch.Tensor]) -> torch.Tensor:
    EMPTY.values = values
    return EMPTY.map(op)


def printed_value(op: Map, values: dict[str, float | bool]) -> float | bool:
    names = {name: name for name in values}
    wrapped = {n: dsl_stand_in.Bool(v) if isinstance(v, bool) else dsl_stand_in.F32(v) for n, v in values.items()}
    scope = dsl_stand_in.run_lines(print_ops((op,), names), wrapped)
    value = scope[names[op.result]]
    assert isinstance(value, dsl_stand_in.Bool) == (op.dtype is DType.BOOL)
    return value.value


def require_same(op: Map, values: dict[str, float | bool]) -> None:
    expected = torch_value(op, {name: torch.tensor(value) for name, value in values.items()})
    found = torch.tensor(printed_value(op, values))
    message = f"{op} on {values}: {found} and not {expected}"
    if op.dtype is DType.BOOL:
        assert bool(found) == bool(expected), message
    else:
        torch.testing.assert_close(found.float(), expected.float(), rtol=4e-6, atol=2e-7, equal_nan=True, msg=message)


def operands_of(op: Op) -> list[tuple]:
    if op in CONSTANTS:
        return [("x0", *(Const(c) for c in constants)) for constants in CONSTANTS[op]]
    if op is Op.WHERE:
        return [("x0", "x1", "x2")]
    return [("x0",)] if op.arity == 1 else [("x0", "x1")]


ONE_VALUE = [op for op in Op if op.arity == 1 and op not in (Op.CAST, *PREDICATES)] + list(CONSTANTS)
TWO_VALUES = [op for op in Op if op.arity == 2 and op not in (*PREDICATES, *CONSTANTS)]


def test_every_op_is_tried() -> None:
    assert {*ONE_VALUE, *TWO_VALUES, *PREDICATES, Op.WHERE, Op.CAST} == set(Op)


@pytest.mark.parametrize("op", ONE_VALUE)
def test_ops_on_one_value(op: Op) -> None:
    for operands in operands_of(op):
        for x in VALUES:
            require_same(Map("out", op, operands, DType.FP32), {"x0": x})


@pytest.mark.parametrize("op", TWO_VALUES)
def test_ops_on_two_values(op: Op) -> None:
    dtype = DType.BOOL if op.is_predicate else DType.FP32
    for x in VALUES:
        for y in SECOND:
            require_same(Map("out", op, ("x0", "x1"), dtype), {"x0": x, "x1": y})


@pytest.mark.parametrize("op", PREDICATES)
def test_logic(op: Op) -> None:
    for x in (True, False):
        for y in (True, False):
            operands = ("x0", "x1")[: op.arity]
            require_same(Map("out", op, operands, DType.BOOL), dict(zip(operands, (x, y), strict=False)))


def test_where_takes_the_value_whole() -> None:
    for condition in (True, False):
        for x in VALUES:
            require_same(Map("out", Op.WHERE, ("x0", "x1", Const(-math.inf)), DType.FP32), {"x0": condition, "x1": x})


@pytest.mark.parametrize("dtype", [DType.BF16, DType.FP16, DType.FP32])
def test_a_cast_rounds_where_it_is_written(dtype: DType) -> None:
    for x in (*VALUES, 1.00390625, 1.01171875, 65519.0, 65520.0, 1e-8):
        require_same(Map("out", Op.CAST, ("x0",), dtype), {"x0": x})


@pytest.mark.parametrize(
    ("constant", "text"),
    [
        (1, "1.0"),
        (0.1, "0.1"),
        (-2.5, "-2.5"),
        (True, "True"),
        (math.inf, 'float("inf")'),
        (-math.inf, 'float("-inf")'),
    ],
)
def test_constants(constant: float, text: str) -> None:
    assert print_ops((Map("out", Op.WHERE, ("c", Const(constant), "x"), DType.FP32),), {"c": "x1", "x": "x0"}) == (
        f"x2 = select(x1, {text}, x0)",
    )
    assert "nan" in print_ops((Map("out", Op.ADD, ("x", Const(math.nan)), DType.FP32),), {"x": "x0"})[0]


def test_statements_are_in_ssa_form() -> None:
    names = {"acc": "x0", "bias": "x1"}
    ops = (
        Map("wide", Op.CAST, ("acc",), DType.FP32),
        Map("sum", Op.ADD, ("wide", "bias"), DType.FP32),
        Map("gate", Op.SIGMOID, ("sum",), DType.FP32),
        Map("narrow", Op.CAST, ("gate",), DType.BF16),
        Map("out", Op.MUL, ("sum", "narrow"), DType.FP32),
    )
    assert print_ops(ops, names) == (
        "x2 = x0 + x1",
        "x3 = sigmoid(x2)",
        "x4 = x3.to(cutlass.BFloat16).to(cutlass.Float32)",
        "x5 = x2 * x4",
    )
    assert names["wide"] == "x0" and names["out"] == "x5"


@pytest.mark.parametrize("dtype", [DType.INT32, DType.INT64, DType.FP64, DType.INT8])
def test_other_types_are_refused(dtype: DType) -> None:
    with pytest.raises(OpNotPrintedError, match=f"computes in {dtype}") as caught:
        print_ops((Map("out", Op.ADD, ("x", Const(1)), dtype),), {"x": "x0"})
    assert caught.value.exit_code == 3


def test_a_kernel_takes_over_the_functions_it_calls_callees_first() -> None:
    functions = [ast.parse(text).body[0].name for text in library_source(("x1 = mish(x0)", "x2 = cute.math.exp(x1)"))]
    assert functions == ["select", "minimum", "softplus", "mish"]
    assert library_source(("x1 = x0 + 1.0",)) == ()


def test_the_library_has_no_function_that_nothing_prints() -> None:
    called = {
        node.func.id
        for op in Op
        if op is not Op.CAST
        for operands in operands_of(op)
        for line in print_ops((Map("out", op, operands, DType.FP32),), {f"x{i}": f"x{i}" for i in range(3)})
        for node in ast.walk(ast.parse(line))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    wanted = {ast.parse(text).body[0].name for text in library_source(f"{name}(x)" for name in called)}
    defined = {
        node.name for node in ast.parse(dsl_stand_in.LIBRARY.read_text()).body if isinstance(node, ast.FunctionDef)
    }
    assert wanted == defined
