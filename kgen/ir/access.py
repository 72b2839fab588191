"""Accesses: how a kernel's axes index a tensor.

An `Access` is an affine map from the iteration axes to the tensor's indices, the bounds inside which it is valid,
the value read elsewhere, and optionally an index tensor. Strided, transposed, broadcast, grouped-head, padded,
paged and convolution operands are all accesses, so nothing is copied to make an operand fit.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Affine:
    """`sum(coefficient * axis) // divisor + offset`, one tensor index as a function of the iteration axes."""

    terms: tuple[tuple[str, int], ...] = ()
    offset: int = 0
    divisor: int = 1

    @staticmethod
    def of(axis: str) -> "Affine":
        """Return the index that is just that axis."""
        return Affine(((axis, 1),))

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes that occur."""
        return tuple(axis for axis, _ in self.terms)

    @property
    def axis(self) -> str | None:
        """The axis if this index is exactly one axis, else None."""
        plain = len(self.terms) == 1 and self.terms[0][1] == 1 and self.offset == 0 and self.divisor == 1
        return self.terms[0][0] if plain else None

    def __str__(self) -> str:
        text = " + ".join(axis if c == 1 else f"{c}*{axis}" for axis, c in self.terms)
        if self.divisor != 1:
            text = f"({text})//{self.divisor}" if len(self.terms) > 1 else f"{text}//{self.divisor}"
        if not text:
            return str(self.offset)
        return text if not self.offset else f"{text} {'+' if self.offset > 0 else '-'} {abs(self.offset)}"


@dataclass(frozen=True, slots=True)
class Bound:
    """`lo <= index < hi`: where an access is valid; either side may be an axis-dependent index."""

    index: Affine
    lo: Affine
    hi: Affine

    def __str__(self) -> str:
        return f"{self.lo} <= {self.index} < {self.hi}"


@dataclass(frozen=True, slots=True)
class Access:
    """Element of `tensor` that a point of the iteration space reads or writes.

    `indices` has one entry per tensor axis. `gathered` names (tensor axis, index tensor, its indices) when an index
    is itself read from memory. Outside `valid`, `fill` is read (and nothing is written).
    """

    tensor: str
    indices: tuple[Affine, ...]
    valid: tuple[Bound, ...] = ()
    fill: float = 0.0
    gathered: tuple[tuple[int, str, tuple[Affine, ...]], ...] = ()

    @property
    def axes(self) -> tuple[str, ...]:
        """Axes this access depends on, in order of first use."""
        used = [a for index in self.indices for a in index.axes]
        used += [a for _, _, indices in self.gathered for index in indices for a in index.axes]
        used += [a for bound in self.valid for side in (bound.index, bound.lo, bound.hi) for a in side.axes]
        return tuple(dict.fromkeys(used))

    def __str__(self) -> str:
        indices = [str(i) for i in self.indices]
        for position, tensor, inner in self.gathered:
            indices[position] = f"{tensor}[{', '.join(str(i) for i in inner)}] + {indices[position]}"
        text = f"{self.tensor}[{', '.join(indices)}]"
        if self.valid:
            text += f" where {' and '.join(str(b) for b in self.valid)} else {self.fill:g}"
        return text
