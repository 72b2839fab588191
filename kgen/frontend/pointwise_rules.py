"""The rules of torch's pointwise operations: what each overload means in the closed set of `PointwiseOp`s."""

from collections.abc import Callable

from kgen.errors.frontend import RandomOpError, UnsupportedOpError
from kgen.frontend.indices import ZERO
from kgen.frontend.pointwise import PointwiseCall
from kgen.ir.dtype import DType
from kgen.ir.graph import Argument
from kgen.ir.pointwise import PointwiseOp as Op
from kgen.ir.problem import Const, Operand

Rule = Callable[[PointwiseCall], Operand]
Defaults = dict[str, Argument]


def _unary(op: Op) -> Rule:
    return lambda c: c.map(op, c.get("self"))


def _binary(op: Op) -> Rule:
    return lambda c: c.map(op, c.get("self"), c.get("other"))


def _extremum(op: Op, other: str) -> Rule:
    return lambda c: c.map(op, c.get("self"), c.get(other))


def _scaled(c: PointwiseCall, value: Operand, factor: str) -> Operand:
    """Return `value * factor`, or the value where the factor is 1."""
    number = c.call.number(factor)
    return value if number == 1 else c.map(Op.MUL, value, Const(number))


def _add(c: PointwiseCall) -> Operand:
    return c.map(Op.ADD, c.get("self"), _scaled(c, c.get("other"), "alpha"))


def _sub(c: PointwiseCall) -> Operand:
    return c.map(Op.SUB, c.get("self"), _scaled(c, c.get("other"), "alpha"))


def _rsub(c: PointwiseCall) -> Operand:
    return c.map(Op.SUB, c.get("other"), _scaled(c, c.get("self"), "alpha"))


def _div(c: PointwiseCall) -> Operand:
    quotient = c.map(Op.DIV, c.get("self"), c.get("other"))
    mode = c.call.args["rounding_mode"]
    if mode is None:
        return quotient
    if mode != "trunc":
        covered = "covered: true division, and rounding_mode='trunc'"
        raise UnsupportedOpError(where=c.node.where, op=c.node.op, place=f"with {mode!r}", covered=covered)
    return c.map(Op.TRUNC, quotient)


def _power(c: PointwiseCall) -> Operand:
    """Whole and half powers become products and roots, as torch computes them."""
    x, exponent = c.get("self"), c.call.args["exponent"]
    match exponent:
        case bool():
            pass
        case 1:
            return x
        case 2:
            return c.map(Op.MUL, x, x)
        case 3:
            return c.map(Op.MUL, c.map(Op.MUL, x, x), x)
        case 0.5:
            return c.map(Op.SQRT, x)
        case -0.5:
            return c.map(Op.RSQRT, x)
        case -1:
            return c.map(Op.RECIPROCAL, x)
        case -2:
            return c.map(Op.RECIPROCAL, c.map(Op.MUL, x, x))
    return c.map(Op.POW, x, c.get("exponent"))


def _square(c: PointwiseCall) -> Operand:
    return c.map(Op.MUL, c.get("self"), c.get("self"))


def _compare(op: Op) -> Rule:
    def rule(c: PointwiseCall) -> Operand:
        common = c.common("self", "other")
        return c.test(op, c.get("self", common, exact=False), c.get("other", common, exact=False))

    return rule


def _logical(op: Op) -> Rule:
    return lambda c: c.test(op, _truth(c, "self"), _truth(c, "other"))


def _truth(c: PointwiseCall, name: str) -> Operand:
    ref = c.call.ref(name)
    if c.body.graph.type_of(ref).dtype is DType.BOOL:
        return c.raw(ref)
    return c.test(Op.NE, c.raw(ref), Const(0))


def _bitwise(op: Op) -> Rule:
    def rule(c: PointwiseCall) -> Operand:
        if c.dtype is not DType.BOOL:
            covered = "bit operations are covered on bool tensors"
            raise UnsupportedOpError(where=c.node.where, op=c.node.op, place=f"on {c.dtype} values", covered=covered)
        return _logical(op)(c) if "other" in c.call.args else c.test(op, _truth(c, "self"))

    return rule


def _where(c: PointwiseCall) -> Operand:
    condition = _truth(c, "condition")
    return _select(c, condition, c.get("self", exact=False), c.get("other", exact=False))


def _select(c: PointwiseCall, condition: Operand, yes: Operand, no: Operand) -> Operand:
    return c.map(Op.WHERE, condition, yes, no)


def _masked_fill(c: PointwiseCall) -> Operand:
    return _select(c, _truth(c, "mask"), c.get("value", exact=False), c.get("self"))


def _clamp(c: PointwiseCall) -> Operand:
    value = c.get("self")
    if c.call.args["min"] is not None:
        value = c.map(Op.MAXIMUM, value, c.get("min"))
    if c.call.args["max"] is not None:
        value = c.map(Op.MINIMUM, value, c.get("max"))
    return value


def _gelu(c: PointwiseCall) -> Operand:
    return c.map(Op.GELU_TANH if c.call.args["approximate"] == "tanh" else Op.GELU_ERF, c.get("self"))


def _leaky_relu(c: PointwiseCall) -> Operand:
    return c.map(Op.LEAKY_RELU, c.get("self"), c.get("negative_slope"))


def _elu(c: PointwiseCall) -> Operand:
    return c.map(Op.ELU, c.get("self"), c.get("alpha"), c.get("scale"), c.get("input_scale"))


def _celu(c: PointwiseCall) -> Operand:
    alpha = c.call.number("alpha")
    return c.map(Op.ELU, c.get("self"), Const(alpha), Const(1.0), Const(1.0 / alpha))


def _softplus(c: PointwiseCall) -> Operand:
    return c.map(Op.SOFTPLUS, c.get("self"), c.get("beta"), c.get("threshold"))


def _threshold(c: PointwiseCall) -> Operand:
    x = c.get("self")
    below = c.test(Op.LE, x, c.get("threshold", exact=False))
    return _select(c, below, c.get("value", exact=False), x)


def _hardshrink(c: PointwiseCall) -> Operand:
    x = c.get("self")
    inside = c.test(Op.LE, c.map(Op.ABS, x), c.get("lambd", exact=False))
    return _select(c, inside, Const(0.0), x)


def _softshrink(c: PointwiseCall) -> Operand:
    """Beyond the threshold x moves towards zero by it; inside, x * 0 keeps NaN."""
    x, limit = c.get("self"), c.get("lambd", exact=False)
    outside = c.test(Op.GT, c.map(Op.ABS, x), limit)
    moved = c.map(Op.SUB, x, c.map(Op.MUL, c.map(Op.SIGN, x), limit))
    return _select(c, outside, moved, c.map(Op.MUL, x, Const(0.0)))


def _prelu(c: PointwiseCall) -> Operand:
    """The weight runs along axis 1, or is one number."""
    weight = c.call.ref("weight")
    per_channel = c.body.shape(weight) not in ((), (1,))
    index = c.indices[1] if per_channel else ZERO
    x, slope = c.get("self"), c.body.value(weight, (index,) if c.body.shape(weight) else ())
    return _select(c, c.test(Op.GT, x, Const(0.0)), x, c.map(Op.MUL, slope, x))


def _lerp(c: PointwiseCall) -> Operand:
    """Start from the nearer end, as torch does, so that both ends are met exactly."""
    start, end, weight = c.get("self"), c.get("end"), c.get("weight")
    step = c.map(Op.SUB, end, start)
    from_start = c.map(Op.ADD, start, c.map(Op.MUL, weight, step))
    if isinstance(weight, Const):
        if abs(weight.value) < 0.5:
            return from_start
        rest: Operand = Const(1.0 - weight.value)
        return c.map(Op.SUB, end, c.map(Op.MUL, step, rest))
    from_end = c.map(Op.SUB, end, c.map(Op.MUL, step, c.map(Op.SUB, Const(1.0), weight)))
    return _select(c, c.test(Op.LT, c.map(Op.ABS, weight), Const(0.5)), from_start, from_end)


def _addc(op: Op) -> Rule:
    def rule(c: PointwiseCall) -> Operand:
        product = c.map(op, _scaled(c, c.get("tensor1"), "value"), c.get("tensor2"))
        return c.map(Op.ADD, c.get("self"), product)

    return rule


def _erfc(c: PointwiseCall) -> Operand:
    return c.map(Op.SUB, Const(1.0), c.map(Op.ERF, c.get("self")))


def _frac(c: PointwiseCall) -> Operand:
    return c.map(Op.SUB, c.get("self"), c.map(Op.TRUNC, c.get("self")))


def _isnan(c: PointwiseCall) -> Operand:
    x = c.raw(c.call.ref("self"))
    return c.test(Op.NE, x, x)


def _not(c: PointwiseCall) -> Operand:
    return c.test(Op.LOGICAL_NOT, _truth(c, "self"))


def _cast(c: PointwiseCall) -> Operand:
    """An explicit cast is kept where it is written; one that changes nothing of a loaded value needs no Map."""
    value = c.raw(c.call.ref("self"))
    if isinstance(value, str) and c.body.dtypes[value] is c.dtype:
        return value
    if c.dtype is DType.BOOL:
        return _truth(c, "self")
    return c.body.cast(value, c.dtype)


def _dropout(c: PointwiseCall) -> Operand:
    if c.call.args["train"] and c.call.args["p"]:
        raise RandomOpError(where=c.node.where, op=c.node.op)
    return c.get("self")


def _fill(name: str) -> Rule:
    return lambda c: c.get(name, exact=False)


def _filled(value: float) -> Rule:
    return lambda c: c.number(value, exact=False)


def _table(names: str, rules: dict[str, Rule], **defaults: Argument) -> dict[str, tuple[str, Defaults, Rule]]:
    return {f"aten.{op}": (names, defaults, rule) for op, rule in rules.items()}


_UNARY = (
    "neg abs sign exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan atan sinh cosh tanh erf floor "
    "ceil trunc round sigmoid relu silu mish selu hardsigmoid hardswish softsign"
)
_COMPARISONS = "eq ne lt le gt ge"
_SHRINK: dict[str, Rule] = {"hardshrink.default": _hardshrink, "softshrink.default": _softshrink}
_DROPOUTS = ("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout", "native_dropout")
_CASTS = ("_to_copy.default", "to.dtype", "to.dtype_layout", "to.device", "to.other", "type_as.default")
_TESTS: dict[str, Rule] = {f"{n}.{o}": _compare(Op(n)) for n in _COMPARISONS.split() for o in ("Tensor", "Scalar")}

POINTWISE: dict[str, tuple[str, Defaults, Rule]] = {
    **_table("self", {f"{name}.default": _unary(Op(name)) for name in _UNARY.split()}),
    **_table("self", {"log_sigmoid.default": _unary(Op.LOGSIGMOID), "fix.default": _unary(Op.TRUNC)}),
    **_table("self", {"sgn.default": _unary(Op.SIGN), "absolute.default": _unary(Op.ABS), "square.default": _square}),
    **_table("self", {"erfc.default": _erfc, "special_erfc.default": _erfc, "frac.default": _frac}),
    **_table("self", {"special_expit.default": _unary(Op.SIGMOID), "arctan.default": _unary(Op.ATAN)}),
    **_table(
        "self", {"isnan.default": _isnan, "logical_not.default": _not, "bitwise_not.default": _bitwise(Op.LOGICAL_NOT)}
    ),
    **_table(
        "self other alpha", {"add.Tensor": _add, "add.Scalar": _add, "sub.Tensor": _sub, "sub.Scalar": _sub}, alpha=1
    ),
    **_table("self other alpha", {"rsub.Tensor": _rsub, "rsub.Scalar": _rsub, "subtract.Tensor": _sub}, alpha=1),
    **_table("self other", {f"{n}.{o}": _binary(Op.MUL) for n in ("mul", "multiply") for o in ("Tensor", "Scalar")}),
    **_table("self other", {"maximum.default": _binary(Op.MAXIMUM), "max.other": _binary(Op.MAXIMUM)}),
    **_table("self other", {"minimum.default": _binary(Op.MINIMUM), "min.other": _binary(Op.MINIMUM)}),
    **_table(
        "self other",
        {
            f"{n}.{o}": _div
            for n in ("div", "divide", "true_divide")
            for o in ("Tensor", "Scalar", "Tensor_mode", "Scalar_mode")
        },
        rounding_mode=None,
    ),
    **_table("self exponent", {f"pow.{o}": _power for o in ("Tensor_Scalar", "Tensor_Tensor", "Scalar")}),
    **_table("self other", _TESTS),
    **_table(
        "self other", {"logical_and.default": _logical(Op.LOGICAL_AND), "logical_or.default": _logical(Op.LOGICAL_OR)}
    ),
    **_table("self other", {"logical_xor.default": _logical(Op.NE)}),
    **_table("self other", {f"{n}.Tensor": _bitwise(Op.LOGICAL_AND) for n in ("bitwise_and", "__and__")}),
    **_table("self other", {f"{n}.Tensor": _bitwise(Op.LOGICAL_OR) for n in ("bitwise_or", "__or__")}),
    **_table("self other", {f"{n}.Tensor": _bitwise(Op.NE) for n in ("bitwise_xor", "__xor__")}),
    **_table("condition self other", {f"where.{o}": _where for o in ("self", "ScalarSelf", "ScalarOther", "Scalar")}),
    **_table("self mask value", {"masked_fill.Scalar": _masked_fill, "masked_fill.Tensor": _masked_fill}),
    **_table(
        "self min max", {"clamp.default": _clamp, "clamp.Tensor": _clamp, "clip.default": _clamp}, min=None, max=None
    ),
    **_table("self min max", {"hardtanh.default": _clamp}, min=-1, max=1),
    **_table("self min max", {"relu6.default": _clamp}, min=0, max=6),
    **_table("self min", {f"clamp_min.{o}": _extremum(Op.MAXIMUM, "min") for o in ("default", "Tensor")}),
    **_table("self max", {f"clamp_max.{o}": _extremum(Op.MINIMUM, "max") for o in ("default", "Tensor")}),
    **_table("self", {"gelu.default": _gelu}, approximate="none"),
    **_table("self negative_slope", {"leaky_relu.default": _leaky_relu}, negative_slope=0.01),
    **_table("self alpha scale input_scale", {"elu.default": _elu}, alpha=1, scale=1, input_scale=1),
    **_table("self alpha", {"celu.default": _celu}, alpha=1),
    **_table("self beta threshold", {"softplus.default": _softplus}, beta=1, threshold=20),
    **_table("self threshold value", {"threshold.default": _threshold}),
    **_table("self lambd", _SHRINK, lambd=0.5),
    **_table("self weight", {"prelu.default": _prelu}),
    **_table("self end weight", {"lerp.Scalar": _lerp, "lerp.Tensor": _lerp}),
    **_table(
        "self tensor1 tensor2 value", {"addcmul.default": _addc(Op.MUL), "addcdiv.default": _addc(Op.DIV)}, value=1
    ),
    **_table("self p train", {f"{name}.default": _dropout for name in _DROPOUTS}),
    **_table("self dtype", dict.fromkeys(_CASTS, _cast)),
    **_table("size value", {"full.default": _fill("value")}),
    **_table("self value", {"full_like.default": _fill("value")}),
    **_table("self size value", {"new_full.default": _fill("value")}),
    **_table("value", {"scalar_tensor.default": _fill("value")}),
    **_table("self", {f"{n}.default": _filled(0) for n in ("zeros", "zeros_like", "new_zeros")}),
    **_table("self", {f"{n}.default": _filled(1) for n in ("ones", "ones_like", "new_ones")}),
}
