"""The forms of pointwise ops that are FlyDSL's own; `kgen/backends/source/forms.py` has those of every DSL.

A form calls nothing of ROCm's device library.
"""

from typing import Final

from kgen.backends.source.forms import ARITHMETIC, COMPARISONS, Forms
from kgen.ir.pointwise import PointwiseOp as Op

_OWN: Final = (  # functions of the library under the op's own name
    *(Op.EXP2, Op.EXPM1, Op.LOG1P, Op.LOG2, Op.LOG10, Op.SIN, Op.COS, Op.TAN, Op.ASIN, Op.ACOS, Op.ATAN),
    *(Op.SINH, Op.COSH, Op.TANH, Op.ASINH, Op.ACOSH, Op.ATANH, Op.ERF, Op.ERFC, Op.ERFINV, Op.FLOOR, Op.CEIL),
    *(Op.SIGN, Op.RECIPROCAL, Op.SIGMOID, Op.RELU, Op.GELU_ERF, Op.GELU_TANH, Op.SILU, Op.MISH, Op.SOFTSIGN),
    *(Op.SELU, Op.HARDSIGMOID, Op.HARDSWISH, Op.LOGSIGMOID),
)

_FP32: Final = {
    **ARITHMETIC,
    **COMPARISONS,
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
    **ARITHMETIC,
    **COMPARISONS,
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
_INTEGER: Final = {
    Op.MAXIMUM: "fx.max({0}, {1})",
    Op.MINIMUM: "fx.min({0}, {1})",
    Op.ABS: "fx.absi({0})",
}

FORMS: Final = Forms(_FP32, _FP32_APPROXIMATE, _FP64, _INTEGER, unsigned_sign="fx.min({0}, {kind}(1))")
