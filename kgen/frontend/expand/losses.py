"""Losses, as torch computes them, with torch's reductions: 0 none, 1 mean, 2 sum."""

from collections.abc import Callable

from kgen.frontend.bind import Call
from kgen.frontend.expand.builder import Builder
from kgen.frontend.expand.softmax import log_softmax
from kgen.ir.dtype import DType
from kgen.ir.graph import Argument, ValueRef

Results = tuple[ValueRef, ...]
Rule = Callable[[Builder, Call], Results]
_MEAN, _SUM = 1, 2


def reduced(b: Builder, c: Call, loss: ValueRef) -> Results:
    """Return the loss of all elements as the `reduction` argument asks for it, in the result's type."""
    dims, how = tuple(range(len(b.shape(loss)))), c.args["reduction"]
    if how == _MEAN:
        loss = b.mean(loss, dims)
    elif how == _SUM:
        loss = b.sum(loss, dims)
    return (b.carry(loss, c.node.types[0].dtype),)


def _difference(b: Builder, c: Call) -> ValueRef:
    return b.math("sub", c.ref("self"), c.ref("target"))


def _mse(b: Builder, c: Call) -> Results:
    d = _difference(b, c)
    return reduced(b, c, b.math("mul", d, d))


def _l1(b: Builder, c: Call) -> Results:
    return reduced(b, c, b.math("abs", _difference(b, c)))


def _huber(b: Builder, c: Call) -> Results:
    delta, size = c.number("delta"), b.math("abs", _difference(b, c))
    near = b.math("mul", b.math("mul", size, size), 0.5)
    far = b.math("mul", b.math("sub", size, 0.5 * delta), delta)
    return reduced(b, c, b.where_(b.test("le", size, delta), near, far))


def _smooth_l1(b: Builder, c: Call) -> Results:
    beta, size = c.number("beta"), b.math("abs", _difference(b, c))
    if beta == 0:
        return reduced(b, c, size)
    near = b.math("div", b.math("mul", b.math("mul", size, size), 0.5), beta)
    return reduced(b, c, b.where_(b.test("lt", size, beta), near, b.math("sub", size, 0.5 * beta)))


def _kl_div(b: Builder, c: Call) -> Results:
    x, target = c.ref("self"), c.ref("target")
    if c.args["log_target"]:
        return reduced(b, c, b.math("mul", b.math("exp", target), b.math("sub", target, x)))
    return reduced(b, c, b.math("sub", xlogy(b, target, target), b.math("mul", target, x)))


def xlogy(b: Builder, x: ValueRef, y: ValueRef) -> ValueRef:
    """Return x * log(y), 0 where x is 0 and y is not NaN."""
    product = b.math("mul", x, b.math("log", y))
    zero = b.emit("aten.logical_and.default", (b.test("eq", x, 0), b.test("eq", y, y)), DType.BOOL, b.shape(product))
    return b.where_(zero, 0.0, product)


def _weighted(b: Builder, c: Call, loss: ValueRef) -> Results:
    weight = c.args["weight"]
    return reduced(b, c, b.math("mul", loss, weight) if isinstance(weight, ValueRef) else loss)


def _bce(b: Builder, c: Call) -> Results:
    """Logarithms are cut off at -100, as in torch."""
    x, target = c.ref("self"), c.ref("target")
    ones = _at_least(b, b.math("log", x))
    rest = _at_least(b, b.math("log1p", b.math("neg", x)))
    loss = b.math("sub", b.math("mul", b.math("sub", target, 1.0), rest), b.math("mul", target, ones))
    return _weighted(b, c, loss)


def _at_least(b: Builder, x: ValueRef, least: float = -100.0) -> ValueRef:
    return b.emit("aten.clamp_min.default", (x, least), b.dtype(x), b.shape(x))


def _bce_with_logits(b: Builder, c: Call) -> Results:
    """(1 - target) * x - (1 + (pos_weight - 1) * target) * logsigmoid(x)"""
    x, target, positive = c.ref("self"), c.ref("target"), c.args["pos_weight"]
    log = b.emit("aten.log_sigmoid.default", (x,), b.wide(x), b.shape(x))
    if isinstance(positive, ValueRef):
        log = b.math("mul", log, b.math("add", b.math("mul", b.math("sub", positive, 1.0), target), 1.0))
    rest = b.math("mul", b.math("add", b.math("neg", target), 1.0), x)
    return _weighted(b, c, b.math("sub", rest, log))


def _nll(b: Builder, c: Call) -> Results:
    return _class_loss(b, c, c.ref("self"), smoothing=0.0)


def _cross_entropy(b: Builder, c: Call) -> Results:
    x, target = c.ref("self"), c.ref("target")
    dim = 1 if len(b.shape(x)) > 1 else 0
    log = log_softmax(b, x, dim)
    if b.dtype(target).is_float:
        return _soft_loss(b, c, log, dim)
    return _class_loss(b, c, log, smoothing=c.number("label_smoothing"))


def _class_weight(b: Builder, c: Call, rank: int) -> ValueRef | None:
    """Return the class weights with a shape that broadcasts along the class axis."""
    weight = c.args["weight"]
    if not isinstance(weight, ValueRef):
        return None
    return b.view(weight, (*b.shape(weight), *(1,) * max(rank - 2, 0)))


def _soft_loss(b: Builder, c: Call, log: ValueRef, dim: int) -> Results:
    """The loss of class probabilities; the mean is over all but the class axis."""
    target, smoothing, classes = c.ref("target"), c.number("label_smoothing"), b.shape(log)[dim]
    if smoothing:
        target = b.math("add", b.math("mul", target, 1 - smoothing), smoothing / classes)
    weight = _class_weight(b, c, len(b.shape(log)))
    product = b.math("mul", log, target)
    product = product if weight is None else b.math("mul", product, weight)
    return reduced(b, c, b.math("neg", b.sum(product, (dim,))))


def _class_loss(b: Builder, c: Call, log: ValueRef, smoothing: float) -> Results:
    """The loss of class indices: ignored ones count neither in the sum nor in the mean's divisor."""
    target, rank = c.ref("target"), len(b.shape(log))
    dim = 1 if rank > 1 else 0
    column = (*b.shape(log)[:dim], 1, *b.shape(log)[dim + 1 :])
    counts = b.test("ne", target, c.integer("ignore_index"))
    index = b.emit("aten.where.self", (counts, target, 0), DType.INT64, b.shape(target))
    place = b.view(index, column)
    picked = b.view(b.gather(log, dim, place), b.shape(target))
    weight, share = c.args["weight"], None
    loss = b.math("neg", picked)
    if isinstance(weight, ValueRef):
        share = b.where_(counts, b.emit("aten.index.Tensor", (weight, (index,)), b.dtype(weight), b.shape(target)), 0.0)
        loss = b.math("mul", loss, share)
    loss = b.where_(counts, loss, 0.0)
    if smoothing:
        spread = log if share is None else b.math("mul", log, _weight_of(b, c, rank))
        even = b.where_(counts, b.math("neg", b.sum(spread, (dim,))), 0.0)
        even = b.math("mul", even, smoothing / b.shape(log)[dim])
        loss = b.math("add", b.math("mul", loss, 1 - smoothing), even)
    return _class_mean(b, c, loss, counts if share is None else share)


def _weight_of(b: Builder, c: Call, rank: int) -> ValueRef:
    weight = _class_weight(b, c, rank)
    assert weight is not None
    return weight


def _class_mean(b: Builder, c: Call, loss: ValueRef, share: ValueRef) -> Results:
    """Return the reduced loss, and for torch's `nll_loss_forward` the divisor of the mean."""
    dims, how = tuple(range(len(b.shape(loss)))), c.args["reduction"]
    counted = b.where_(share, 1.0, 0.0) if b.dtype(share) is DType.BOOL else share
    total = b.sum(counted, dims)
    if how == _MEAN:
        loss = b.math("div", b.sum(loss, dims), total)
    elif how == _SUM:
        loss = b.sum(loss, dims)
    rest = (b.carry(total, c.node.types[1].dtype),) if len(c.node.types) > 1 else ()
    return (b.carry(loss, c.node.types[0].dtype), *rest)


def _table(names: str, rule: Rule, *ops: str, **defaults: Argument) -> dict[str, tuple[str, dict[str, Argument], Rule]]:
    defaults = {"reduction": _MEAN, "weight": None, "ignore_index": -100, **defaults}
    return {f"aten.{op}": (names, defaults, rule) for op in ops}


_CLASSES = ("nll_loss.default", "nll_loss_nd.default", "nll_loss2d.default", "nll_loss_forward.default")

LOSSES = {
    **_table("self target reduction", _mse, "mse_loss.default"),
    **_table("self target reduction", _l1, "l1_loss.default"),
    **_table("self target reduction delta", _huber, "huber_loss.default", delta=1.0),
    **_table("self target reduction beta", _smooth_l1, "smooth_l1_loss.default", beta=1.0),
    **_table("self target reduction", _kl_div, "kl_div.default", log_target=False),
    **_table("self target weight reduction", _bce, "binary_cross_entropy.default"),
    **_table(
        "self target weight pos_weight reduction",
        _bce_with_logits,
        "binary_cross_entropy_with_logits.default",
        pos_weight=None,
    ),
    **_table("self target weight reduction ignore_index", _nll, *_CLASSES),
    **_table(
        "self target weight reduction ignore_index label_smoothing",
        _cross_entropy,
        "cross_entropy_loss.default",
        label_smoothing=0.0,
    ),
}
