"""torch's reductions and scans in terms of `kgen.reduce.*` and `kgen.scan.*`."""

from collections.abc import Callable

from kgen.errors.frontend import UnsupportedOpError
from kgen.frontend.bind import Call
from kgen.frontend.expand.builder import SCAN, Builder, dims_of
from kgen.ir.dtype import DType
from kgen.ir.graph import Argument, ValueRef
from kgen.ir.problem import Combine

Results = tuple[ValueRef, ...]
Rule = Callable[[Builder, Call], Results]


def _dims(b: Builder, c: Call) -> tuple[int, ...]:
    return dims_of(c.args.get("dim"), len(b.shape(c.ref("self"))))


def _keep(c: Call) -> bool:
    return bool(c.args["keepdim"])


def _fold(combine: Combine) -> Rule:
    """Sums and products: the operand takes the result's type first, as torch's `dtype` argument says."""

    def rule(b: Builder, c: Call) -> Results:
        dtype = c.node.types[0].dtype
        x = c.ref("self")
        if dtype.is_float and not b.dtype(x).is_float:
            x = b.cast(x, dtype)
        return (b.reduce(combine, x, _dims(b, c), keep=_keep(c), dtype=dtype),)

    return rule


def _extremum(combine: Combine) -> Rule:
    def rule(b: Builder, c: Call) -> Results:
        x = c.ref("self")
        return (b.reduce(combine, x, _dims(b, c), keep=_keep(c), dtype=b.dtype(x)),)

    return rule


def _with_index(value: Combine, index: Combine) -> Rule:
    def rule(b: Builder, c: Call) -> Results:
        x, dims, keep = c.ref("self"), _dims(b, c), _keep(c)
        found = b.reduce(value, x, dims, keep=keep, dtype=b.dtype(x))
        return found, b.reduce(index, x, dims, keep=keep, dtype=DType.INT64)

    return rule


def _index_of(combine: Combine) -> Rule:
    return lambda b, c: (b.reduce(combine, c.ref("self"), _dims(b, c), keep=_keep(c), dtype=DType.INT64),)


def _both_ends(b: Builder, c: Call) -> Results:
    return (*_extremum(Combine.MIN)(b, c), *_extremum(Combine.MAX)(b, c))


def _truth(combine: Combine) -> Rule:
    def rule(b: Builder, c: Call) -> Results:
        x = c.ref("self")
        test = x if b.dtype(x) is DType.BOOL else b.test("ne", x, 0)
        found = b.reduce(combine, test, _dims(b, c), keep=_keep(c), dtype=DType.BOOL)
        return (b.cast(found, c.node.types[0].dtype),)

    return rule


def _count(b: Builder, c: Call) -> Results:
    return (b.reduce(Combine.SUM, b.test("ne", c.ref("self"), 0), _dims(b, c), dtype=DType.INT64),)


def _mean(b: Builder, c: Call) -> Results:
    dtype, x = c.node.types[0].dtype, c.ref("self")
    wide = b.cast(x, dtype) if dtype is DType.FP64 or not b.dtype(x).is_float else x
    return (b.carry(b.mean(wide, _dims(b, c), keep=_keep(c)), dtype),)


def _correction(c: Call) -> float:
    if "unbiased" in c.args:
        return float(bool(c.args["unbiased"]))
    return 1.0 if c.args.get("correction") is None else c.number("correction")


def _spread(*, root: bool, with_mean: bool) -> Rule:
    """Variance or standard deviation, and the mean beside it."""

    def rule(b: Builder, c: Call) -> Results:
        x, dims, dtype = c.ref("self"), _dims(b, c), c.node.types[0].dtype
        found = b.variance(x, dims, keep=_keep(c), correction=_correction(c))
        found = b.math("sqrt", found) if root else found
        means = (b.carry(b.mean(x, dims, keep=_keep(c)), dtype),) if with_mean else ()
        return (b.carry(found, dtype), *means)

    return rule


def norm_over(b: Builder, x: ValueRef, order: float, dims: tuple[int, ...], *, keep: bool = False) -> ValueRef:
    """Return a vector norm over some axes, in the wide type."""
    size = b.math("abs", x)
    if order == float("inf"):
        return b.reduce(Combine.MAX, size, dims, keep=keep)
    if order == float("-inf"):
        return b.reduce(Combine.MIN, size, dims, keep=keep)
    if order == 0:
        return b.cast(b.reduce(Combine.SUM, b.test("ne", x, 0), dims, keep=keep, dtype=DType.INT64), b.wide(x))
    if order == 1:
        return b.sum(size, dims, keep=keep)
    if order == 2:
        return b.math("sqrt", b.sum(b.math("mul", x, x), dims, keep=keep))
    return b.power(b.sum(b.power(size, order), dims, keep=keep), 1.0 / order)


def _norm(b: Builder, c: Call) -> Results:
    order = c.args["p"]
    if isinstance(order, str) and order != "fro":
        covered = "covered: vector norms of any order, and the Frobenius norm"
        raise UnsupportedOpError(where=c.node.where, op=c.node.op, place=f"with the order {order!r}", covered=covered)
    p = 2.0 if order is None or isinstance(order, str) else c.number("p")
    dtype, x = c.node.types[0].dtype, c.ref("self")
    x = b.cast(x, dtype) if dtype is DType.FP64 else x
    return (b.carry(norm_over(b, x, p, _dims(b, c), keep=_keep(c)), dtype),)


def _logsumexp(b: Builder, c: Call) -> Results:
    """The greatest element is taken out first, unless it is infinite, as torch does."""
    x, dims = c.ref("self"), _dims(b, c)
    top = b.reduce(Combine.MAX, x, dims, keep=True)
    finite = b.test("ne", b.math("abs", top), float("inf"))
    shift = b.where_(finite, top, 0.0)
    total = b.sum(b.math("exp", b.math("sub", x, shift)), dims, keep=True)
    found = b.math("add", b.math("log", total), shift)
    kept = found if _keep(c) else b.view(found, tuple(e for d, e in enumerate(b.shape(x)) if d not in dims))
    return (b.carry(kept, c.node.types[0].dtype),)


def _scan(combine: Combine) -> Rule:
    def rule(b: Builder, c: Call) -> Results:
        x, dtype = c.ref("self"), c.node.types[0].dtype
        shape = b.shape(x)
        if not shape:
            return (b.cast(x, dtype),)
        if dtype.is_float and not b.dtype(x).is_float:
            x = b.cast(x, dtype)
        return (b.emit(f"{SCAN}{combine}", (x, c.integer("dim") % len(shape)), dtype, shape),)

    return rule


def _table(
    names: str, rules: dict[str, Rule], **defaults: Argument
) -> dict[str, tuple[str, dict[str, Argument], Rule]]:
    defaults = {"keepdim": False, **defaults}
    return {f"aten.{op}": (names, defaults, rule) for op, rule in rules.items()}


def _overloads(name: str, rule: Rule, *overloads: str) -> dict[str, Rule]:
    return {f"{name}.{overload}": rule for overload in overloads}


_MAX, _MIN = _extremum(Combine.MAX), _extremum(Combine.MIN)
_ARG = {"argmax.default": _index_of(Combine.ARGMAX), "argmin.default": _index_of(Combine.ARGMIN)}
_VAR, _STD = _spread(root=False, with_mean=False), _spread(root=True, with_mean=False)
_VAR_MEAN, _STD_MEAN = _spread(root=False, with_mean=True), _spread(root=True, with_mean=True)
_SPREADS = {"var": _VAR, "std": _STD, "var_mean": _VAR_MEAN, "std_mean": _STD_MEAN}

REDUCTIONS = {
    **_table("self dim keepdim", {"sum.dim_IntList": _fold(Combine.SUM), "mean.dim": _mean}),
    **_table("self", {"sum.default": _fold(Combine.SUM), "mean.default": _mean, "prod.default": _fold(Combine.PROD)}),
    **_table("self dim keepdim", {"prod.dim_int": _fold(Combine.PROD), "amax.default": _MAX, "amin.default": _MIN}),
    **_table("self", {"max.default": _MAX, "min.default": _MIN}),
    **_table("self dim keepdim", {"max.dim": _with_index(Combine.MAX, Combine.ARGMAX)}),
    **_table("self dim keepdim", {"min.dim": _with_index(Combine.MIN, Combine.ARGMIN)}),
    **_table("self", {"aminmax.default": _both_ends}),
    **_table("self dim keepdim", _ARG),
    **_table("self dim keepdim", _overloads("any", _truth(Combine.ANY), "default", "dim", "dims")),
    **_table("self dim keepdim", _overloads("all", _truth(Combine.ALL), "default", "dim", "dims")),
    **_table("self dim", _overloads("count_nonzero", _count, "default", "dim_IntList")),
    **{k: v for n, r in _SPREADS.items() for k, v in _table("self dim", _overloads(n, r, "correction")).items()},
    **{k: v for n, r in _SPREADS.items() for k, v in _table("self unbiased", {f"{n}.default": r}).items()},
    **{k: v for n, r in _SPREADS.items() for k, v in _table("self dim unbiased keepdim", {f"{n}.dim": r}).items()},
    **_table("self p dim keepdim", _overloads("linalg_vector_norm", _norm, "default"), p=2),
    **_table("self p dim keepdim", _overloads("norm", _norm, "ScalarOpt_dim", "Scalar", "ScalarOpt_dtype"), p=2),
    **_table("self p dim keepdim", _overloads("norm", _norm, "ScalarOpt_dim_dtype"), p=2),
    **_table("self p dim keepdim", _overloads("linalg_norm", _norm, "default", "ord_str"), p=None),
    **_table("self dim keepdim", {"frobenius_norm.dim": _norm}, p=2),
    **_table("self dim keepdim", {"logsumexp.default": _logsumexp, "special_logsumexp.default": _logsumexp}),
    **_table("self dim", {"cumsum.default": _scan(Combine.SUM), "cumprod.default": _scan(Combine.PROD)}),
}
