"""Distances, similarities and the losses made of them."""

from collections.abc import Callable

from kgen.frontend.bind import Call
from kgen.frontend.expand.builder import Builder
from kgen.frontend.expand.losses import reduced
from kgen.frontend.expand.reductions import norm_over
from kgen.ir.graph import Argument, ValueRef

Results = tuple[ValueRef, ...]
Rule = Callable[[Builder, Call], Results]
_COSINE_EPS = 1e-12  # torch's EPSILON in cosine_embedding_loss


def _positive(b: Builder, x: ValueRef, least: float = 0.0) -> ValueRef:
    return b.emit("aten.clamp_min.default", (x, least), b.dtype(x), b.shape(x))


def _cosine(b: Builder, c: Call) -> Results:
    """Each vector is divided by its norm, or by eps where that is greater, as torch does."""
    x, y = c.ref("x1"), c.ref("x2")
    shape = tuple(max(p) if 0 not in p else 0 for p in zip(*_aligned(b.shape(x), b.shape(y)), strict=True))
    dim = c.integer("dim") % len(shape)
    x, y = b.expand(x, shape), b.expand(y, shape)
    dot = b.sum(b.math("mul", x, y), (dim,))
    norms = [_positive(b, norm_over(b, v, 2, (dim,)), c.number("eps")) for v in (x, y)]
    found = b.math("div", b.math("div", dot, norms[0]), norms[1])
    return (b.carry(found, c.node.types[0].dtype),)


def _aligned(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    rank = max(len(a), len(b))
    return (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b


def distance(b: Builder, x: ValueRef, y: ValueRef, order: float, eps: float, *, keep: bool = False) -> ValueRef:
    """Return the norm of x - y + eps along the last axis, in the wide type."""
    difference = b.math("add", b.math("sub", x, y), eps)
    return norm_over(b, difference, order, (len(b.shape(difference)) - 1,), keep=keep)


def _pairwise(b: Builder, c: Call) -> Results:
    found = distance(b, c.ref("x1"), c.ref("x2"), c.number("p"), c.number("eps"), keep=bool(c.args["keepdim"]))
    return (b.carry(found, c.node.types[0].dtype),)


def _dist(b: Builder, c: Call) -> Results:
    difference = b.math("sub", c.ref("self"), c.ref("other"))
    dims = tuple(range(len(b.shape(difference))))
    return (b.carry(norm_over(b, difference, c.number("p"), dims), c.node.types[0].dtype),)


def _triplet(b: Builder, c: Call) -> Results:
    anchor, order, eps = c.ref("anchor"), c.number("p"), c.number("eps")
    near = distance(b, anchor, c.ref("positive"), order, eps)
    far = distance(b, anchor, c.ref("negative"), order, eps)
    if c.args["swap"]:
        other = distance(b, c.ref("positive"), c.ref("negative"), order, eps)
        far = b.emit("aten.minimum.default", (far, other), b.dtype(far), b.shape(far))
    loss = _positive(b, b.math("add", b.math("sub", near, far), c.number("margin")))
    return reduced(b, c, loss)


def _cosine_embedding(b: Builder, c: Call) -> Results:
    """1 - cos for pairs of target 1, max(cos - margin, 0) for pairs of target -1."""
    x, y, target = c.ref("input1"), c.ref("input2"), c.ref("target")
    dim = len(b.shape(x)) - 1
    dot = b.sum(b.math("mul", x, y), (dim,))
    sizes = [b.math("add", b.sum(b.math("mul", v, v), (dim,)), _COSINE_EPS) for v in (x, y)]
    cosine = b.math("div", dot, b.math("sqrt", b.math("mul", *sizes)))
    same = b.where_(b.test("eq", target, 1), b.math("add", b.math("neg", cosine), 1.0), 0.0)
    far = _positive(b, b.math("sub", cosine, c.number("margin")))
    other = b.where_(b.test("eq", target, -1), far, 0.0)
    return reduced(b, c, b.math("add", same, other))


def _hinge(b: Builder, c: Call) -> Results:
    """x for targets of 1, max(margin - x, 0) for targets of -1; other targets count both, as in torch."""
    x, target = c.ref("self"), c.ref("target")
    far = _positive(b, b.math("add", b.math("neg", x), c.number("margin")))
    low = b.where_(b.test("ne", target, 1), far, 0.0)
    same = b.where_(b.test("ne", target, -1), x, 0.0, b.wide(x))
    return reduced(b, c, b.math("add", low, same))


def _margin_ranking(b: Builder, c: Call) -> Results:
    difference = b.math("sub", c.ref("input1"), c.ref("input2"))
    product = b.math("mul", b.math("neg", c.ref("target"), dtype=b.wide(c.ref("target"))), difference)
    return reduced(b, c, _positive(b, b.math("add", product, c.number("margin"))))


def _table(names: str, rule: Rule, op: str, **defaults: Argument) -> dict[str, tuple[str, dict[str, Argument], Rule]]:
    return {f"aten.{op}": (names, {"reduction": 1, **defaults}, rule)}


DISTANCES = {
    **_table("x1 x2 dim eps", _cosine, "cosine_similarity.default", dim=1, eps=1e-8),
    **_table("x1 x2 p eps keepdim", _pairwise, "pairwise_distance.default", p=2.0, eps=1e-6, keepdim=False),
    **_table("self other p", _dist, "dist.default", p=2),
    **_table(
        "anchor positive negative margin p eps swap reduction",
        _triplet,
        "triplet_margin_loss.default",
        margin=1.0,
        p=2.0,
        eps=1e-6,
        swap=False,
    ),
    **_table("input1 input2 target margin reduction", _cosine_embedding, "cosine_embedding_loss.default", margin=0.0),
    **_table("self target margin reduction", _hinge, "hinge_embedding_loss.default", margin=1.0),
    **_table("input1 input2 target margin reduction", _margin_ranking, "margin_ranking_loss.default", margin=0.0),
}
