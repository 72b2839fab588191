"""Operations that only move elements, in terms of views and concatenation."""

from collections.abc import Callable

from kgen.frontend.bind import Call
from kgen.frontend.expand.builder import Builder
from kgen.ir.graph import Argument, ValueRef

Results = tuple[ValueRef, ...]
Rule = Callable[[Builder, Call], Results]


def _stack(b: Builder, c: Call) -> Results:
    refs = c.args["tensors"]
    assert isinstance(refs, tuple)
    dim, shape = c.integer("dim") % len(c.node.types[0].static_shape), list(c.node.types[0].static_shape)
    shape[dim] = 1
    parts = tuple(b.view(r, tuple(shape)) for r in refs if isinstance(r, ValueRef))
    return (b.cat(parts, dim, c.node.types[0].dtype),)


def _roll(b: Builder, c: Call) -> Results:
    x = c.ref("self")
    shape, dims = b.shape(x), c.integers("dims") if c.args["dims"] else ()
    found = x if dims else b.view(x, (b.count(x, tuple(range(len(shape)))),))
    for dim, shift in zip(dims or (0,), c.integers("shifts"), strict=True):
        dim %= max(len(b.shape(found)), 1)
        size = b.shape(found)[dim]
        if size and (shift := shift % size):
            parts = (b.narrow(found, dim, size - shift, shift), b.narrow(found, dim, 0, size - shift))
            found = b.cat(parts, dim, b.dtype(x))
    return (b.view(found, shape),)


def _broadcast(b: Builder, c: Call) -> Results:
    refs = c.args["tensors"]
    assert isinstance(refs, tuple)
    pairs = zip((r for r in refs if isinstance(r, ValueRef)), c.node.types, strict=True)
    return tuple(b.expand(r, t.static_shape) for r, t in pairs)


def _written(b: Builder, c: Call) -> Results:
    """`copy` and `fill`: the new value takes the place and the type of the old one."""
    type_ = c.node.types[0]
    return (b.cast(b.expand(c.ref("src"), type_.static_shape), type_.dtype),)


def _rot90(b: Builder, c: Call) -> Results:
    x, turns = c.ref("self"), c.integer("k") % 4
    rank = len(b.shape(x))
    one, other = (d % rank for d in c.integers("dims"))
    flipped = {0: (), 1: (other,), 2: (one, other), 3: (one,)}[turns]
    found = b.emit("aten.flip.default", (x, flipped), b.dtype(x), b.shape(x)) if flipped else x
    if turns % 2:
        found = b.emit("aten.transpose.int", (found, one, other), b.dtype(x), c.node.types[0].static_shape)
    return (found,)


def _table(names: str, rule: Rule, *ops: str, **defaults: Argument) -> dict[str, tuple[str, dict[str, Argument], Rule]]:
    return {f"aten.{op}": (names, defaults, rule) for op in ops}


MOVEMENT = {
    **_table("tensors dim", _stack, "stack.default", dim=0),
    **_table("self shifts dims", _roll, "roll.default", dims=()),
    **_table("tensors", _broadcast, "broadcast_tensors.default"),
    **_table("self src", _written, "copy.default", "fill.Tensor"),
    **_table("self k dims", _rot90, "rot90.default", k=1, dims=(0, 1)),
}
