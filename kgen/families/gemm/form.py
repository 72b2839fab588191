"""GemmForm: a Problem classified as one matrix product, its axes folded into m, n, k and batch modes.

    D[batch, m, n] = epilogue( sum_k input_ops(A)[batch, m, k] * input_ops(B)[batch, n, k] )

Elements of A and B may have scales, which are constant over runs of k. A gate has a second product, of the same A and a
B of its own; its epilogue takes the sums of both.

All strides and offsets are in elements of their tensor. A batch stride of None means that the operand is the same for
all of that mode; a stride of 0 in an epilogue tensor means that it is broadcast along that mode.
"""

from dataclasses import dataclass, replace
from math import gcd, prod

from kgen.ir.dtype import DType
from kgen.ir.problem import Map, Precision


@dataclass(frozen=True, slots=True)
class MatrixAccess:
    """How A (`outer` = m) or B (`outer` = n) is read."""

    tensor: str
    dtype: DType
    offset: int
    outer: int
    k: int
    batch: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class OutputAccess:
    """How an epilogue tensor is read, or D written, at (m, n, batch)."""

    tensor: str
    dtype: DType
    offset: int
    m: int
    n: int
    batch: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EpilogueLoad:
    """An epilogue operand: the SSA value and the tensor element it is read from."""

    value: str
    source: OutputAccess


@dataclass(frozen=True, slots=True)
class InputOps:
    """Pointwise ops on one operand before the product: from the loaded value `source` to `result`."""

    source: str
    ops: tuple[Map, ...]
    result: str


@dataclass(frozen=True, slots=True)
class BlockScale:
    """A factor of an operand's elements: `rows` of them by `k` share one, made by `ops` of an element of `tensor`.

    0 rows: all share it. `stride` is that of (row blocks, k blocks, *batch), in elements.
    """

    ops: InputOps
    tensor: str
    dtype: DType
    offset: int
    rows: int
    k: int
    stride: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SecondProduct:
    """The second product of a gate: its B, which is read with the strides of the first one, and its sums."""

    b: MatrixAccess
    b_ops: InputOps
    accumulator: str


@dataclass(frozen=True, slots=True)
class GemmForm:
    """One matrix product, or the two of a gate, with everything fused into it; extents are static."""

    m: int
    n: int
    k: int
    batch: tuple[int, ...]
    a: MatrixAccess
    b: MatrixAccess
    a_ops: InputOps
    b_ops: InputOps
    mma_dtype: DType  # the element type the products are taken in
    accumulator: str  # the SSA value of the contraction
    epilogue_loads: tuple[EpilogueLoad, ...]
    epilogue_ops: tuple[Map, ...]
    result: str
    d: OutputAccess
    precision: Precision = Precision.DEFAULT  # of products of fp32 operands
    second: SecondProduct | None = None
    a_scales: tuple[BlockScale, ...] = ()
    b_scales: tuple[BlockScale, ...] = ()

    @property
    def product_dtype(self) -> str:
        """What the rules and the device files call the products: an element type, or tf32."""
        return "tf32" if self.precision is Precision.TF32 else str(self.mma_dtype)

    @property
    def family(self) -> str:
        """Name of the family."""
        return "gemm"

    @property
    def batch_count(self) -> int:
        """Number of matrix products."""
        return prod(self.batch)

    @property
    def products(self) -> int:
        """Number of products whose sums the epilogue takes."""
        return 2 if self.second else 1

    @property
    def operands(self) -> tuple[MatrixAccess, ...]:
        """A and B, and the B of a second product."""
        return (self.a, self.b, self.second.b) if self.second else (self.a, self.b)

    @property
    def scales(self) -> tuple[BlockScale, ...]:
        """The scales of A, then those of B."""
        return (*self.a_scales, *self.b_scales)

    @property
    def scale_k(self) -> int:
        """Over how much of k all scales are constant; 0 where there are none."""
        return gcd(*(scale.k for scale in self.scales))

    @property
    def flops(self) -> int:
        """Multiply-adds of the products counted as two operations each (epilogue not counted)."""
        return 2 * self.m * self.n * self.k * self.batch_count * self.products

    @property
    def exchanged(self) -> "GemmForm":
        """The same product with A and B, m and n in one another's roles: it computes the transpose of D.

        No gate: its products share A, and would have to share B.
        """
        assert self.second is None
        loads = tuple(replace(load, source=_transposed(load.source)) for load in self.epilogue_loads)
        return replace(
            self,
            m=self.n,
            n=self.m,
            a=self.b,
            b=self.a,
            a_ops=self.b_ops,
            b_ops=self.a_ops,
            a_scales=self.b_scales,
            b_scales=self.a_scales,
            epilogue_loads=loads,
            d=_transposed(self.d),
        )

    @property
    def is_empty(self) -> bool:
        """Whether the output has no element."""
        return self.m * self.n * self.batch_count == 0

    @property
    def bytes(self) -> int:
        """Fewest bytes moved through device memory: each operand read once, the output written once."""
        a = self.m * self.k * self.a.dtype.bytes * present(self.batch, self.a.batch)
        b = self.n * self.k * self.b.dtype.bytes * present(self.batch, self.b.batch) * self.products
        d = self.m * self.n * self.d.dtype.bytes * self.batch_count
        scales = (_scale_bytes(self, s, m) for of, m in ((self.a_scales, self.m), (self.b_scales, self.n)) for s in of)
        return a + b + d + sum(scales) + sum(_load_bytes(self, load.source) for load in self.epilogue_loads)


def _transposed(access: OutputAccess) -> OutputAccess:
    return replace(access, m=access.n, n=access.m)


def present(extents: tuple[int, ...], strides: tuple[int | None, ...]) -> int:
    """Return how many entries of the batch an operand has: all along a mode, or one that they share."""
    count = 1
    for extent, stride in zip(extents, strides, strict=True):
        count *= extent if stride is not None else 1
    return count


def _load_bytes(form: GemmForm, source: OutputAccess) -> int:
    count = source.dtype.bytes
    extents = (form.m, form.n, *form.batch)
    for extent, stride in zip(extents, (source.m, source.n, *source.batch), strict=True):
        count *= extent if stride else 1
    return count


def _scale_bytes(form: GemmForm, scale: BlockScale, rows: int) -> int:
    blocks = (-(-rows // scale.rows) if scale.rows else 1, -(-form.k // scale.k) if scale.stride[1] else 1)
    batch = (extent for extent, stride in zip(form.batch, scale.stride[2:], strict=True) if stride)
    return prod((*blocks, *batch)) * scale.dtype.bytes
