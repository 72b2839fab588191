"""torch's pointwise operations on every element type: lowered, printed and executed, against torch itself."""

import math
import warnings
from collections.abc import Callable

import dsl_stand_in
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from test_expressions import values_of, wrapped

from kgen.backends.cutedsl.expressions import carried_dtype, loaded, print_ops, stored
from kgen.errors.frontend import ScalarOverflowError, UnsupportedOpError
from kgen.frontend.dtypes import TORCH_DTYPES, dtype_of
from kgen.frontend.importers import spec_from_callable
from kgen.frontend.lower import lower
from kgen.frontend.trace import trace
from kgen.ir.dtype import DType
from kgen.ir.problem import Load, Map, Problem, Store
from kgen.ir.program import Program
from kgen.ir.verify_problem import verify_problem

FLOATS = (DType.FP64, DType.FP32, DType.BF16, DType.FP16)
INTEGERS = (DType.INT64, DType.INT32, DType.INT16, DType.INT8, DType.UINT8)
NUMBERS = (*FLOATS, *INTEGERS)
ALL = (*NUMBERS, DType.BOOL)
BITS = (*INTEGERS, DType.BOOL)
LENGTH = 24
Function = Callable[..., torch.Tensor]
RTOL = {DType.FP64: 1e-9, DType.FP32: 1e-5, DType.BF16: 8e-3, DType.FP16: 1e-3}


def tensor(dtype: DType, seed: int = 0) -> torch.Tensor:
    """Return values of a type, corner cases among them."""
    generator = torch.Generator().manual_seed(seed)
    values = values_of(dtype)
    return values[torch.randint(len(values), (LENGTH,), generator=generator)]


def program_of(fn: Callable[..., object], *inputs: torch.Tensor) -> Program:
    spec = spec_from_callable(fn, inputs, name="case")
    program = lower(trace(spec, spec.cases[0]), spec)
    for problem in program.problems:
        verify_problem(problem)
    return program


def problem_of(fn: Callable[..., object], *inputs: torch.Tensor) -> Problem:
    (problem,) = program_of(fn, *inputs).problems
    return problem


def executed(program: Program, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Run the printed statements of a program whose accesses all go along one axis; return all tensors."""
    for problem in program.problems:
        lines, names, types, elements = [], {}, {}, {}
        for statement in problem.body:
            match statement:
                case Load(result=result, access=access, dtype=dtype):
                    elements[f"{result}_element"] = wrapped(tensors[access.tensor], dtype)
                    lines.append(f"{result} = {loaded(f'{result}_element', dtype)}")
                    names[result], types[result] = result, dtype
                case Map():
                    lines += print_ops((statement,), names, types)
                    types[statement.result] = statement.dtype
                case Store(value=value, access=access):
                    target = problem.tensor(access.tensor).type.dtype
                    lines.append(f"{access.tensor}_out = {stored(names[value], types[value], target)}")
        scope = dsl_stand_in.run_lines(tuple(lines), elements)
        for tensor in problem.outputs:
            out, type_ = scope[f"{tensor.name}_out"], tensor.type
            stores = torch.from_numpy(np.array(out.value)).to(TORCH_DTYPES[type_.dtype])
            tensors[tensor.name] = stores.expand(type_.static_shape)
    return tensors


def require_same(functions: dict[str, Function], *inputs: torch.Tensor, rtol: float | None = None) -> None:
    """Lower all functions as one program, and compare each result with torch's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = {name: fn(*inputs) for name, fn in functions.items()}
        program = program_of(lambda *args: tuple(fn(*args) for fn in functions.values()), *inputs)
    found = executed(program, dict(zip((i.name for i in program.arguments), inputs, strict=True)))
    wrong = {}
    for (name, wanted), result in zip(expected.items(), program.results, strict=True):
        dtype = dtype_of(wanted.dtype, "result")
        near = (RTOL.get(dtype, 0.0) if rtol is None else rtol) if dtype.is_float else 0.0
        try:
            torch.testing.assert_close(found[result], wanted, rtol=near, atol=near / 10, equal_nan=True)
        except AssertionError:
            wrong[name] = (found[result], wanted)
    assert not wrong, wrong


def whole(x: torch.Tensor) -> torch.Tensor:
    """Return the values without zeros, for divisors; -1 is left out as the smallest integer overflows by it."""
    return torch.where((x == 0) | (x == -1), torch.full_like(x, 3), x)


UNARY = {
    "neg": (torch.neg, NUMBERS),
    "abs": (torch.abs, NUMBERS),
    "sign": (torch.sign, ALL),
    "sgn": (torch.sgn, NUMBERS),
    "square": (torch.square, NUMBERS),
    "positive": (torch.positive, NUMBERS),
    "relu": (torch.relu, NUMBERS),
    "relu6": (F.relu6, NUMBERS),
    "hardtanh": (F.hardtanh, (*FLOATS, DType.INT64, DType.INT32)),
    "clamp": (lambda x: x.clamp(1, 5), ALL),
    "clamp_min": (lambda x: x.clamp_min(2), NUMBERS),
    "clamp_float": (lambda x: x.clamp(-0.5, 2.5), NUMBERS),
    "add_one": (lambda x: x + 1, ALL),
    "add_half": (lambda x: x + 0.5, ALL),
    "alpha": (lambda x: torch.add(x, x, alpha=3), NUMBERS),
    "rsub": (lambda x: 7 - x, NUMBERS),
    "times_true": (lambda x: x * True, ALL),
    "half": (lambda x: x / 2, ALL),
    "reciprocal": (torch.reciprocal, ALL),
    "floor_two": (lambda x: x // 2, NUMBERS),
    "floor_minus_three": (lambda x: x // -3, (*FLOATS, *INTEGERS[:-1])),
    "floor_half": (lambda x: x // 0.5, (DType.FP64, DType.FP32, *INTEGERS)),
    "remainder": (lambda x: x % 3, NUMBERS),
    "remainder_minus": (lambda x: x % -3, (*FLOATS, *INTEGERS[:-1])),
    "fmod": (lambda x: torch.fmod(x, 3), NUMBERS),
    "div_floor": (lambda x: torch.div(x, 3, rounding_mode="floor"), NUMBERS),
    "div_trunc": (lambda x: torch.div(x, 3, rounding_mode="trunc"), NUMBERS),
    "pow_zero": (lambda x: x**0, ALL),
    "pow_one": (lambda x: x**1, ALL),
    "pow_two": (lambda x: x**2, ALL),
    "pow_seven": (lambda x: x**7, INTEGERS),
    "pow_half": (lambda x: x**0.5, NUMBERS),
    "two_to": (lambda x: 2**x, (DType.INT64, DType.INT32)),
    "float_power": (lambda x: torch.float_power(x, 2), NUMBERS),
    "floor": (torch.floor, NUMBERS),
    "ceil": (torch.ceil, NUMBERS),
    "trunc": (torch.trunc, NUMBERS),
    "round": (torch.round, NUMBERS),
    "frac": (torch.frac, FLOATS),
    "exp": (torch.exp, ALL),
    "exp2": (torch.exp2, ALL),
    "log1p": (torch.log1p, ALL),
    "sqrt": (torch.sqrt, ALL),
    "asin": (torch.asin, ALL),
    "acos": (torch.acos, ALL),
    "asinh": (torch.asinh, ALL),
    "acosh": (torch.acosh, ALL),
    "atanh": (torch.atanh, ALL),
    "erf": (torch.erf, ALL),
    "erfc": (torch.erfc, ALL),
    "erfinv": (torch.erfinv, ALL),
    "sigmoid": (torch.sigmoid, ALL),
    "logit": (torch.logit, ALL),
    "logit_eps": (lambda x: torch.logit(x, eps=0.01), (DType.FP64, DType.FP32)),
    "sinc": (torch.sinc, FLOATS),
    "deg2rad": (torch.deg2rad, FLOATS),
    "gelu": (F.gelu, FLOATS),
    "silu": (F.silu, FLOATS),
    "mish": (F.mish, FLOATS),
    "softplus": (F.softplus, FLOATS),
    "selu": (F.selu, FLOATS),
    "celu": (lambda x: F.celu(x, 0.7), FLOATS),
    "hardswish": (F.hardswish, FLOATS),
    "hardsigmoid": (F.hardsigmoid, FLOATS),
    "logsigmoid": (F.logsigmoid, FLOATS),
    "leaky_relu": (F.leaky_relu, FLOATS),
    "rrelu": (lambda x: F.rrelu(x, training=False), FLOATS),
    "threshold": (lambda x: F.threshold(x, 2, 5), NUMBERS),
    "softshrink": (F.softshrink, FLOATS),
    "hardshrink": (F.hardshrink, FLOATS),
    "tanhshrink": (F.tanhshrink, FLOATS),
    "isnan": (torch.isnan, ALL),
    "isinf": (torch.isinf, ALL),
    "isfinite": (torch.isfinite, ALL),
    "isposinf": (torch.isposinf, ALL),
    "isneginf": (torch.isneginf, ALL),
    "signbit": (torch.signbit, ALL),
    "nan_to_num": (torch.nan_to_num, ALL),
    "nan_to_num_values": (lambda x: torch.nan_to_num(x, 1.5, 7.0, -7.0), FLOATS),
    "logical_not": (torch.logical_not, ALL),
    "bitwise_not": (torch.bitwise_not, BITS),
    "and_five": (lambda x: x & 5, BITS),
    "or_five": (lambda x: x | 5, BITS),
    "xor_five": (lambda x: x ^ 5, BITS),
    "and_true": (lambda x: x & True, BITS),
    "left": (lambda x: x << 3, INTEGERS),
    "right": (lambda x: x >> 3, INTEGERS),
    "equals": (lambda x: x == 3, ALL),
    "below_half": (lambda x: x < 0.5, ALL),
    "at_least": (lambda x: x >= 1, ALL),
    "masked_fill": (lambda x: x.masked_fill(x > 1, 1), ALL),
    "where_number": (lambda x: torch.where(x > 1, x, 1), ALL),
    "fill": (lambda x: torch.full_like(x, 3) + x, NUMBERS),
    "constants": (lambda x: (torch.full_like(x, 3) * 2 - torch.ones_like(x)) + x, NUMBERS),
    "heaviside": (lambda x: torch.heaviside(x, torch.full_like(x, 1)), NUMBERS),
}
BINARY = {
    "add": (torch.add, ALL),
    "sub": (torch.sub, NUMBERS),
    "mul": (torch.mul, ALL),
    "true_divide": (torch.true_divide, NUMBERS),
    "floor_divide": (lambda x, y: torch.floor_divide(x, whole(y)), (DType.FP64, DType.FP32, *INTEGERS)),
    "remainder": (lambda x, y: torch.remainder(x, whole(y)), (DType.FP64, DType.FP32, *INTEGERS)),
    "fmod": (lambda x, y: torch.fmod(x, whole(y)), (DType.FP64, *INTEGERS)),
    "div_trunc": (lambda x, y: torch.div(x, whole(y), rounding_mode="trunc"), INTEGERS),
    "maximum": (torch.maximum, ALL),
    "minimum": (torch.minimum, ALL),
    "fmax": (torch.fmax, ALL),
    "fmin": (torch.fmin, ALL),
    "clamp": (lambda x, y: x.clamp(max=y), NUMBERS),
    "atan2": (torch.atan2, NUMBERS),
    "copysign": (torch.copysign, NUMBERS),
    "hypot": (torch.hypot, FLOATS),
    "logaddexp": (torch.logaddexp, FLOATS),
    "logaddexp2": (torch.logaddexp2, FLOATS),
    "xlogy": (torch.xlogy, ALL),
    "xlog1py": (torch.special.xlog1py, NUMBERS),
    "pow": (torch.pow, (DType.FP64, DType.FP32)),
    "eq": (torch.eq, ALL),
    "ne": (torch.ne, ALL),
    "lt": (torch.lt, ALL),
    "le": (torch.le, ALL),
    "gt": (torch.gt, ALL),
    "ge": (torch.ge, ALL),
    "logical_and": (torch.logical_and, ALL),
    "logical_or": (torch.logical_or, ALL),
    "logical_xor": (torch.logical_xor, ALL),
    "bitwise_and": (torch.bitwise_and, BITS),
    "bitwise_or": (torch.bitwise_or, BITS),
    "bitwise_xor": (torch.bitwise_xor, BITS),
    "left_shift": (torch.bitwise_left_shift, INTEGERS),
    "right_shift": (torch.bitwise_right_shift, INTEGERS),
    "where": (lambda x, y: torch.where(x == y, x, y), ALL),
    "masked": (lambda x, y: torch.where(x.bool(), y, x), ALL),
    "lerp": (lambda x, y: torch.lerp(x, y, 0.3), FLOATS),
    "addcmul": (lambda x, y: torch.addcmul(x, x, y, value=2), NUMBERS),
}


def on(dtype: DType, table: dict[str, tuple[Function, tuple[DType, ...]]]) -> dict[str, Function]:
    return {name: fn for name, (fn, dtypes) in table.items() if dtype in dtypes}


@pytest.mark.parametrize("dtype", ALL)
def test_one_operand(dtype: DType) -> None:
    x = tensor(dtype)
    require_same(on(dtype, UNARY), torch.where(x.abs() < 3e4, x, 3) if dtype is DType.FP16 else x)


@pytest.mark.parametrize("dtype", ALL)
def test_two_operands(dtype: DType) -> None:
    require_same(on(dtype, BINARY), tensor(dtype, 1), tensor(dtype, 2))


@pytest.mark.parametrize("first", ALL)
def test_mixed_types(first: DType) -> None:
    names = ("add", "mul", "eq", "lt", "maximum", "where", "true_divide")
    for position, second in enumerate(ALL):
        kept = {name: BINARY[name][0] for name in names if name != "true_divide" or first is not DType.BOOL}
        require_same(kept, tensor(first, position), tensor(second, 50 + position))


@pytest.mark.parametrize("scalar", [DType.INT64, DType.FP32, DType.FP64])
def test_tensors_without_axes_promote_less(scalar: DType) -> None:
    for dtype in ALL:
        functions = {"add": torch.add, "less": torch.lt, "maximum": torch.maximum}
        require_same(functions, tensor(dtype, 5), torch.tensor(3).to(TORCH_DTYPES[scalar]))


@pytest.mark.parametrize("source", DType)
def test_casts(source: DType) -> None:
    x = tensor(source, 6)
    if source.is_float:  # beyond a type's range torch promises nothing of integers
        x = torch.where((x.double() >= 0) & (x.double() < 100), x.double(), 3.0).to(x.dtype)
    require_same({str(d): lambda t, to=TORCH_DTYPES[d]: t.to(to) for d in DType}, x, rtol=0.0)


def test_results_in_fp8_round_once() -> None:
    x = torch.tensor([1000.0, 465.0, math.inf, -math.inf, math.nan, 0.3, -0.017, 57344.0, 61440.0, 3.1, 122880.0])
    kinds = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
    require_same({name: lambda t, to=to: (t * 0.5).to(to) for name, to in kinds.items()}, x, rtol=0.0)


def test_glu_reads_both_halves() -> None:
    problem = problem_of(lambda x: F.glu(x, dim=-1), torch.zeros(4, 6))
    assert [str(s.access) for s in problem.body if isinstance(s, Load)] == ["x[i, j]", "x[i, j + 3]"]


def test_constants_are_folded() -> None:
    problem = problem_of(lambda x: x + torch.exp(torch.full_like(x, 2.0) / 3).to(torch.bfloat16), torch.zeros(4))
    (add,) = [s for s in problem.body if isinstance(s, Map)]
    assert str(add).endswith("add x_value, 1.9453125")


def test_operands_of_a_map_are_carried_alike() -> None:
    problem = problem_of(lambda x, y: torch.where(x > y, x, y) + 0.5, tensor(DType.INT32), tensor(DType.FP64))
    types = {s.result: s.dtype for s in problem.body if isinstance(s, Load | Map)}
    for statement in problem.body:
        if isinstance(statement, Map) and str(statement.op) not in ("cast", "where"):
            assert len({carried_dtype(types[o]) for o in statement.operands if isinstance(o, str)}) == 1


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x.clamp(-5, 300),
        lambda x: x.masked_fill(x > 5, 300),
        lambda x: torch.where(x > 5, x, -1),
        lambda x: torch.full_like(x, 256) + x,
    ],
)
def test_fills_that_do_not_fit_are_refused_as_in_torch(fn: Callable[..., torch.Tensor]) -> None:
    with pytest.raises(ScalarOverflowError):
        problem_of(fn, tensor(DType.UINT8))


@pytest.mark.parametrize("fn", [lambda x: x**x, lambda x: 3**x])
def test_powers_of_integers_need_a_number(fn: Callable[..., torch.Tensor]) -> None:
    with pytest.raises(UnsupportedOpError, match="pow"):
        problem_of(fn, tensor(DType.INT32))
