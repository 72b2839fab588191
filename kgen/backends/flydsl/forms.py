"""The form of every pointwise op in FlyDSL, by the type its operands are carried in.

Forms are format strings over the operands `{0}`, `{1}`, ... and the carried type `{kind}`. They know the DSL's ways:
arithmetic on two widths widens, so operands have one type; `//` of integers rounds down, `%` towards zero and `/`
gives fp32; a comparison of bools is a signed one, where true is -1. A form calls nothing of ROCm's device library.
"""

from typing import Final

from kgen.ir.dtype import DType
from kgen.ir.pointwise import PointwiseOp as Op

_COMPARISONS: Final = {
    Op.EQ: "{0} == {1}",
    Op.NE: "{0} != {1}",
    Op.LT: "{0} < {1}",
    Op.LE: "{0} <= {1}",
    Op.GT: "{0} > {1}",
    Op.GE: "{0} >= {1}",
}
_ARITHMETIC: Final = {Op.ADD: "{0} + {1}", Op.SUB: "{0} - {1}", Op.MUL: "{0} * {1}", Op.NEG: "-{0}"}
_OWN: Final = (  # functions of the library under the op's own name
    *(Op.EXP2, Op.EXPM1, Op.LOG1P, Op.LOG2, Op.LOG10, Op.SIN, Op.COS, Op.TAN, Op.ASIN, Op.ACOS, Op.ATAN),
    *(Op.SINH, Op.COSH, Op.TANH, Op.ASINH, Op.ACOSH, Op.ATANH, Op.ERF, Op.ERFC, Op.ERFINV, Op.FLOOR, Op.CEIL),
    *(Op.SIGN, Op.RECIPROCAL, Op.SIGMOID, Op.RELU, Op.GELU_ERF, Op.GELU_TANH, Op.SILU, Op.MISH, Op.SOFTSIGN),
    *(Op.SELU, Op.HARDSIGMOID, Op.HARDSWISH, Op.LOGSIGMOID),
)

_FP32: Final = {
    **_ARITHMETIC,
    **_COMPARISONS,
    **{op: f"{op}({{0}})" for op in _OWN},
    Op.DIV: "{0} / {1}",
    Op.FLOOR_DIVIDE: "floor_divide({0}, {1})",
    Op.REMAINDER: "remainder({0}, {1})",
    Op.FMOD: "fmod({0}, {1})",
    Op.POW: "power({0}, {1})",
    Op.ATAN2: "atan2({0}, {1})",
    Op.COPYSIGN: "copysign({0}, {1})",
    Op.MAXIMUM: "maximum({0}, {1})",
    Op.MINIMUM: "minimum({0}, {1})",
    Op.ABS: "fx.absf({0})",
    Op.EXP: "fx.exp({0})",
    Op.LOG: "fx.log({0})",
    Op.SQRT: "fx.sqrt({0})",
    Op.RSQRT: "fx.rsqrt({0})",
    Op.TRUNC: "fx.trunc({0})",
    Op.ROUND: "fx.roundeven({0})",
    Op.SOFTPLUS: "softplus({0}, {1}, {2})",
    Op.LEAKY_RELU: "leaky_relu({0}, {1})",
    Op.ELU: "elu({0}, {1}, {2}, {3})",
    Op.WHERE: "select({0}, {1}, {2})",
}
_FP32_APPROXIMATE: Final = _FP32 | {
    Op.DIV: "divide_approximate({0}, {1})",
    Op.EXP: "exp_approximate({0})",
    Op.EXP2: "exp2_approximate({0})",
    Op.SQRT: "sqrt_approximate({0})",
    Op.RSQRT: "rsqrt_approximate({0})",
    Op.RECIPROCAL: "reciprocal_approximate({0})",
    Op.SIGMOID: "sigmoid_approximate({0})",
    Op.GELU_ERF: "gelu_erf_approximate({0})",
    Op.GELU_TANH: "gelu_tanh_approximate({0})",
    Op.SILU: "silu_approximate({0})",
    Op.MISH: "mish_approximate({0})",
    Op.SOFTPLUS: "softplus_approximate({0}, {1}, {2})",
    Op.SOFTSIGN: "softsign_approximate({0})",
    Op.HARDSIGMOID: "hardsigmoid_approximate({0})",
    Op.HARDSWISH: "hardswish_approximate({0})",
    Op.LOGSIGMOID: "logsigmoid_approximate({0})",
}
_FP64: Final = {  # no exponentials and what is made of them: LLVM has none for the hardware in fp64
    **_ARITHMETIC,
    **_COMPARISONS,
    Op.DIV: "{0} / {1}",
    Op.RECIPROCAL: "1.0 / {0}",
    Op.COPYSIGN: "fx.copysign({0}, {1})",
    Op.MAXIMUM: "fx.max({0}, {1})",
    Op.MINIMUM: "fx.min({0}, {1})",
    Op.ABS: "fx.absf({0})",
    Op.SIGN: "sign_f64({0})",
    Op.SQRT: "fx.sqrt({0})",
    Op.RSQRT: "1.0 / fx.sqrt({0})",
    Op.FLOOR: "floor_f64({0})",
    Op.CEIL: "ceil_f64({0})",
    Op.TRUNC: "fx.trunc({0})",
    Op.ROUND: "fx.roundeven({0})",
    Op.RELU: "relu_f64({0})",
    Op.LEAKY_RELU: "leaky_relu_f64({0}, {1})",
    Op.HARDSIGMOID: "hardsigmoid_f64({0})",
    Op.HARDSWISH: "hardswish_f64({0})",
    Op.WHERE: "select_f64({0}, {1}, {2})",
}
_BOOL: Final = {
    Op.EQ: "{0} == {1}",
    Op.NE: "{0} != {1}",
    Op.LT: "~{0} & {1}",
    Op.LE: "~{0} | {1}",
    Op.GT: "{0} & ~{1}",
    Op.GE: "{0} | ~{1}",
    Op.LOGICAL_AND: "{0} & {1}",
    Op.LOGICAL_OR: "{0} | {1}",
    Op.LOGICAL_NOT: "~{0}",
    Op.WHERE: "choose({kind}, {0}, {1}, {2})",
}
_INTEGER: Final = {
    **_ARITHMETIC,
    **_COMPARISONS,
    Op.FLOOR_DIVIDE: "{0} // {1}",
    Op.TRUNC_DIVIDE: "trunc_divide_int({0}, {1})",
    Op.REMAINDER: "remainder_int({kind}, {0}, {1})",
    Op.FMOD: "{0} % {1}",
    Op.MAXIMUM: "fx.max({0}, {1})",
    Op.MINIMUM: "fx.min({0}, {1})",
    Op.ABS: "fx.absi({0})",
    Op.SIGN: "sign_int({kind}, {0})",
    Op.BITWISE_AND: "{0} & {1}",
    Op.BITWISE_OR: "{0} | {1}",
    Op.BITWISE_XOR: "{0} ^ {1}",
    Op.BITWISE_NOT: "~{0}",
    Op.SHIFT_LEFT: "shift_left({kind}, {0}, {1})",
    Op.SHIFT_RIGHT: "shift_right({kind}, {0}, {1})",
    Op.WHERE: "choose({kind}, {0}, {1}, {2})",
}
_UNSIGNED: Final = _INTEGER | {
    Op.REMAINDER: "{0} % {1}",
    Op.TRUNC_DIVIDE: "{0} // {1}",
    Op.ABS: "{0}",
    Op.SHIFT_RIGHT: "shift_right_unsigned({kind}, {0}, {1})",
    Op.SIGN: "fx.min({0}, {kind}(1))",
}


def form_of(op: Op, dtype: DType, *, approximate: bool = False) -> str | None:
    """Return the form of an op on operands that are carried as `dtype`, or None where it has none."""
    match dtype:
        case DType.BOOL:
            return _BOOL.get(op)
        case DType.FP64:
            return _FP64.get(op)
        case DType.UINT8:
            return _UNSIGNED.get(op)
    if dtype.is_float:
        return (_FP32_APPROXIMATE if approximate else _FP32).get(op)
    return _INTEGER.get(op)
