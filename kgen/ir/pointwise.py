"""The closed set of pointwise operations of `Map`, with their arity; each means what torch's op of that name means."""

from enum import StrEnum


class PointwiseOp(StrEnum):
    """A scalar function. NaN and infinities behave as in torch (max, min, relu and clamp keep NaN)."""

    CAST = "cast"
    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    POW = "pow"
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
    ATAN = "atan"
    SINH = "sinh"
    COSH = "cosh"
    TANH = "tanh"
    ERF = "erf"
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
            PointwiseOp.POW,
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
