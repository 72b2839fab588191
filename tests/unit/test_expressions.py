"""Printed expressions: every pointwise op prints in every type, and means on values what torch means by it."""

import ast
import math
import re

import dsl_stand_in
import numpy as np
import pytest
import torch
from map_eval import evaluated

from kgen.backends.cutedsl.expressions import (
    CUTEDSL,
    carried,
    carried_dtype,
    constant,
    library_names,
    library_source,
    loaded,
    memory,
    print_ops,
    stored,
)
from kgen.backends.cutedsl.forms import FORMS
from kgen.backends.flydsl.expressions import flydsl
from kgen.errors.backend import OpNotPrintedError
from kgen.frontend.dtypes import TORCH_DTYPES
from kgen.ir.dtype import DType
from kgen.ir.pointwise import PointwiseOp as Op
from kgen.ir.problem import Const, Map
from kgen.resources import templates_dir
from kgen.target import Fp8

FLOATS = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-30, -1e-30, 1e-3, -1e-3, 0.5, -0.5, 1.0, -1.0, 1.5, 2.5, -2.5]
FLOATS += [3.0, -3.0, 3.7, -3.7, 6.0, 0.99, -0.2, 19.9, 20.5, -20.5, 87.0, -88.0, 100.0, -100.0, 1e4, -1e4, 3e38, -3e38]
SECOND = [math.nan, math.inf, 0.0, -0.0, 0.5, 1.0, -2.0, 3.7, -3e38]
WHOLE = [0, 1, -1, 2, -2, 3, -3, 5, -7, 31, 63, 64, 100, -100, 127, -128]
CONSTANTS = {
    Op.SOFTPLUS: [(1.0, 20.0), (2.0, 1.0), (0.5, 20.0)],
    Op.ELU: [(1.0, 1.0, 1.0), (0.7, 1.0, 1.0 / 0.7)],
    Op.LEAKY_RELU: [(0.01,), (0.2,)],
}
NARROW = (DType.BF16, DType.FP16, DType.FP8_E4M3, DType.FP8_E5M2)
CARRIED = [d for d in DType if d not in NARROW]
DIVISIONS = (Op.FLOOR_DIVIDE, Op.TRUNC_DIVIDE, Op.REMAINDER, Op.FMOD)
LOGIC = (Op.LOGICAL_AND, Op.LOGICAL_OR, Op.LOGICAL_NOT)


def values_of(dtype: DType, values: list[float] | None = None) -> torch.Tensor:
    """Return the values of a type that ops are tried on."""
    if dtype is DType.BOOL:
        return torch.tensor([True, False])
    if dtype.is_float:
        return torch.tensor(values or FLOATS, dtype=torch.float64).to(TORCH_DTYPES[dtype])
    wide = [-(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1] if dtype.bits > 8 else []
    return torch.tensor([*WHOLE, *wide]).to(TORCH_DTYPES[dtype])


def wrapped(values: torch.Tensor, dtype: DType) -> dsl_stand_in.Value:
    """Return values as kernels read them from memory."""
    kind = dsl_stand_in.KINDS[memory(dtype).removeprefix("cutlass.")]
    array = values.float().numpy() if dtype in NARROW else values.numpy()
    return dsl_stand_in.Value(kind, array.astype(dsl_stand_in.NUMPY[kind]))


def executed(ops: tuple[Map, ...], inputs: dict[str, tuple[torch.Tensor, DType]], **options: bool) -> torch.Tensor:
    """Load the inputs, run the printed ops, and store the last result."""
    lines = [f"{name} = {loaded(f'{name}_element', dtype)}" for name, (_, dtype) in inputs.items()]
    names = {name: name for name in inputs}
    lines += print_ops(ops, names, {name: dtype for name, (_, dtype) in inputs.items()}, **options)
    last = ops[-1]
    lines.append(f"out = {stored(names[last.result], last.dtype, last.dtype)}")
    elements = {f"{name}_element": wrapped(*value) for name, value in inputs.items()}
    out = dsl_stand_in.run_lines(tuple(lines), elements)["out"]
    assert f"cutlass.{out.kind}" == memory(last.dtype), lines
    return torch.from_numpy(np.array(out.value)).to(TORCH_DTYPES[last.dtype])


def require_same(op: Map, inputs: dict[str, tuple[torch.Tensor, DType]], rtol: float, **options: bool) -> None:
    dtype = carried_dtype(op.dtype) if not op.op.is_predicate else next(iter(inputs.values()))[1]
    numbers = {o: torch.tensor(o.value, dtype=TORCH_DTYPES[dtype]) for o in op.operands if isinstance(o, Const)}
    operands = [numbers[o] if isinstance(o, Const) else inputs[o][0] for o in op.operands]
    rows = zip(*torch.broadcast_tensors(*operands), strict=True)  # one by one: torch's vectorised gelu and fmod err
    expected, found = torch.stack([evaluated(op, list(row)) for row in rows]), executed((op,), inputs, **options)
    if op.dtype.is_float:
        found, expected = found.double(), expected.double()
        atol = 0.0 if rtol == 0 else rtol / 20
        torch.testing.assert_close(found, expected, rtol=rtol, atol=atol, equal_nan=True, msg=lambda m: f"{op}: {m}")
    else:
        assert torch.equal(found, expected), f"{op}: {found} and not {expected} of {operands}"


def operands_of(op: Op) -> list[tuple]:
    if op in CONSTANTS:
        return [("x0", *(Const(c) for c in constants)) for constants in CONSTANTS[op]]
    if op is Op.WHERE:
        return [("x0", "x1", "x2")]
    return [("x0",)] if op.arity == 1 else [("x0", "x1")]


def forms(*dtypes: DType, approximate: bool = False) -> list[tuple[DType, Op]]:
    """Return every op that has a form in these types."""
    return [(d, op) for d in dtypes for op in Op if FORMS.of(op, d, approximate=approximate) is not None]


def inputs_of(op: Op, dtype: DType) -> dict[str, tuple[torch.Tensor, DType]]:
    """Return every pair of values that the op can be tried on."""
    x = values_of(dtype)
    if op is Op.WHERE:
        condition = torch.arange(len(x)) % 3 == 0
        return {"x0": (condition, DType.BOOL), "x1": (x, dtype), "x2": (x.flip(0), dtype)}
    if op.arity == 1 or op in CONSTANTS:
        return {"x0": (x[x > -(2**62)] if op is Op.ABS and not dtype.is_float else x, dtype)}
    y = values_of(dtype, SECOND)
    x, y = (t.flatten() for t in torch.meshgrid(x, y, indexing="ij"))
    kept = torch.ones(x.shape, dtype=torch.bool)
    if op in DIVISIONS and not dtype.is_float:
        kept = (y != 0) & (y != -1)
    return {"x0": (x[kept], dtype), "x1": (y[kept], dtype)}


def test_every_op_has_a_form() -> None:
    assert {op for _, op in forms(*CARRIED)} | {Op.CAST} == set(Op)


@pytest.mark.parametrize(("dtype", "op"), forms(*CARRIED))
def test_ops_mean_what_torch_means(dtype: DType, op: Op) -> None:
    for operands in operands_of(op):
        result = DType.BOOL if op.is_predicate else dtype
        rtol = 1e-12 if dtype is DType.FP64 else 4e-6
        inputs = inputs_of(op, dtype)
        if op is Op.POW:  # numpy's pow of doubles stands for both
            rtol = max(rtol, 1e-9)
        require_same(Map("out", op, operands, result), inputs, rtol)


@pytest.mark.parametrize("op", [op for _, op in forms(DType.FP32) if op not in CONSTANTS])
def test_approximations_stay_near(op: Op) -> None:
    for operands in operands_of(op):
        inputs = inputs_of(op, DType.FP32)
        require_same(
            Map("out", op, operands, DType.BOOL if op.is_predicate else DType.FP32), inputs, 1e-5, approximate=True
        )


@pytest.mark.parametrize("op", [Op.GELU_ERF, Op.GELU_TANH, Op.SOFTPLUS, Op.LOGSIGMOID, Op.MISH, Op.SIGMOID, Op.SILU])
def test_approximations_between_the_corner_cases(op: Op) -> None:
    x = torch.linspace(-30, 30, 60001, dtype=torch.float64).float()
    for operands in operands_of(op):
        found = executed((Map("out", op, operands, DType.FP32),), {"x0": (x, DType.FP32)}, approximate=True)
        exact = evaluated(
            Map("out", op, operands, DType.FP64),
            [x.double() if o == "x0" else torch.tensor(o.value, dtype=torch.float64) for o in operands],
        )
        torch.testing.assert_close(found.double(), exact, rtol=6e-6, atol=1e-12 if op is not Op.GELU_ERF else 1e-7)


@pytest.mark.parametrize("divisor", [3.0, -0.1, 2.0, 1e-30, 1e30, 0.0, math.inf, math.nan, 1e-38])
def test_approximate_division_by_a_number(divisor: float) -> None:
    op = Map("out", Op.DIV, ("x0", Const(divisor)), DType.FP32)
    require_same(op, {"x0": (values_of(DType.FP32), DType.FP32)}, 1e-6, approximate=True)


@pytest.mark.parametrize("approximate", [False, True])
@pytest.mark.parametrize("dtype", [DType.FP32, DType.FP64])
@pytest.mark.parametrize("divisor", [127.0, 448.0, 0.1, -7.3, 3, 1.0 / 3.0])
def test_a_number_is_divided_by_as_on_a_gpu(divisor: float, dtype: DType, approximate: bool) -> None:
    """PyTorch's GPU code multiplies by the inverse: the same bits, for a step behind it turns the last one into one."""
    op = Map("out", Op.DIV, ("x0", Const(divisor)), dtype)
    kind = TORCH_DTYPES[dtype]
    x = (torch.arange(1, 20001) * 0.37).to(kind)
    inverse = torch.ones((), dtype=kind) / torch.tensor(divisor, dtype=kind)
    assert torch.equal(executed((op,), {"x0": (x, dtype)}, approximate=approximate), x * inverse)
    if not approximate:
        assert torch.equal(executed((op,), {"x0": (x, dtype)}, divides=True), x / torch.tensor(divisor, dtype=kind))


@pytest.mark.parametrize("target", DType)
@pytest.mark.parametrize("source", DType)
def test_casts_and_memory(source: DType, target: DType) -> None:
    x = values_of(source)
    if source.is_float:
        more = [
            1.00390625,
            1.01171875,
            65519.0,
            65520.0,
            1e-8,
            447.0,
            464.0,
            465.0,
            61439.0,
            61440.0,
            -61441.0,
            57344.0,
        ]
        x = torch.cat([x, torch.tensor(more).to(x.dtype)])
        if not target.is_float and target is not DType.BOOL:  # beyond the type's range torch promises nothing
            limit = 2.0 ** (min(target.bits, 32) - 1)
            x = x[(x.double().abs() < limit) & (x.double() >= 0)]
    op = Map("out", Op.CAST, ("x0",), target)
    require_same(op, {"x0": (x, source)}, 0.0)
    direct = dsl_stand_in.run_lines(
        (f"x0 = {loaded('element', source)}", f"out = {stored('x0', source, target)}"), {"element": wrapped(x, source)}
    )["out"]
    found = torch.from_numpy(np.array(direct.value)).to(TORCH_DTYPES[target])
    assert torch.equal(found.double().nan_to_num(7), x.to(TORCH_DTYPES[target]).double().nan_to_num(7))


@pytest.mark.parametrize("dtype", DType)
def test_constants_have_the_carried_type(dtype: DType) -> None:
    value = dsl_stand_in.run_lines((f"out = {constant(1, dtype)}",), {})["out"]
    assert f"cutlass.{value.kind}" == carried(dtype) and value.value == 1
    if dtype.is_float:
        assert "inf" in constant(math.inf, dtype)
    assert dtype in (DType.BOOL, *NARROW) or memory(dtype) == carried(dtype)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1, "1.0"),
        (0.1, "0.1"),
        (-2.5, "-2.5"),
        (True, "True"),
        (math.inf, 'float("inf")'),
        (-math.inf, 'float("-inf")'),
    ],
)
def test_constants_in_fp32(number: float, text: str) -> None:
    assert print_ops((Map("out", Op.WHERE, ("c", Const(number), "x"), DType.FP32),), {"c": "x1", "x": "x0"}) == (
        f"x2 = select(x1, {text}, x0)",
    )
    assert "nan" in print_ops((Map("out", Op.ADD, ("x", Const(math.nan)), DType.FP32),), {"x": "x0"})[0]


def test_a_constant_alone_is_a_value() -> None:
    ops = (Map("c", Op.CAST, (Const(0.1),), DType.FP32), Map("out", Op.EXP, ("c",), DType.FP32))
    assert print_ops(ops, {})[0] == "x0 = cutlass.Float32(0.1)"
    assert executed(ops, {}).item() == pytest.approx(math.exp(0.1))
    assert executed((Map("out", Op.EXP, (Const(0.1),), DType.FP32),), {}).item() == pytest.approx(math.exp(0.1))


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8, DType.INT16, DType.INT32, DType.INT64])
def test_numbers_do_not_widen_integers(dtype: DType) -> None:
    for op in (Op.ADD, Op.MUL, Op.MAXIMUM, Op.REMAINDER, Op.SHIFT_LEFT, Op.BITWISE_AND, Op.LT):
        kept = Map("out", op, ("x0", Const(3)), DType.BOOL if op.is_predicate else dtype)
        require_same(kept, {"x0": (values_of(dtype), dtype)}, 0.0)


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


@pytest.mark.parametrize(
    ("op", "types", "named"),
    [
        (Map("out", Op.ADD, ("x", Const(1)), DType.INT32), {}, "int32"),
        (Map("out", Op.ADD, ("x", Const(1)), DType.FP64), {"x": DType.FP32}, "fp64"),
        (Map("out", Op.MUL, ("x", "y"), DType.FP32), {"x": DType.FP32, "y": DType.INT64}, "fp32"),
        (Map("out", Op.LT, ("x", "y"), DType.BOOL), {"x": DType.FP32, "y": DType.INT64}, "bool"),
        (Map("out", Op.EXP, ("x",), DType.INT32), {"x": DType.INT32}, "int32"),
        (Map("out", Op.ADD, ("x", "x"), DType.BOOL), {"x": DType.BOOL}, "bool"),
    ],
)
def test_ops_without_a_form_are_refused(op: Map, types: dict[str, DType], named: str) -> None:
    with pytest.raises(OpNotPrintedError, match=f"computes in {named}") as caught:
        print_ops((op,), {"x": "x0", "y": "x1"}, types)
    assert caught.value.exit_code == 3


def test_a_kernel_takes_over_the_functions_it_calls_callees_first() -> None:
    functions = [ast.parse(text).body[0].name for text in library_source(("x1 = mish(x0)", "x2 = cute.math.exp(x1)"))]
    assert functions == ["select", "minimum", "softplus", "mish"]
    assert library_source(("x1 = x0 + 1.0",)) == ()


def test_the_library_has_no_function_that_nothing_prints() -> None:
    names = {f"x{i}": f"x{i}" for i in range(3)}
    lines = [
        line
        for approximate in (False, True)
        for dtype, op in forms(*CARRIED)
        for operands in operands_of(op)
        for line in print_ops(
            (Map("out", op, operands, DType.BOOL if op.is_predicate else dtype),),
            dict(names),
            {name: DType.BOOL if op is Op.WHERE and name == "x0" else dtype for name in names},
            approximate=approximate,
        )
    ]
    lines += [stored("x0", DType.FP32, dtype) for dtype in NARROW]
    wanted = {ast.parse(text).body[0].name for text in library_source(lines)}
    text = (templates_dir() / "cutedsl/lib/loops.py").read_text()
    of_other_kernels = set(re.findall(r"^(?:def )?(\w+)(?:\(| = shared\.)", text, re.MULTILINE))
    assert wanted == library_names() - of_other_kernels


def test_no_function_is_written_in_two_libraries() -> None:
    texts = [(templates_dir() / f"{dsl}/lib").glob("*.py") for dsl in ("cutedsl", "flydsl")]
    one, other = (
        {ast.unparse(n) for f in files for n in ast.parse(f.read_text()).body if isinstance(n, ast.FunctionDef)}
        for files in texts
    )
    assert not one & other
    libraries = CUTEDSL, flydsl(Fp8.OCP)
    shared = re.findall(r"^def (\w+)", (templates_dir() / "lib/shared.py").read_text(), re.MULTILINE)
    assert all(library.library_names() >= set(shared) for library in libraries)
    for name in shared:
        assert len({library.library_source([name])[-1] for library in libraries}) == 1
