"""The view of `input.py`: the spec's inputs as Python expressions in its named extents."""

import keyword

from kgen.errors.package import ExtentNameError
from kgen.package.input_ranges import grouped_rows, index_extents
from kgen.package.parts import PackageParts
from kgen.package.views import (
    GroupedInputView,
    InputRangeView,
    InputTensorView,
    InputView,
    RangedInputView,
)
from kgen.render import render
from kgen.spec.model import Dimension, InputSpec, Spec

_TAKEN = ("seed", "offset", "device", "torch")  # parameters of `_make_inputs`, and what its body names


def input_text(parts: PackageParts) -> str:
    """Return `input.py`."""
    view = input_view(parts)
    kinds = {GroupedInputView: "input_grouped", RangedInputView: "input_ranged", InputView: "input"}
    return render(f"package/{kinds[type(view)]}.py.j2", view)


def input_view(parts: PackageParts) -> InputView:
    """Return the view of `input.py`."""
    spec = parts.spec
    for name, _ in spec.extents:
        if name in _TAKEN or keyword.iskeyword(name):
            raise ExtentNameError(name=name)
    tensors = tuple(
        InputTensorView(i.name, parts.plan.device.arch.torch_name(i.dtype), tuple_text(i.shape), stride_text(i, spec))
        for i in parts.inputs
    )
    parameters, ranges = ", ".join(name for name, _ in spec.extents), _ranges(parts)
    if ends := grouped_rows(parts):
        return GroupedInputView(spec.name, parameters, tensors, ranges, tuple_text(tuple(f'"{n}"' for n in ends)))
    if ranges:
        return RangedInputView(spec.name, parameters, tensors, ranges)
    return InputView(spec.name, parameters, tensors)


def _ranges(parts: PackageParts) -> tuple[InputRangeView, ...]:
    """Return the ranges that the spec states, and those of what indexes something."""
    found = {name: ("0", extent) for name, extent in index_extents(parts).items()}
    found |= {name: ("0", f"{rows} + 1") for name, rows in grouped_rows(parts).items()}
    found |= {i.name: (repr(i.values[0]), repr(i.values[1])) for i in parts.inputs if i.values is not None}
    return tuple(InputRangeView(i.name, *found[i.name]) for i in parts.inputs if i.name in found)


def tuple_text(items: tuple[Dimension, ...]) -> str:
    """Return a Python tuple of numbers and names."""
    return f"({', '.join(str(i) for i in items)}{',' if len(items) == 1 else ''})"


def stride_text(tensor: InputSpec, spec: Spec) -> str:
    """Return the strides of an input as a Python tuple; mirrors `kgen.spec.model.input_type`."""
    if tensor.strides is not None:
        return tuple_text(tensor.strides)
    order = tensor.order or tuple(range(len(tensor.shape)))
    extents = [tensor.shape[axis] for axis in order]
    if tensor.leading is not None:
        extents[-1] = tensor.leading
    strides: list[Dimension] = [1] * len(order)
    inner: tuple[Dimension, ...] = ()
    for axis, extent in reversed(list(zip(order, extents, strict=True))):
        strides[axis] = _product(inner, spec)
        inner = (extent, *inner)
    return tuple_text(tuple(strides))


def _product(factors: tuple[Dimension, ...], spec: Spec) -> Dimension:
    """Return a product as a number or an expression; as in torch, an extent of 0 counts as 1."""
    number, names = 1, []
    for factor in factors:
        if isinstance(factor, int):
            number *= max(factor, 1)
        else:
            may_be_zero = any(case.value(factor) == 0 for case in spec.cases)
            names.append(f"max({factor}, 1)" if may_be_zero else factor)
    if not names:
        return number
    return " * ".join(names if number == 1 else [str(number), *names])
