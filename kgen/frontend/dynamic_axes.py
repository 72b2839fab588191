"""A spec made from a callable, with one extent of its tensors left to run time."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kgen.errors.dynamic import DynamicAxesError
from kgen.ir.tensor import ExtentRange
from kgen.spec.dynamic import MOST, DynamicAxes, cases_at, representative
from kgen.spec.model import Case, Dimension, DynamicExtent, InputSpec, Spec

EXTENT = "M"


def with_dynamic_axes(spec: Spec, axes: DynamicAxes) -> Spec:
    """Return a spec whose inputs have one extent of run time along these axes.

    An axis has to be the slowest of its tensor, all have one range. Raises `DynamicAxesError` otherwise.
    """
    ranges = {tuple(pair) for of_input in axes.values() for pair in of_input.values()}
    if len(ranges) != 1:
        raise DynamicAxesError(reason=f"{len(ranges)} ranges are given; a kernel takes one extent at run time")
    ((lo, hi),) = ranges
    extent = ExtentRange(EXTENT, lo, hi)
    if not (0 <= lo < hi <= MOST and hi > 1):
        raise DynamicAxesError(reason=f"{lo} to {hi} is no range of extents with two values above 0 and up to {MOST}")
    if unknown := sorted(axes.keys() - {i.name for i in spec.inputs}):
        raise DynamicAxesError(reason=f"{', '.join(unknown)} is no argument: there are {_names(spec)}")
    inputs = tuple(_with_axes(i, axes.get(i.name, {})) for i in spec.inputs)
    cases = cases_at({EXTENT: extent}, EXTENT, representative(extent))
    return replace(spec, inputs=inputs, extents=((EXTENT, extent),), cases=cases, dynamic=DynamicExtent(extent))


def _with_axes(spec: InputSpec, axes: Mapping[int, tuple[int, int]]) -> InputSpec:
    """Return an input whose axis has the extent of run time; its strides are those of the example."""
    if not axes:
        return spec
    assert spec.strides is not None
    (axis, *others) = axes
    if others or not 0 <= axis < len(spec.shape):
        raise DynamicAxesError(
            reason=f"{spec.name} has {len(spec.shape)} axes; one of them, from 0, may be of run time"
        )
    case = Case("example")
    extents = [case.value(d) for d in spec.shape]
    strides = [case.value(s) for s in spec.strides]
    stride = slowest_stride(extents, strides, axis)
    if stride < _inner(extents, strides, axis):
        raise DynamicAxesError(
            reason=f"axis {axis} of {spec.name} is not its slowest one, so that strides follow from it"
        )
    shape: tuple[Dimension, ...] = (*extents[:axis], EXTENT, *extents[axis + 1 :])
    return replace(spec, shape=shape, strides=(*strides[:axis], stride, *strides[axis + 1 :]))


def slowest_stride(extents: Sequence[int], strides: Sequence[int], axis: int) -> int:
    """Return the stride along the slowest axis; along one element, where it means nothing, that of dense rows."""
    return strides[axis] if extents[axis] > 1 else _inner(extents, strides, axis)


def _inner(extents: Sequence[int], strides: Sequence[int], axis: int) -> int:
    pairs = zip(extents, strides, strict=True)
    return max((n * s for i, (n, s) in enumerate(pairs) if i != axis), default=1)


def _names(spec: Spec) -> str:
    return ", ".join(i.name for i in spec.inputs)
