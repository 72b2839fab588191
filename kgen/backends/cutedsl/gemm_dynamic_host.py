"""The host code of a product where one of its extents is known at run time: what is accepted, and what serves it.

The types of tensors are those of the test cases with this extent named in them; a table in the file picks the variants
by its value.
"""

import textwrap
from collections.abc import Mapping
from dataclasses import replace

from kgen.backends.cutedsl.gemm_dynamic import affine
from kgen.backends.cutedsl.gemm_views import DynamicPlanView, IntervalView
from kgen.backends.source.file_text import choices
from kgen.backends.source.lines import LINE, Lines, bracketed, listed, tuple_text
from kgen.ir.program import Program
from kgen.ir.tensor import Extent, ExtentRange, TensorType
from kgen.planning.plan import Dynamic
from kgen.planning.plan_gemm import GemmPlan
from kgen.spec.model import Spec

VALUE = "extent"  # what host and device code call the value of a call


def symbolic_program(spec: Spec, programs: Mapping[str, Program]) -> Program:
    """Return the program of all values: extents that follow from the one of run time are ranges with its name.

    Those of results are named by the expression that gives them.
    """
    assert spec.dynamic is not None
    extent = spec.dynamic.range
    values = {case.id: case.value(extent.name) for case in spec.cases}
    low, high = sorted((case for case in programs if values[case] > 0), key=lambda case: values[case])[-2:]
    first, last = programs[low], programs[high]
    step = values[high] - values[low]

    def extents(one: TensorType, other: TensorType, name: str) -> TensorType:
        found: list[Extent] = []
        for at_low, at_high in zip(one.static_shape, other.static_shape, strict=True):
            scale = (at_high - at_low) // step
            text = affine(name, scale, at_high - scale * values[high])
            found.append(at_high if scale == 0 else replace(extent, name=text))
        return replace(other, shape=tuple(found))

    arguments = tuple(
        replace(b, type=extents(a.type, b.type, extent.name))
        for a, b in zip(first.arguments, last.arguments, strict=True)
    )
    (problem,), (result,) = last.problems, last.results
    types = {t.name: t.type for t in first.problems[0].tensors}
    tensors = tuple(
        replace(t, type=extents(types[t.name], t.type, VALUE)) if t.name == result else t for t in problem.tensors
    )
    return replace(last, arguments=arguments, problems=(replace(problem, tensors=tensors),))


def accepted_lines(program: Program, dynamic: Dynamic, names: Mapping[str, str]) -> Lines:
    """Return the statement that says what is accepted."""
    text = f"{arguments_text(program, names)}; {range_text(dynamic)}"
    line = f'accepted = "{text}"'
    if len(line) <= LINE - 4:
        return (line,)
    parts = textwrap.wrap(text, LINE - 10, drop_whitespace=False)
    return ("accepted = (", *(f'    "{part}"' for part in parts), ")")


def described_lines(program: Program, dynamic: Dynamic, names: Mapping[str, str]) -> Lines:
    """Return the statements that make the result as a type alone, of tensors whose extent may be a symbol."""
    tensor, axis = dynamic.source
    result = program.problems[-1].tensor(program.results[0]).type
    made = (
        _shape(result),
        tuple_text(result.strides),
        f"dtype={result.dtype.torch_name}",
        f"device={names[tensor]}.device",
    )
    return (
        f"{VALUE} = {names[tensor]}.shape[{axis}]",
        *bracketed("accepted = [", [_shape(a.type) for a in program.arguments], "]", indent=4),
        "if [tuple(t.shape) for t in tensors] != accepted:",
        "    raise ValueError(refusal(*tensors))",
        *bracketed("return torch.empty_strided(", made, ")", indent=4),
    )


def arguments_text(program: Program, names: Mapping[str, str]) -> str:
    """Return the arguments with their types, the extent of run time by its name."""
    return "; ".join(f"{names[a.name]} {_type_text(a.type)}" for a in program.arguments)


def range_text(dynamic: Dynamic) -> str:
    """Return the values of the extent in words."""
    extent = dynamic.extent
    step = f", a multiple of {extent.multiple_of}" if extent.multiple_of > 1 else ""
    return f"{extent.name} from {extent.lo} to {extent.hi}{step}"


def _type_text(type_: TensorType) -> str:
    shape = ",".join(e.name if isinstance(e, ExtentRange) else str(e) for e in type_.shape)
    return f"{type_.dtype}[{shape}] strides {tuple_text(type_.strides)}"


def dynamic_plan_view(plan: GemmPlan, program: Program) -> DynamicPlanView:
    """Return the view of the table; `program` is that of all values."""
    dynamic = plan.dynamic
    assert dynamic is not None
    tensor, axis = dynamic.source
    by_name = {v.name: v for v in plan.variants}
    rows = tuple(IntervalView(i.last, choices(by_name[n] for n in i.variants)) for i in dynamic.intervals)
    result = program.problems[-1].tensor(program.results[0]).type
    return DynamicPlanView(
        name=dynamic.extent.name,
        rows=rows,
        argument=next(i for i, a in enumerate(program.arguments) if a.name == tensor),
        axis=axis,
        check=_check(program, dynamic),
        result_shape=_shape(result),
        result_stride=tuple_text(result.strides),
    )


def _check(program: Program, dynamic: Dynamic) -> Lines:
    """Return the head of the block that refuses shapes and values; one without elements is let through."""
    extent = dynamic.extent
    inside = f"{extent.lo} <= {VALUE} <= {extent.hi}"
    if extent.multiple_of > 1:
        inside += f" and {VALUE} % {extent.multiple_of} == 0"
    if (extent.lo, extent.multiple_of, dynamic.offset) == (1, 1, 0):
        inside = f"0 <= {VALUE} <= {extent.hi}"
    elif extent.lo > 0 and dynamic.offset == 0:
        inside = f"{VALUE} == 0 or ({inside})" if " and " in inside else f"{VALUE} == 0 or {inside}"
    shapes = [_shape(a.type) for a in program.arguments]
    line = f"if shapes != {tuple_text(shapes)} or not ({inside}):"
    if len(line) <= LINE - 4:
        return (line,)
    return (*listed("accepted = (", shapes, ")"), f"if shapes != accepted or not ({inside}):")


def _shape(type_: TensorType) -> str:
    """Return a shape as Python source; extents that follow from the one of run time, in terms of its value."""
    named = [VALUE if isinstance(e, ExtentRange) and e.name.isidentifier() else _extent(e) for e in type_.shape]
    return tuple_text(named)


def _extent(extent: Extent) -> str:
    return extent.name if isinstance(extent, ExtentRange) else str(extent)
