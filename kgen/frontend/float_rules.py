"""Rules of torch's functions of real numbers: activations, and what is made of logarithms and exponentials."""

from kgen.errors.frontend import RandomOpError
from kgen.frontend.indices import ZERO, add
from kgen.frontend.number_rules import INFINITY, LOG2_E, Rule, where
from kgen.frontend.pointwise import PointwiseCall
from kgen.ir.access import Affine
from kgen.ir.pointwise import PointwiseOp as Op
from kgen.ir.problem import Const, Operand


def gelu(c: PointwiseCall) -> Operand:
    return c.map(Op.GELU_TANH if c.call.args["approximate"] == "tanh" else Op.GELU_ERF, c.get("self"))


def leaky_relu(c: PointwiseCall) -> Operand:
    return c.map(Op.LEAKY_RELU, c.get("self"), c.get("negative_slope"))


def rrelu(c: PointwiseCall) -> Operand:
    """In evaluation mode the slope is the mean of its bounds."""
    if c.call.args["training"]:
        raise RandomOpError(where=c.node.where, op=c.node.op)
    slope = c.number((c.call.number("lower") + c.call.number("upper")) / 2)
    return c.map(Op.LEAKY_RELU, c.get("self"), slope)


def elu(c: PointwiseCall) -> Operand:
    return c.map(Op.ELU, c.get("self"), c.get("alpha"), c.get("scale"), c.get("input_scale"))


def celu(c: PointwiseCall) -> Operand:
    alpha = c.call.number("alpha")
    return c.map(Op.ELU, c.get("self"), Const(alpha), Const(1.0), Const(1.0 / alpha))


def softplus(c: PointwiseCall) -> Operand:
    return c.map(Op.SOFTPLUS, c.get("self"), c.get("beta"), c.get("threshold"))


def threshold(c: PointwiseCall) -> Operand:
    x = c.get("self")
    below = c.test(Op.LE, x, c.get("threshold", exact=False))
    return where(c, below, c.get("value", exact=False), x)


def hardshrink(c: PointwiseCall) -> Operand:
    x = c.get("self")
    inside = c.test(Op.LE, c.map(Op.ABS, x), c.get("lambd", exact=False))
    return where(c, inside, Const(0.0), x)


def softshrink(c: PointwiseCall) -> Operand:
    """Beyond the threshold x moves towards zero by it; inside, x * 0 keeps NaN."""
    x, limit = c.get("self"), c.get("lambd", exact=False)
    outside = c.test(Op.GT, c.map(Op.ABS, x), limit)
    moved = c.map(Op.SUB, x, c.map(Op.MUL, c.map(Op.SIGN, x), limit))
    return where(c, outside, moved, c.map(Op.MUL, x, Const(0.0)))


def prelu(c: PointwiseCall) -> Operand:
    """The weight runs along axis 1, or is one number."""
    weight = c.call.ref("weight")
    per_channel = c.body.shape(weight) not in ((), (1,))
    index = c.indices[1] if per_channel else ZERO
    x, slope = c.get("self"), c.body.value(weight, (index,) if c.body.shape(weight) else ())
    return where(c, c.test(Op.GT, x, Const(0.0)), x, c.map(Op.MUL, slope, x))


def lerp(c: PointwiseCall) -> Operand:
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
    return where(c, c.test(Op.LT, c.map(Op.ABS, weight), Const(0.5)), from_start, from_end)


def frac(c: PointwiseCall) -> Operand:
    return c.map(Op.SUB, c.get("self"), c.map(Op.TRUNC, c.get("self")))


def logit(c: PointwiseCall) -> Operand:
    x = c.get("self")
    if c.call.args["eps"] is not None:
        eps = c.call.number("eps")
        x = c.map(Op.MINIMUM, c.map(Op.MAXIMUM, x, Const(eps)), Const(1.0 - eps))
    return c.map(Op.LOG, c.map(Op.DIV, x, c.map(Op.SUB, Const(1.0), x)))


def xlogy(op: Op) -> Rule:
    """x * log(y), 0 where x is, NaN where y is."""

    def rule(c: PointwiseCall) -> Operand:
        x, y = c.get("self"), c.get("other")
        product = where(c, c.test(Op.EQ, x, Const(0.0)), Const(0.0), c.map(Op.MUL, x, c.map(op, y)))
        return where(c, c.test(Op.NE, y, y), y, product)

    return rule


def logaddexp(exp: Op, scale: float) -> Rule:
    """The larger one and a logarithm that does not overflow; equal infinities have no difference."""

    def rule(c: PointwiseCall) -> Operand:
        x, y = c.get("self"), c.get("other")
        away = c.map(Op.NEG, c.map(Op.ABS, c.map(Op.SUB, x, y)))
        small = c.map(Op.LOG1P, c.map(exp, away))
        small = small if scale == 1.0 else c.map(Op.MUL, small, Const(scale))
        total = c.map(Op.ADD, c.map(Op.MAXIMUM, x, y), small)
        infinite = c.test(Op.EQ, c.map(Op.ABS, x), INFINITY)
        return where(c, c.test(Op.LOGICAL_AND, c.test(Op.EQ, x, y), infinite), x, total)

    return rule


logaddexp_e = logaddexp(Op.EXP, 1.0)
logaddexp_2 = logaddexp(Op.EXP2, LOG2_E)


def hypot(c: PointwiseCall) -> Operand:
    """Scaled by the longer side, so that no square overflows; infinite where a side is, even beside NaN."""
    x, y = c.map(Op.ABS, c.get("self")), c.map(Op.ABS, c.get("other"))
    longer, shorter = c.map(Op.MAXIMUM, x, y), c.map(Op.MINIMUM, x, y)
    ratio = c.map(Op.DIV, shorter, longer)
    root = c.map(Op.SQRT, c.map(Op.ADD, c.map(Op.MUL, ratio, ratio), Const(1.0)))
    length = where(c, c.test(Op.EQ, longer, Const(0.0)), Const(0.0), c.map(Op.MUL, longer, root))
    infinite = c.test(Op.LOGICAL_OR, c.test(Op.EQ, x, INFINITY), c.test(Op.EQ, y, INFINITY))
    return where(c, infinite, INFINITY, length)


def sinc(c: PointwiseCall) -> Operand:
    angle = c.map(Op.MUL, c.get("self"), Const(3.141592653589793))
    quotient = c.map(Op.DIV, c.map(Op.SIN, angle), angle)
    return where(c, c.test(Op.EQ, angle, Const(0.0)), Const(1.0), quotient)


def glu(c: PointwiseCall) -> Operand:
    """The first half of an axis by the sigmoid of the second."""
    ref, dim = c.call.ref("self"), c.call.integer("dim")
    half = c.shape[dim]
    second = tuple(
        add(index, Affine(offset=half)) if at == dim % len(c.shape) else index for at, index in enumerate(c.indices)
    )
    return c.map(Op.MUL, c.body.value(ref, c.indices), c.map(Op.SIGMOID, c.body.value(ref, second)))


def dropout(c: PointwiseCall) -> Operand:
    if c.call.args["train"] and c.call.args["p"]:
        raise RandomOpError(where=c.node.where, op=c.node.op)
    return c.get("self")
