"""The spellings of a matrix product, each reduced to labels: which axes of the operands and the result are one axis."""

from collections.abc import Callable
from dataclasses import dataclass

from kgen.errors.frontend import UnsupportedOpError
from kgen.frontend.bind import Call, bind
from kgen.frontend.einsum import parse_einsum
from kgen.ir.graph import Node, ValueRef

Labels = tuple[str, ...]
Ranks = Callable[[ValueRef], int]
GROUP = "group"  # the label of the matrices that groups of rows are multiplied by


@dataclass(frozen=True, slots=True)
class Product:
    """`alpha * (lhs @ rhs) + beta * addend`, by the labels of every axis; labels absent from `result` are summed.

    Where rows of the result come in groups, `ends` are the rows behind the last one of each, and the label `GROUP` of
    rhs picks the matrix of the row's group.
    """

    lhs: ValueRef
    rhs: ValueRef
    lhs_labels: Labels
    rhs_labels: Labels
    result: Labels
    addend: ValueRef | None = None
    alpha: float = 1.0
    beta: float = 1.0
    ends: ValueRef | None = None


def product_of(node: Node, rank_of: Ranks) -> Product:
    """Return the product that a contraction node means."""
    names, rule = CONTRACTIONS[node.op]
    return rule(bind(node, names, bias=None, alpha=1, beta=1, offs=None), rank_of)


def operands_of(node: Node) -> tuple[ValueRef, ...]:
    """Return the tensors that PyTorch requires to have one dtype."""
    values = (value for name, value in bind(node, CONTRACTIONS[node.op][0]).args.items() if name != "offs")
    flat = [v for value in values for v in (value if isinstance(value, tuple) else (value,))]
    return tuple(v for v in flat if isinstance(v, ValueRef))


Rule = Callable[[Call, Ranks], Product]
_GROUPED = "covered: rows [T, K] in groups that end at offs, by matrices [E, K, N]; a group of columns or of k is a @ b"


def _matmul(call: Call, rank_of: Ranks) -> Product:
    """Vectors lose their missing axis from the result; leading axes broadcast."""
    lhs, rhs = call.ref("self"), call.ref("other")
    a, b = rank_of(lhs), rank_of(rhs)
    depth = max(a, b) - 2
    batch = tuple(f"b{i}" for i in range(max(depth, 0)))
    left = ("k",) if a == 1 else (*batch[len(batch) - (a - 2) :], "m", "k")
    right = ("k",) if b == 1 else (*batch[len(batch) - (b - 2) :], "k", "n")
    result = (*batch, *(("m",) if a > 1 else ()), *(("n",) if b > 1 else ()))
    return Product(lhs, rhs, left, right, result)


def _linear(call: Call, rank_of: Ranks) -> Product:
    x, weight, bias = call.ref("input"), call.ref("weight"), call.args["bias"]
    rows = tuple(f"m{i}" for i in range(rank_of(x) - 1))
    columns = ("n",) if rank_of(weight) == 2 else ()
    addend = bias if isinstance(bias, ValueRef) else None
    return Product(x, weight, (*rows, "k"), (*columns, "k"), (*rows, *columns), addend)


def _inner(call: Call, rank_of: Ranks) -> Product:
    lhs, rhs = call.ref("self"), call.ref("other")
    rows = tuple(f"m{i}" for i in range(rank_of(lhs) - 1))
    columns = tuple(f"n{i}" for i in range(rank_of(rhs) - 1))
    return Product(lhs, rhs, (*rows, "k"), (*columns, "k"), (*rows, *columns))


def _tensordot(call: Call, rank_of: Ranks) -> Product:
    lhs, rhs = call.ref("self"), call.ref("other")
    left = {d % rank_of(lhs): f"k{i}" for i, d in enumerate(call.integers("dims_self"))}
    right = {d % rank_of(rhs): f"k{i}" for i, d in enumerate(call.integers("dims_other"))}
    lhs_labels = tuple(left.get(d, f"m{d}") for d in range(rank_of(lhs)))
    rhs_labels = tuple(right.get(d, f"n{d}") for d in range(rank_of(rhs)))
    kept = tuple(label for label in (*lhs_labels, *rhs_labels) if not label.startswith("k"))
    return Product(lhs, rhs, lhs_labels, rhs_labels, kept)


def _einsum(call: Call, rank_of: Ranks) -> Product:
    equation, operands = call.args["equation"], call.args["operands"]
    assert isinstance(equation, str) and isinstance(operands, tuple)
    refs = tuple(o for o in operands if isinstance(o, ValueRef))
    found = parse_einsum(equation, tuple(rank_of(r) for r in refs), call.node.where)
    (lhs, rhs), (lhs_labels, rhs_labels) = refs, found.operands
    return Product(lhs, rhs, lhs_labels, rhs_labels, found.result)


def _grouped(call: Call, rank_of: Ranks) -> Product:
    """Rows of the left operand in groups, each multiplied by a matrix of its own; without ends it is a batch."""
    lhs, rhs, ends, bias = call.ref("self"), call.ref("mat2"), call.args["offs"], call.args["bias"]
    match rank_of(lhs), rank_of(rhs), ends, bias:
        case 2, 3, ValueRef(), None:
            return Product(lhs, rhs, ("m", "k"), (GROUP, "k", "n"), ("m", "n"), ends=ends)
        case 3, 3, None, None:
            return Product(lhs, rhs, ("b", "m", "k"), ("b", "k", "n"), ("b", "m", "n"))
    with_bias = "" if bias is None else " and a bias"
    place = f"of operands with {rank_of(lhs)} and {rank_of(rhs)} axes{with_bias}"
    raise UnsupportedOpError(where=call.node.where, op=call.node.op, place=place, covered=_GROUPED)


def _with_addend(left: str, right: str, result: str) -> Rule:
    """Return the rule of an `add...` op: `beta * input + alpha * (a @ b)`, one letter an axis."""

    def rule(call: Call, rank_of: Ranks) -> Product:
        labels = (tuple(left), tuple(right), tuple(result))
        scales = (call.number("alpha"), call.number("beta"))
        return Product(call.ref("a"), call.ref("b"), *labels, call.ref("input"), *scales)

    return rule


def _table(names: str, rule: Rule, *ops: str) -> dict[str, tuple[str, Rule]]:
    return {f"aten.{op}": (names, rule) for op in ops}


CONTRACTIONS: dict[str, tuple[str, Rule]] = {
    **_table("self other", _matmul, "matmul.default", "mm.default", "bmm.default", "mv.default", "dot.default"),
    **_table("self other", _matmul, "vdot.default", "_int_mm.default"),
    **_table("self other", _inner, "inner.default"),
    **_table("input weight bias", _linear, "linear.default"),
    **_table("input a b", _with_addend("mk", "kn", "mn"), "addmm.default"),
    **_table("input a b", _with_addend("bmk", "bkn", "bmn"), "baddbmm.default"),
    **_table("input a b", _with_addend("bmk", "bkn", "mn"), "addbmm.default"),
    **_table("input a b", _with_addend("mk", "k", "m"), "addmv.default"),
    **_table("self other dims_self dims_other", _tensordot, "tensordot.default"),
    **_table("equation operands", _einsum, "einsum.default"),
    **_table("self mat2 offs bias out_dtype", _grouped, "_grouped_mm.default"),
}
