"""The closed set of pointwise operations of `Map`, with their arity; each means what torch's op of that name means."""

from enum import StrEnum


class PointwiseOp(StrEnum):
    """A scalar function. NaN and infinities behave as in torch (max, min, relu and clamp keep NaN)."""

    CAST = "cast"
    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    FLOOR_DIVIDE = "floor_divide"  # rounds towards minus infinity
    TRUNC_DIVIDE = "trunc_divide"  # rounds towards zero
    REMAINDER = "remainder"  # has the divisor's sign
    FMOD = "fmod"  # has the dividend's sign
    POW = "pow"
    ATAN2 = "atan2"
    COPYSIGN = "copysign"
    MAXIMUM = "maximum"
    MINIMUM = "minimum"
    NEG = "neg"
    ABS = "abs"
    SIGN = "sign"
    EXP = "exp"
    EXP2 = "exp2"
    EXPM1 = "expm1"
    LOG = "log"
    LOG2 = "log2"
    LOG10 = "log10"
    LOG1P = "log1p"
    SQRT = "sqrt"
    RSQRT = "rsqrt"
    RECIPROCAL = "reciprocal"
    SIN = "sin"
    COS = "cos"
    TAN = "tan"
    ASIN = "asin"
    ACOS = "acos"
    ATAN = "atan"
    SINH = "sinh"
    COSH = "cosh"
    TANH = "tanh"
    ASINH = "asinh"
    ACOSH = "acosh"
    ATANH = "atanh"
    ERF = "erf"
    ERFC = "erfc"
    ERFINV = "erfinv"
    FLOOR = "floor"
    CEIL = "ceil"
    TRUNC = "trunc"
    ROUND = "round"
    SIGMOID = "sigmoid"
    RELU = "relu"
    GELU_ERF = "gelu_erf"
    GELU_TANH = "gelu_tanh"
    SILU = "silu"
    MISH = "mish"
    SOFTPLUS = "softplus"
    SOFTSIGN = "softsign"
    LEAKY_RELU = "leaky_relu"
    ELU = "elu"
    SELU = "selu"
    HARDSIGMOID = "hardsigmoid"
    HARDSWISH = "hardswish"
    LOGSIGMOID = "logsigmoid"
    EQ = "eq"
    NE = "ne"
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"
    LOGICAL_AND = "logical_and"
    LOGICAL_OR = "logical_or"
    LOGICAL_NOT = "logical_not"
    BITWISE_AND = "bitwise_and"
    BITWISE_OR = "bitwise_or"
    BITWISE_XOR = "bitwise_xor"
    BITWISE_NOT = "bitwise_not"
    SHIFT_LEFT = "shift_left"  # a shift that is negative or as wide as the type gives 0
    SHIFT_RIGHT = "shift_right"  # arithmetic; a shift that is negative or as wide as the type leaves the sign
    WHERE = "where"

    @property
    def arity(self) -> int:
        """Number of operands."""
        return _ARITY.get(self, 1)

    @property
    def is_predicate(self) -> bool:
        """Whether the result is a bool."""
        return self in _PREDICATES


_ARITY = {
    **dict.fromkeys(
        (
            PointwiseOp.ADD,
            PointwiseOp.SUB,
            PointwiseOp.MUL,
            PointwiseOp.DIV,
            PointwiseOp.FLOOR_DIVIDE,
            PointwiseOp.TRUNC_DIVIDE,
            PointwiseOp.REMAINDER,
            PointwiseOp.FMOD,
            PointwiseOp.POW,
            PointwiseOp.ATAN2,  # y, x
            PointwiseOp.COPYSIGN,  # magnitude, sign
            PointwiseOp.MAXIMUM,
            PointwiseOp.MINIMUM,
            PointwiseOp.LEAKY_RELU,  # x, negative slope
            PointwiseOp.EQ,
            PointwiseOp.NE,
            PointwiseOp.LT,
            PointwiseOp.LE,
            PointwiseOp.GT,
            PointwiseOp.GE,
            PointwiseOp.LOGICAL_AND,
            PointwiseOp.LOGICAL_OR,
            PointwiseOp.BITWISE_AND,
            PointwiseOp.BITWISE_OR,
            PointwiseOp.BITWISE_XOR,
            PointwiseOp.SHIFT_LEFT,  # value, number of bits
            PointwiseOp.SHIFT_RIGHT,  # value, number of bits
        ),
        2,
    ),
    PointwiseOp.WHERE: 3,  # condition, value if true, value if false
    PointwiseOp.SOFTPLUS: 3,  # x, beta, threshold
    PointwiseOp.ELU: 4,  # x, alpha, scale, input_scale
}
_PREDICATES = frozenset(
    {
        PointwiseOp.EQ,
        PointwiseOp.NE,
        PointwiseOp.LT,
        PointwiseOp.LE,
        PointwiseOp.GT,
        PointwiseOp.GE,
        PointwiseOp.LOGICAL_AND,
        PointwiseOp.LOGICAL_OR,
        PointwiseOp.LOGICAL_NOT,
    }
)
