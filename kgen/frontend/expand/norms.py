"""Normalisations: layer, RMS, group, instance and batch norm, each as mean, M2 and one pointwise chain."""

from collections.abc import Callable
from math import prod

from kgen.frontend.bind import Call
from kgen.frontend.expand.builder import Builder
from kgen.ir.dtype import DType
from kgen.ir.graph import Argument, ValueRef

Results = tuple[ValueRef, ...]
Rule = Callable[[Builder, Call], Results]
Shape = tuple[int, ...]
# The least eps that torch takes by default for rms_norm: the machine epsilon of the type it computes in.
_EPSILON = {DType.FP32: 2.0**-23, DType.FP64: 2.0**-52}


def _optional(c: Call, name: str) -> ValueRef | None:
    value = c.args[name]
    return value if isinstance(value, ValueRef) else None


def _standard(b: Builder, x: ValueRef, dims: Shape, eps: float) -> tuple[ValueRef, ValueRef, ValueRef]:
    """Return x with mean 0 and variance 1 over some axes, the mean, and the reciprocal deviation, axes kept."""
    mean = b.mean(x, dims, keep=True)
    rstd = b.math("rsqrt", b.math("add", b.variance(x, dims, keep=True), eps))
    return b.math("mul", b.math("sub", x, mean), rstd), mean, rstd


def _affine(b: Builder, x: ValueRef, weight: ValueRef | None, bias: ValueRef | None) -> ValueRef:
    x = b.math("mul", x, weight) if weight is not None else x
    return b.math("add", x, bias) if bias is not None else x


def _per_channel(b: Builder, ref: ValueRef | None, rank: int) -> ValueRef | None:
    """Return a vector over the channels with a shape that broadcasts along axis 1."""
    return None if ref is None else b.view(ref, (*b.shape(ref), *(1,) * (rank - 2)))


def _layer_norm(b: Builder, c: Call) -> Results:
    x, rank = c.ref("input"), len(b.shape(c.ref("input")))
    dims = tuple(range(rank - len(c.integers("normalized_shape")), rank))
    found, mean, rstd = _standard(b, x, dims, c.number("eps"))
    found = _affine(b, found, _optional(c, "weight"), _optional(c, "bias"))
    types = c.node.types
    rest = tuple(b.carry(r, t.dtype) for r, t in zip((mean, rstd), types[1:], strict=False))
    return (b.carry(found, types[0].dtype), *rest)


def _rms_norm(b: Builder, c: Call) -> Results:
    x, rank = c.ref("input"), len(b.shape(c.ref("input")))
    dims = tuple(range(rank - len(c.integers("normalized_shape")), rank))
    eps = _EPSILON[b.wide(x)] if c.args["eps"] is None else c.number("eps")
    mean = b.mean(b.math("mul", x, x), dims, keep=True)
    found = b.math("mul", x, b.math("rsqrt", b.math("add", mean, eps)))
    return (b.carry(_affine(b, found, _optional(c, "weight"), None), c.node.types[0].dtype),)


def _grouped(b: Builder, c: Call, groups: int, eps: float) -> ValueRef:
    """Return the group norm; channels are cut in two axes, so that no other axis has to be."""
    x = c.ref("input")
    n, channels, *rest = b.shape(x)
    cut = b.view(x, (n, groups, channels // groups, *rest))
    found, mean, rstd = _standard(b, cut, tuple(range(2, len(rest) + 3)), eps)
    given = (_optional(c, name) for name in ("weight", "bias"))
    weight, bias = (None if p is None else b.view(p, (groups, channels // groups, *(1 for _ in rest))) for p in given)
    if prod(rest) == 1 or (weight is None and bias is None):
        found = _affine(b, found, weight, bias)
    else:
        found = _folded(b, (cut, mean, rstd), weight, bias)
    return b.carry(b.view(found, b.shape(x)), c.node.types[0].dtype)


def _folded(
    b: Builder, standard: tuple[ValueRef, ValueRef, ValueRef], weight: ValueRef | None, bias: ValueRef | None
) -> ValueRef:
    """Return x * scale + shift, as torch's kernels for CPU and GPU have it where a channel has several elements.

    It matters for an infinite weight, whose product with the mean is infinite, too
    (aten/src/ATen/native/cuda/group_norm_kernel.cu, ComputeFusedParamsCUDAKernel).
    """
    x, mean, rstd = standard
    scale = rstd if weight is None else b.math("mul", rstd, weight)
    shifted = b.math("mul", mean, scale)
    shift = b.math("neg", shifted) if bias is None else b.math("sub", bias, shifted)
    return b.math("add", b.math("mul", x, scale), shift)


def _group_norm(b: Builder, c: Call) -> Results:
    return (_grouped(b, c, c.integer("num_groups"), c.number("eps")),)


def _instance_norm(b: Builder, c: Call) -> Results:
    if not c.args["use_input_stats"]:
        return (_with_statistics(b, c),)
    x = c.ref("input")
    rank = len(b.shape(x))
    found, _, _ = _standard(b, x, tuple(range(2, rank)), c.number("eps"))
    weight, bias = (_per_channel(b, _optional(c, name), rank) for name in ("weight", "bias"))
    return (b.carry(_affine(b, found, weight, bias), c.node.types[0].dtype),)


def _with_statistics(b: Builder, c: Call) -> ValueRef:
    """Return the batch norm by running statistics."""
    x, rank = c.ref("input"), len(b.shape(c.ref("input")))
    mean, var, weight, bias = (
        _per_channel(b, _optional(c, name), rank) for name in ("running_mean", "running_var", "weight", "bias")
    )
    assert mean is not None and var is not None
    rstd = b.math("rsqrt", b.math("add", var, c.number("eps")))
    found = b.math("mul", b.math("sub", x, mean), rstd)
    return b.carry(_affine(b, found, weight, bias), c.node.types[0].dtype)


def _batch_norm_eval(b: Builder, c: Call) -> Results:
    """The two saved statistics are empty, as torch returns them."""
    empty = tuple(b.emit("aten.zeros.default", ((0,),), t.dtype, (0,)) for t in c.node.types[1:])
    return (_with_statistics(b, c), *empty)


def _batch_norm(b: Builder, c: Call) -> Results:
    """Batch statistics, and where there are running ones their new values: the running variance is the unbiased one."""
    if not c.args["training"]:
        return _batch_norm_eval(b, c)
    x, types = c.ref("input"), c.node.types
    rank = len(b.shape(x))
    dims = (0, *range(2, rank))
    found, mean, rstd = _standard(b, x, dims, c.number("eps"))
    weight, bias = (_per_channel(b, _optional(c, name), rank) for name in ("weight", "bias"))
    flat = (b.shape(x)[1],)
    saved = tuple(b.carry(b.view(r, flat), t.dtype) for r, t in zip((mean, rstd), types[1:3], strict=True))
    result = b.carry(_affine(b, found, weight, bias), types[0].dtype)
    return (result, *saved, *_running(b, c, x, dims))


def _running(b: Builder, c: Call, x: ValueRef, dims: Shape) -> Results:
    mean, var = _optional(c, "running_mean"), _optional(c, "running_var")
    if mean is None or var is None or len(c.node.types) == 3:
        return ()
    momentum = c.number("momentum")
    fresh = (b.mean(x, dims), b.variance(x, dims, correction=1))
    mixed = (
        b.math("add", b.math("mul", new, momentum), b.math("mul", old, 1 - momentum))
        for old, new in zip((mean, var), fresh, strict=True)
    )
    return tuple(b.carry(m, b.dtype(old)) for m, old in zip(mixed, (mean, var), strict=True))


def _table(names: str, rule: Rule, *ops: str, **defaults: Argument) -> dict[str, tuple[str, dict[str, Argument], Rule]]:
    defaults = {"weight": None, "bias": None, **defaults}
    return {f"aten.{op}": (names, defaults, rule) for op in ops}


_STATISTICS = "input weight bias running_mean running_var"

NORMS = {
    **_table(
        "input normalized_shape weight bias eps",
        _layer_norm,
        "layer_norm.default",
        "native_layer_norm.default",
        eps=1e-5,
    ),
    **_table("input normalized_shape weight eps", _rms_norm, "rms_norm.default", eps=None),
    **_table("input num_groups weight bias eps", _group_norm, "group_norm.default", eps=1e-5),
    **_table(f"{_STATISTICS} use_input_stats momentum eps", _instance_norm, "instance_norm.default"),
    **_table(f"{_STATISTICS} momentum eps", _batch_norm_eval, "_native_batch_norm_legit_no_training.default"),
    **_table(
        f"{_STATISTICS} training momentum eps",
        _batch_norm,
        "_native_batch_norm_legit_functional.default",
        "_native_batch_norm_legit.default",
        "batch_norm.default",
        "native_batch_norm.default",
    ),
    **_table(
        "input weight bias training momentum eps",
        _batch_norm,
        "_native_batch_norm_legit.no_stats",
        running_mean=None,
        running_var=None,
    ),
}
