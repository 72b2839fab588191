"""Writes the nodes of an expanded graph: primitive operations with their types, equal ones once.

Values inside an expansion are carried in the compute type (fp32 for narrower floats); `carry` gives a result its torch
type again without rounding it, as pointwise results are carried.
"""

from math import prod

from kgen.errors.base import Where
from kgen.frontend.promotion import compute_dtype
from kgen.ir.dtype import DType
from kgen.ir.graph import Argument, Node, OpGraph, ValueRef
from kgen.ir.problem import Combine
from kgen.ir.tensor import TensorType

Shape = tuple[int, ...]
Value = ValueRef | bool | int | float
REDUCE, SCAN, CARRY = "kgen.reduce.", "kgen.scan.", "kgen.carry.default"


class Builder:
    """Appends nodes under fresh names; `where` is the line that new nodes come from."""

    def __init__(self, graph: OpGraph) -> None:
        self.nodes: list[Node] = []
        self.types: dict[ValueRef, TensorType] = {ValueRef(i.name): i.type for i in graph.inputs}
        self.taken = {i.name for i in graph.inputs} | {n.name for n in graph.nodes}
        self.written: dict[tuple[object, ...], str] = {}
        self.where: Where | None = None

    def add(self, node: Node) -> str:
        """Append a node, or return the name of an earlier one that computes the same."""
        key = (node.op, _exact(node.args), _exact(node.kwargs), tuple(t.dtype for t in node.types))
        if key not in self.written:
            self.written[key] = node.name
            self.nodes.append(node)
            self.types.update({ValueRef(node.name, i): t for i, t in enumerate(node.types)})
        return self.written[key]

    def emit(self, op: str, args: tuple[Argument, ...], dtype: DType, shape: Shape) -> ValueRef:
        """Append a node with one contiguous result."""
        stem, count = op.split(".")[1] if op.startswith("aten") else op.split(".")[-1], 0
        name = stem
        while name in self.taken:
            count += 1
            name = f"{stem}_{count}"
        found = self.add(Node(name, op, args, (), (TensorType.contiguous(dtype, shape),), self.where))
        if found == name:
            self.taken.add(name)
        return ValueRef(found)

    def shape(self, ref: ValueRef) -> Shape:
        """Return the shape of a value."""
        return self.types[ref].static_shape

    def dtype(self, ref: ValueRef) -> DType:
        """Return the torch type of a value."""
        return self.types[ref].dtype

    def wide(self, *refs: ValueRef) -> DType:
        """Return the type that arithmetic on the values is carried in: fp32, or fp64 where one has it."""
        return DType.FP64 if any(self.dtype(r) is DType.FP64 for r in refs) else DType.FP32

    def math(self, op: str, *args: Value, dtype: DType | None = None) -> ValueRef:
        """Apply a pointwise op, by its name in torch, in the wide type of its tensors."""
        refs = tuple(a for a in args if isinstance(a, ValueRef))
        overload = "Tensor" if op in ("add", "sub", "mul", "div") else "default"
        shape = _joint(tuple(self.shape(r) for r in refs))
        return self.emit(f"aten.{op}.{overload}", args, dtype or self.wide(*refs), shape)

    def power(self, base: ValueRef, exponent: float) -> ValueRef:
        """Raise a value to a number."""
        return self.emit("aten.pow.Tensor_Scalar", (base, exponent), self.wide(base), self.shape(base))

    def test(self, op: str, a: ValueRef, b: Value) -> ValueRef:
        """Compare two values by eq, ne, lt, le, gt or ge."""
        shapes = (self.shape(a), self.shape(b)) if isinstance(b, ValueRef) else (self.shape(a),)
        overload = "Tensor" if isinstance(b, ValueRef) else "Scalar"
        return self.emit(f"aten.{op}.{overload}", (a, b), DType.BOOL, _joint(shapes))

    def where_(self, condition: ValueRef, yes: Value, no: Value, dtype: DType | None = None) -> ValueRef:
        """Choose between two values."""
        values = tuple(v for v in (yes, no) if isinstance(v, ValueRef))
        shape = _joint(tuple(self.shape(r) for r in (condition, *values)))
        return self.emit("aten.where.self", (condition, yes, no), dtype or self.wide(*values), shape)

    def cast(self, ref: ValueRef, dtype: DType) -> ValueRef:
        """Convert a value to another type, rounding it."""
        if self.dtype(ref) is dtype:
            return ref
        return self.emit("aten.to.dtype", (ref, dtype.value), dtype, self.shape(ref))

    def carry(self, ref: ValueRef, dtype: DType) -> ValueRef:
        """Give a value that is carried in the wide type its torch type."""
        if self.dtype(ref) is dtype:
            return ref
        if compute_dtype(dtype) is not self.dtype(ref):
            return self.cast(ref, dtype)
        return self.emit(CARRY, (ref,), dtype, self.shape(ref))

    def view(self, ref: ValueRef, shape: Shape) -> ValueRef:
        """Reshape a value."""
        if self.shape(ref) == shape:
            return ref
        return self.emit("aten.view.default", (ref, shape), self.dtype(ref), shape)

    def expand(self, ref: ValueRef, shape: Shape) -> ValueRef:
        """Broadcast a value to a shape."""
        if self.shape(ref) == shape:
            return ref
        return self.emit("aten.expand.default", (ref, shape), self.dtype(ref), shape)

    def narrow(self, ref: ValueRef, dim: int, start: int, length: int) -> ValueRef:
        """Take a part of one axis."""
        shape = self.shape(ref)
        part = (*shape[:dim], length, *shape[dim + 1 :])
        return self.emit("aten.narrow.default", (ref, dim, start, length), self.dtype(ref), part)

    def cat(self, refs: tuple[ValueRef, ...], dim: int, dtype: DType) -> ValueRef:
        """Concatenate values along one axis."""
        shape = self.shape(refs[0])
        length = sum(self.shape(r)[dim] for r in refs)
        return self.emit("aten.cat.default", (refs, dim), dtype, (*shape[:dim], length, *shape[dim + 1 :]))

    def gather(self, ref: ValueRef, dim: int, index: ValueRef) -> ValueRef:
        """Read along one axis at the places that an index tensor of the same rank gives."""
        return self.emit("aten.gather.default", (ref, dim, index), self.dtype(ref), self.shape(index))

    def reduce(
        self, combine: Combine, ref: ValueRef, dims: Shape, *, keep: bool = False, dtype: DType | None = None
    ) -> ValueRef:
        """Combine a value over some axes; `dtype` is the torch type of the result, else the value's wide type."""
        shape = self.shape(ref)
        kept = tuple(e for d, e in enumerate(shape) if d not in dims)
        found = self.emit(f"{REDUCE}{combine}", (ref, tuple(sorted(dims))), dtype or self.wide(ref), kept)
        return self.view(found, tuple(1 if d in dims else e for d, e in enumerate(shape))) if keep else found

    def sum(self, ref: ValueRef, dims: Shape, *, keep: bool = False) -> ValueRef:
        """Sum over some axes."""
        return self.reduce(Combine.SUM, ref, dims, keep=keep)

    def mean(self, ref: ValueRef, dims: Shape, *, keep: bool = False) -> ValueRef:
        """Average over some axes; over none of no elements it is NaN."""
        return self.math("div", self.sum(ref, dims, keep=keep), self.count(ref, dims))

    def variance(self, ref: ValueRef, dims: Shape, *, keep: bool = False, correction: float = 0) -> ValueRef:
        """Return the mean squared deviation from the mean over some axes."""
        m2 = self.reduce(Combine.M2, ref, dims, keep=keep)
        return self.math("div", m2, max(self.count(ref, dims) - correction, 0))

    def count(self, ref: ValueRef, dims: Shape) -> int:
        """Return how many elements a reduction over some axes combines."""
        return prod(self.shape(ref)[d] for d in dims)


def dims_of(argument: Argument, rank: int) -> Shape:
    """Return the axes that a `dim` argument names, counted from the front; none means all of them."""
    if argument is None or argument == ():
        return tuple(range(rank))
    dims = argument if isinstance(argument, tuple) else (argument,)
    return tuple(sorted({d % max(rank, 1) for d in dims if isinstance(d, int)})) if rank else ()


def _joint(shapes: tuple[Shape, ...]) -> Shape:
    rank = max(len(s) for s in shapes)
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    return tuple(next((e for e in column if e != 1), 1) for column in zip(*padded, strict=True))


def _exact(argument: object) -> object:
    """Return an argument such that 1, 1.0 and True differ, as do 0.0 and -0.0."""
    if isinstance(argument, ValueRef):
        return argument
    return tuple(_exact(a) for a in argument) if isinstance(argument, tuple) else repr(argument)
