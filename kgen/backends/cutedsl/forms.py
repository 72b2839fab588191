"""The form of every pointwise op in the CuTe DSL, by the type its operands are carried in.

Forms are format strings over the operands `{0}`, `{1}`, ... and the carried type `{kind}`. They know the DSL's ways:
arithmetic on two widths widens, so operands have one type; `//` of integers rounds down, `%` towards zero and `/`
gives fp32; a comparison of bools is a signed one, where true is -1.
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

_FP32: Final = {
    **_ARITHMETIC,
    **_COMPARISONS,
    Op.DIV: "{0} / {1}",
    Op.FLOOR_DIVIDE: "floor_divide({0}, {1})",
    Op.REMAINDER: "remainder({0}, {1})",
    Op.FMOD: "fmod({0}, {1})",
    Op.POW: "power({0}, {1})",
    Op.ATAN2: "atan2({0}, {1})",
    Op.COPYSIGN: "copysign({0}, {1})",
    Op.MAXIMUM: "maximum({0}, {1})",
    Op.MINIMUM: "minimum({0}, {1})",
    Op.ABS: "cute.math.abs({0})",
    Op.SIGN: "sign({0})",
    Op.EXP: "cute.math.exp({0})",
    Op.EXP2: "cute.math.exp2({0})",
    Op.EXPM1: "cute.math.expm1({0})",
    Op.LOG: "cute.math.log({0})",
    Op.LOG2: "cute.math.log2({0})",
    Op.LOG10: "cute.math.log10({0})",
    Op.LOG1P: "cute.math.log1p({0})",
    Op.SQRT: "cute.math.sqrt({0})",
    Op.RSQRT: "cute.math.rsqrt({0})",
    Op.RECIPROCAL: "reciprocal({0})",
    Op.SIN: "cute.math.sin({0})",
    Op.COS: "cute.math.cos({0})",
    Op.TAN: "cute.math.tan({0})",
    Op.ASIN: "cute.math.asin({0})",
    Op.ACOS: "cute.math.acos({0})",
    Op.ATAN: "cute.math.atan({0})",
    Op.SINH: "cute.math.sinh({0})",
    Op.COSH: "cute.math.cosh({0})",
    Op.TANH: "cute.math.tanh({0})",
    Op.ASINH: "cute.math.asinh({0})",
    Op.ACOSH: "cute.math.acosh({0})",
    Op.ATANH: "cute.math.atanh({0})",
    Op.ERF: "cute.math.erf({0})",
    Op.ERFC: "cute.math.erfc({0})",
    Op.ERFINV: "erfinv({0})",
    Op.FLOOR: "cute.math.floor({0})",
    Op.CEIL: "cute.math.ceil({0})",
    Op.TRUNC: "cute.math.trunc({0})",
    Op.ROUND: "cute.math.roundeven({0})",
    Op.SIGMOID: "sigmoid({0})",
    Op.RELU: "relu({0})",
    Op.GELU_ERF: "gelu_erf({0})",
    Op.GELU_TANH: "gelu_tanh({0})",
    Op.SILU: "silu({0})",
    Op.MISH: "mish({0})",
    Op.SOFTPLUS: "softplus({0}, {1}, {2})",
    Op.SOFTSIGN: "softsign({0})",
    Op.LEAKY_RELU: "leaky_relu({0}, {1})",
    Op.ELU: "elu({0}, {1}, {2}, {3})",
    Op.SELU: "selu({0})",
    Op.HARDSIGMOID: "hardsigmoid({0})",
    Op.HARDSWISH: "hardswish({0})",
    Op.LOGSIGMOID: "logsigmoid({0})",
    Op.WHERE: "select({0}, {1}, {2})",
}
_FP32_APPROXIMATE: Final = _FP32 | {
    Op.DIV: "divide_approximate({0}, {1})",
    Op.EXP: "cute.math.exp({0}, fastmath=True)",
    Op.EXP2: "cute.math.exp2({0}, fastmath=True)",
    Op.SQRT: "cute.math.sqrt({0}, approx=True)",
    Op.RECIPROCAL: "cute.math.rcp({0}, approx=True, ftz=True)",
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
_FP64: Final = _FP32 | {
    Op.FLOOR_DIVIDE: "floor_divide_f64({0}, {1})",
    Op.REMAINDER: "remainder_f64({0}, {1})",
    Op.FMOD: "cute.math.rem({0}, {1})",
    Op.POW: "cute.math.pow({0}, {1})",
    Op.ATAN2: "cute.math.atan2({0}, {1})",
    Op.COPYSIGN: "cute.math.copysign({0}, {1})",
    Op.MAXIMUM: "maximum_f64({0}, {1})",
    Op.MINIMUM: "minimum_f64({0}, {1})",
    Op.SIGN: "sign_f64({0})",
    Op.ERFINV: "erfinv_f64({0})",
    Op.RELU: "relu_f64({0})",
    Op.MISH: "mish_f64({0})",
    Op.SOFTPLUS: "softplus_f64({0}, {1}, {2})",
    Op.LEAKY_RELU: "leaky_relu_f64({0}, {1})",
    Op.ELU: "elu_f64({0}, {1}, {2}, {3})",
    Op.SELU: "selu_f64({0})",
    Op.HARDSIGMOID: "hardsigmoid_f64({0})",
    Op.HARDSWISH: "hardswish_f64({0})",
    Op.LOGSIGMOID: "logsigmoid_f64({0})",
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
    Op.MAXIMUM: "maximum_int({kind}, {0}, {1})",
    Op.MINIMUM: "minimum_int({kind}, {0}, {1})",
    Op.ABS: "cute.math.abs({0})",
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
    Op.SIGN: "minimum_int({kind}, {0}, {kind}(1))",
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
