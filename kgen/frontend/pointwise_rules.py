"""The rules of torch's pointwise operations: what each overload means in the closed set of `PointwiseOp`s."""

import math
from collections.abc import Mapping

from kgen.frontend import float_rules as floats
from kgen.frontend import number_rules as numbers
from kgen.frontend.number_rules import Rule
from kgen.frontend.pointwise import PointwiseCall
from kgen.ir.dtype import DType
from kgen.ir.graph import Argument
from kgen.ir.pointwise import PointwiseOp as Op
from kgen.ir.problem import Const, Operand

Defaults = dict[str, Argument]


def _scaled(c: PointwiseCall, value: Operand, factor: str) -> Operand:
    """Return `value * factor`, or the value where the factor is 1."""
    number = c.call.args[factor]
    assert isinstance(number, bool | int | float)
    return value if number == 1 else c.map(Op.MUL, value, c.number(number))


def _add(c: PointwiseCall) -> Operand:
    return c.map(Op.ADD, c.get("self"), _scaled(c, c.get("other"), "alpha"))


def _sub(c: PointwiseCall) -> Operand:
    return c.map(Op.SUB, c.get("self"), _scaled(c, c.get("other"), "alpha"))


def _rsub(c: PointwiseCall) -> Operand:
    return c.map(Op.SUB, c.get("other"), _scaled(c, c.get("self"), "alpha"))


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


def _where(c: PointwiseCall) -> Operand:
    return numbers.where(c, _truth(c, "condition"), c.fill("self"), c.fill("other"))


def _masked_fill(c: PointwiseCall) -> Operand:
    return numbers.where(c, _truth(c, "mask"), c.fill("value"), c.get("self"))


def _addc(op: Op) -> Rule:
    def rule(c: PointwiseCall) -> Operand:
        product = c.map(op, _scaled(c, c.get("tensor1"), "value"), c.get("tensor2"))
        return c.map(Op.ADD, c.get("self"), product)

    return rule


def _not(c: PointwiseCall) -> Operand:
    return c.test(Op.LOGICAL_NOT, _truth(c, "self"))


def _cast(c: PointwiseCall) -> Operand:
    """An explicit cast is kept where it is written; one that changes nothing of a loaded value needs no Map."""
    value = c.raw(c.call.ref("self"))
    if isinstance(value, str) and c.body.dtypes[value] is c.dtype:
        return value
    if c.dtype is DType.BOOL:
        return _truth(c, "self")
    return c.cast(value, c.dtype)


def _fill(name: str) -> Rule:
    return lambda c: c.fill(name)


def _filled(value: float) -> Rule:
    return lambda c: c.number(value, exact=False)


def _table(names: str, rules: Mapping[str, Rule], **defaults: Argument) -> dict[str, tuple[str, Defaults, Rule]]:
    return {f"aten.{op}": (names, defaults, rule) for op, rule in rules.items()}


_UNARY = (
    "neg abs exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh asinh "
    "acosh atanh erf erfc erfinv sigmoid silu mish selu hardsigmoid hardswish softsign"
)
_ALIASES: dict[str, Op] = {  # torch's second names, and those of torch.special
    "negative": Op.NEG,
    "absolute": Op.ABS,
    "log_sigmoid": Op.LOGSIGMOID,
    "log_sigmoid_forward": Op.LOGSIGMOID,
    **{f"arc{name}": Op(f"a{name}") for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{f"special_{name}": Op(name) for name in ("exp2", "expm1", "log1p", "erf", "erfc", "erfinv")},
    "special_expit": Op.SIGMOID,
}
_WHOLE = {"floor": Op.FLOOR, "ceil": Op.CEIL, "trunc": Op.TRUNC, "fix": Op.TRUNC, "round": Op.ROUND}
_COMPARISONS = "eq ne lt le gt ge"
_COMPARISON_ALIASES = {
    "not_equal": Op.NE,
    "less": Op.LT,
    "less_equal": Op.LE,
    "greater": Op.GT,
    "greater_equal": Op.GE,
}
_CASTS = ("_to_copy.default", "to.dtype", "to.dtype_layout", "to.device", "to.other", "type_as.default")
_XLOGY_OVERLOADS = ("Tensor", "Scalar_Self", "Scalar_Other")
_SPECIAL_OVERLOADS = ("default", "self_scalar", "other_scalar")
_OPEN: Defaults = {"min": None, "max": None}
_OTHER = ("Tensor", "Scalar")
_EITHER = ("Tensor", "Scalar", "Scalar_Tensor")
_SHIFT_OVERLOADS = ("Tensor", "Tensor_Scalar", "Scalar_Tensor")
_BITWISE: dict[str, tuple[Op, Op]] = {
    "and": (Op.BITWISE_AND, Op.LOGICAL_AND),
    "or": (Op.BITWISE_OR, Op.LOGICAL_OR),
    "xor": (Op.BITWISE_XOR, Op.NE),
}


def _overloads(overloads: tuple[str, ...], rules: dict[str, Rule]) -> dict[str, Rule]:
    return {f"{name}.{overload}": rule for name, rule in rules.items() for overload in overloads}


_LEFT, _RIGHT = numbers.binary(Op.SHIFT_LEFT), numbers.binary(Op.SHIFT_RIGHT)
_ONE_OPERAND: dict[str, Rule] = {
    **{name: numbers.unary(Op(name)) for name in _UNARY.split()},
    **{name: numbers.unary(op) for name, op in _ALIASES.items()},
    **{name: numbers.rounding(op) for name, op in _WHOLE.items()},
    "relu": numbers.relu,
    "sign": numbers.sign,
    "sgn": numbers.sign,
    "square": numbers.square,
    "frac": floats.frac,
    "sinc": floats.sinc,
    "special_sinc": floats.sinc,
    "deg2rad": numbers.scaled_by(math.pi / 180.0),
    "rad2deg": numbers.scaled_by(180.0 / math.pi),
    "positive": lambda c: c.get("self"),
    "isnan": numbers.isnan,
    "isinf": numbers.magnitude_test(Op.EQ, on_integers=False),
    "isfinite": numbers.magnitude_test(Op.LT, on_integers=True),
    "isposinf": numbers.infinity_test(math.inf),
    "isneginf": numbers.infinity_test(-math.inf),
    "signbit": numbers.signbit,
    "logical_not": _not,
    "bitwise_not": numbers.bitwise(Op.BITWISE_NOT, Op.LOGICAL_NOT),
}
_TWO_OPERANDS: dict[str, Rule] = {
    **_overloads(_OTHER, dict.fromkeys(("mul", "multiply"), numbers.binary(Op.MUL))),
    **_overloads(_EITHER, {"remainder": numbers.binary(Op.REMAINDER)}),
    **_overloads(_OTHER, {"fmod": numbers.binary(Op.FMOD), "copysign": numbers.binary(Op.COPYSIGN)}),
    **_overloads(_OTHER, {name: _compare(Op(name)) for name in _COMPARISONS.split()}),
    **_overloads(_OTHER, {name: _compare(op) for name, op in _COMPARISON_ALIASES.items()}),
    **_overloads(_EITHER, {f"bitwise_{name}": numbers.bitwise(*ops) for name, ops in _BITWISE.items()}),
    **_overloads(_OTHER, {f"__{name}__": numbers.bitwise(*ops) for name, ops in _BITWISE.items()}),
    **_overloads(_OTHER, {"__lshift__": _LEFT, "__rshift__": _RIGHT}),
    **_overloads(_SHIFT_OVERLOADS, {"bitwise_left_shift": _LEFT, "bitwise_right_shift": _RIGHT}),
    "maximum.default": numbers.binary(Op.MAXIMUM),
    "max.other": numbers.binary(Op.MAXIMUM),
    "minimum.default": numbers.binary(Op.MINIMUM),
    "min.other": numbers.binary(Op.MINIMUM),
    "fmax.default": numbers.quiet_extremum(Op.MAXIMUM),
    "fmin.default": numbers.quiet_extremum(Op.MINIMUM),
    "floor_divide.default": numbers.binary(Op.FLOOR_DIVIDE),
    "floor_divide.Scalar": numbers.binary(Op.FLOOR_DIVIDE),
    "logical_and.default": _logical(Op.LOGICAL_AND),
    "logical_or.default": _logical(Op.LOGICAL_OR),
    "logical_xor.default": _logical(Op.NE),
    "atan2.default": numbers.binary(Op.ATAN2),
    "arctan2.default": numbers.binary(Op.ATAN2),
    "hypot.default": floats.hypot,
    "logaddexp.default": floats.logaddexp_e,
    "logaddexp2.default": floats.logaddexp_2,
    **_overloads(_XLOGY_OVERLOADS, {"xlogy": floats.xlogy(Op.LOG)}),
    **_overloads(
        _SPECIAL_OVERLOADS, {"special_xlogy": floats.xlogy(Op.LOG), "special_xlog1py": floats.xlogy(Op.LOG1P)}
    ),
}
_CREATED: dict[str, float] = {"zeros": 0, "zeros_like": 0, "new_zeros": 0, "ones": 1, "ones_like": 1, "new_ones": 1}
_DIVISIONS = {
    f"{n}.{o}": numbers.divide
    for n in ("div", "divide", "true_divide")
    for o in (*_OTHER, *(() if n == "true_divide" else ("Tensor_mode", "Scalar_mode")))
}
_POWERS = {
    f"{n}.{o}": numbers.power for n in ("pow", "float_power") for o in ("Tensor_Scalar", "Tensor_Tensor", "Scalar")
}
_SHRINK: dict[str, Rule] = {"hardshrink.default": floats.hardshrink, "softshrink.default": floats.softshrink}
_DROPOUTS = ("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout", "native_dropout")

POINTWISE: dict[str, tuple[str, Defaults, Rule]] = {
    **_table("self", {f"{name}.default": rule for name, rule in _ONE_OPERAND.items()}),
    **_table("self other", _TWO_OPERANDS),
    **_table("self other alpha", {f"add.{o}": _add for o in ("Tensor", "Scalar")}, alpha=1),
    **_table(
        "self other alpha", {f"{n}.{o}": _sub for n in ("sub", "subtract") for o in ("Tensor", "Scalar")}, alpha=1
    ),
    **_table("self other alpha", {f"rsub.{o}": _rsub for o in ("Tensor", "Scalar")}, alpha=1),
    **_table("self other", _DIVISIONS, rounding_mode=None),
    **_table("self exponent", _POWERS),
    **_table("condition self other", {f"where.{o}": _where for o in ("self", "ScalarSelf", "ScalarOther", "Scalar")}),
    **_table("self mask value", {f"masked_fill.{o}": _masked_fill for o in ("Scalar", "Tensor")}),
    **_table("self min max", dict.fromkeys(("clamp.default", "clamp.Tensor", "clip.default"), numbers.clamp), **_OPEN),
    **_table("self min max", {"hardtanh.default": numbers.clamp}, min=-1, max=1),
    **_table("self min max", {"relu6.default": numbers.clamp}, min=0, max=6),
    **_table("self min", {f"clamp_min.{o}": numbers.extremum(Op.MAXIMUM, "min") for o in ("default", "Tensor")}),
    **_table("self max", {f"clamp_max.{o}": numbers.extremum(Op.MINIMUM, "max") for o in ("default", "Tensor")}),
    **_table("self values", {"heaviside.default": numbers.heaviside}),
    **_table("self nan posinf neginf", {"nan_to_num.default": numbers.nan_to_num}, nan=None, posinf=None, neginf=None),
    **_table("self eps", {"logit.default": floats.logit, "special_logit.default": floats.logit}, eps=None),
    **_table("self approximate", {"gelu.default": floats.gelu}, approximate="none"),
    **_table("self dim", {"glu.default": floats.glu}, dim=-1),
    **_table("self negative_slope", {"leaky_relu.default": floats.leaky_relu}, negative_slope=0.01),
    **_table("self lower upper training", {"rrelu.default": floats.rrelu}, lower=0.125, upper=1 / 3, training=False),
    **_table("self alpha scale input_scale", {"elu.default": floats.elu}, alpha=1, scale=1, input_scale=1),
    **_table("self alpha", {"celu.default": floats.celu}, alpha=1),
    **_table("self beta threshold", {"softplus.default": floats.softplus}, beta=1, threshold=20),
    **_table("self threshold value", {"threshold.default": floats.threshold}),
    **_table("self lambd", _SHRINK, lambd=0.5),
    **_table("self weight", {"prelu.default": floats.prelu}),
    **_table("self end weight", {"lerp.Scalar": floats.lerp, "lerp.Tensor": floats.lerp}),
    **_table(
        "self tensor1 tensor2 value", {"addcmul.default": _addc(Op.MUL), "addcdiv.default": _addc(Op.DIV)}, value=1
    ),
    **_table("self p train", {f"{name}.default": floats.dropout for name in _DROPOUTS}),
    **_table("self dtype", dict.fromkeys(_CASTS, _cast)),
    **_table("size value", {"full.default": _fill("value")}),
    **_table("self value", dict.fromkeys(("full_like.default", "fill.Scalar", "fill.Tensor"), _fill("value"))),
    **_table("self size value", {"new_full.default": _fill("value")}),
    **_table("value", {"scalar_tensor.default": _fill("value")}),
    **_table("self", {f"{name}.default": _filled(value) for name, value in _CREATED.items()}),
}
