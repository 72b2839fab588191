"""Tensor types: element type, extents, strides, and what is known of the base address."""

from dataclasses import dataclass
from math import prod

from kgen.ir.dtype import DType


@dataclass(frozen=True, slots=True)
class ExtentRange:
    """An extent that is known only to lie in `lo..hi` (inclusive) and to be a multiple of `multiple_of`."""

    name: str
    lo: int
    hi: int
    multiple_of: int = 1

    def __str__(self) -> str:
        step = f" step {self.multiple_of}" if self.multiple_of != 1 else ""
        return f"{self.name}[{self.lo}..{self.hi}{step}]"


@dataclass(frozen=True, slots=True)
class ExtentFromMemory:
    """An extent read from device memory at run time (per-group rows, per-sequence lengths), at most `hi`."""

    tensor: str
    hi: int

    def __str__(self) -> str:
        return f"*{self.tensor}<={self.hi}"


Extent = int | ExtentRange | ExtentFromMemory


@dataclass(frozen=True, slots=True)
class TensorType:
    """Element type, extents and element strides of a tensor; strides may be 0 (expanded) or in any order."""

    dtype: DType
    shape: tuple[Extent, ...]
    strides: tuple[int, ...]

    @staticmethod
    def contiguous(dtype: DType, shape: tuple[int, ...]) -> "TensorType":
        """Return the row-major tensor type of that shape."""
        return TensorType(dtype, shape, row_major_strides(shape))

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def static_shape(self) -> tuple[int, ...]:
        """The shape when every extent is static; raises `TypeError` otherwise."""
        extents = tuple(e for e in self.shape if isinstance(e, int))
        if len(extents) != len(self.shape):
            raise TypeError(f"{self} has an extent that is not static")
        return extents

    @property
    def numel(self) -> int:
        """Number of elements (static shapes only)."""
        return prod(self.static_shape)

    def __str__(self) -> str:
        shape = ",".join(str(e) for e in self.shape)
        static = all(isinstance(e, int) for e in self.shape)
        if static and self.strides == row_major_strides(self.static_shape):
            return f"{self.dtype}[{shape}]"
        return f"{self.dtype}[{shape}]/({','.join(str(s) for s in self.strides)})"


def row_major_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return torch's contiguous strides of a shape, in elements (size-0 axes count as 1, as in torch)."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))
