"""Reshapes of indices against brute force: the pulled index reads the element that torch's reshape shows."""

from itertools import pairwise, product
from math import prod

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kgen.frontend.einsum import parse_einsum
from kgen.frontend.indices import AxisSplit, NotAffineError, Reshape, add, scale
from kgen.frontend.kernel_axes import Axes, split_axis
from kgen.ir.access import Affine

# Shapes of 24 elements that reshape into one another.
SHAPES = [
    (24,),
    (2, 12),
    (12, 2),
    (3, 8),
    (8, 3),
    (4, 6),
    (6, 4),
    (2, 3, 4),
    (4, 3, 2),
    (2, 2, 6),
    (1, 24, 1),
    (2, 1, 3, 4),
    (2, 2, 2, 3),
]


def pulled(source: tuple[int, ...], target: tuple[int, ...]) -> tuple[list[Affine], dict[str, int], list[Affine]]:
    """Return source indices, extents and target indices, splitting axes until the reshape is affine."""
    splits: dict[str, tuple[int, ...]] = {}
    while True:
        axes = Axes(splits)
        indices = tuple(axes.index(f"a{i}", extent) for i, extent in enumerate(target))
        try:
            return list(Reshape(source, target, axes.extents).pull(indices)), axes.extents, list(indices)
        except AxisSplit as split:
            split_axis(splits, axes, split)


def at(index: Affine, point: dict[str, int]) -> int:
    return index.offset + sum(c * point[a] for a, c in index.terms)


def nested(*shapes: tuple[int, ...]) -> bool:
    """Whether the row lengths of all shapes divide one another, so that one finer shape holds them all."""
    lengths = sorted({prod(shape[i:]) for shape in shapes for i in range(len(shape) + 1)})
    return all(b % a == 0 for a, b in pairwise(lengths))


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(SHAPES), st.sampled_from(SHAPES))
def test_reshape_reads_the_same_element(source: tuple[int, ...], target: tuple[int, ...]) -> None:
    if not nested(source, target):
        with pytest.raises(NotAffineError):
            pulled(source, target)
        return
    data = torch.arange(prod(source)).reshape(source)
    shown = data.reshape(target)
    found, extents, indices = pulled(source, target)
    for values in product(*(range(n) for n in extents.values())):
        point = dict(zip(extents, values, strict=True))
        assert data[tuple(at(i, point) for i in found)] == shown[tuple(at(i, point) for i in indices)]


def test_a_slice_that_crosses_rows_is_refused() -> None:
    index = Affine((("a", 1),), 3)
    with pytest.raises(NotAffineError, match=r"the index a \+ 3 does not split into runs of 4"):
        Reshape((3, 4), (12,), {"a": 9}).pull((index,))


def test_sums_collect_axes_and_drop_zeros() -> None:
    a, b = Affine.of("a"), Affine.of("b")
    assert str(add(scale(a, 4), b, a, offset=2)) == "5*a + b + 2"
    assert add(a, scale(a, -1)) == Affine()


def test_einsum_labels() -> None:
    dots = parse_einsum("...ik, kj -> ...ij", (4, 2), None)
    assert dots.operands == ((".0", ".1", "i", "k"), ("k", "j")) and dots.result == (".0", ".1", "i", "j")
    unequal = parse_einsum("...ik,...kj->...ij", (4, 3), None)
    assert unequal.operands == ((".0", ".1", "i", "k"), (".1", "k", "j"))
    assert parse_einsum("zk,ka", (2, 2), None).result == ("a", "z")
