"""The view of `plans/v0_plan.md`: the record of what was read out of the PyTorch text, and of what was decided."""

from itertools import pairwise

from kgen.ir.graph import InputKind
from kgen.ir.pointwise import PointwiseOp
from kgen.ir.problem import Contract, Gather, Load, Map, Problem, Reduce, Scan, Store
from kgen.ir.tensor import TensorType, row_major_strides
from kgen.package.kernel_test import element_limit
from kgen.package.parts import PackageParts
from kgen.package.plan_words import missing_facts, rejection_rows, source_rows, variant_rows
from kgen.package.views import ExtractionView, TensorRow
from kgen.planning.plan import Variant
from kgen.spec.model import Case, FixedAxis, InputSpec


def extraction_view(parts: PackageParts) -> ExtractionView:
    """Return the view of `plans/v0_plan.md`."""
    return ExtractionView(
        title=parts.spec.name,
        spec=parts.source,
        pattern=_pattern(parts),
        computation=str(parts.problem),
        tensors=tensor_rows(parts),
        dependencies=_dependencies(parts.problem),
        broadcasting=_broadcasting(parts.problem),
        masks=_masks(parts.problem),
        boundaries=_boundaries(parts),
        write_back=_write_back(parts),
        accuracy=_accuracy(parts),
        special_values=_special_values(parts),
        accepts=_accepts(parts),
        variants=variant_rows(parts.plan),
        runners_up=tuple(f"{v.name}: {r}" for v in parts.plan.variants for r in v.runners_up) or ("none",),
        rejections=rejection_rows(parts.plan),
        fixed=tuple(_fixed(f) for f in parts.spec.fixed) or ("nothing",),
        sources=source_rows(parts.plan),
        missing=missing_facts(parts.plan),
    )


def tensor_rows(parts: PackageParts) -> tuple[TensorRow, ...]:
    """Return every argument and result in every case."""
    rows = []
    for case, program in parts.programs:
        for argument in program.arguments:
            role = "input" if argument.kind is InputKind.USER else str(argument.kind)
            rows.append(_row(argument.name, role, case, argument.type))
        for problem in program.problems:
            rows += [_row(t.name, str(t.role), case, t.type) for t in problem.outputs]
    return tuple(rows)


def layout_of(tensor: TensorType) -> str:
    """Return in words how a tensor lies in memory."""
    shape, strides = tensor.static_shape, tensor.strides
    own = [axis for axis, extent in enumerate(shape) if extent != 1]
    if repeated := [axis for axis in own if strides[axis] == 0]:
        return f"expanded along axis {', '.join(map(str, repeated))}"
    if strides == row_major_strides(shape):
        return "dense, last axis contiguous"
    by_stride = sorted(own, key=lambda axis: -strides[axis])
    if not own or strides[by_stride[-1]] != 1:
        return "no contiguous axis"
    order = "last axis contiguous" if by_stride == own else f"axis {by_stride[-1]} contiguous"
    dense = all(strides[a] == strides[b] * shape[b] for a, b in pairwise(by_stride))
    return f"{'dense' if dense else 'padded'}, {order}"


def _row(name: str, role: str, case: str, tensor: TensorType) -> TensorRow:
    shape, strides = list(tensor.static_shape), list(tensor.strides)
    return TensorRow(name, role, str(tensor.dtype), case, str(shape), str(strides), layout_of(tensor))


def _fixed(axis: FixedAxis) -> str:
    only = "" if axis.case is None else f" in case {axis.case}"
    return f"{axis.axis} = {axis.value}{only}, because {axis.because}"


def _pattern(parts: PackageParts) -> str:
    form = parts.plan.variants[0].form
    inside = [
        f"{len(ops)} {words} op{'s' if len(ops) != 1 else ''}"
        for ops, words in ((form.a_ops.ops, "A"), (form.b_ops.ops, "B"), (form.epilogue_ops, "epilogue"))
        if ops
    ]
    batch = f"{len(form.batch)} batch mode{'s' if len(form.batch) != 1 else ''}" if form.batch else "no batch"
    fused = f", fused with {' and '.join(inside)}" if inside else ""
    return f"Family {parts.plan.family}: one matrix product, {batch}{fused}."


def _dependencies(problem: Problem) -> tuple[str, ...]:
    lines = []
    for s in problem.body:
        match s:
            case Contract() | Reduce():
                axes = ", ".join(s.axes)
                lines.append(f"`{s.result}` needs every element along {axes}; the order of its sum is free")
            case Scan():
                lines.append(f"`{s.result}` needs the element before it along {s.axis}")
            case Gather():
                lines.append(f"`{s.result}` needs the value of `{s.index}` for its address")
            case Store():
                lines.append(f"elements of `{s.access.tensor}` do not depend on one another")
            case _:
                pass
    return tuple(lines)


def _broadcasting(problem: Problem) -> tuple[str, ...]:
    stores = [s for s in problem.body if isinstance(s, Store)]
    axes = dict.fromkeys(axis for s in stores for axis in s.access.axes)
    operands = {o for s in problem.body if isinstance(s, Contract) for o in (s.lhs, s.rhs)}
    lines = []
    for s in problem.body:
        if isinstance(s, Load) and s.result not in operands and (over := [a for a in axes if a not in s.access.axes]):
            lines.append(f"`{s.access}` is the same along {', '.join(over)}")
    return tuple(lines) or ("none beyond what the product itself implies",)


def _masks(problem: Problem) -> tuple[str, ...]:
    lines = [f"`{s.access}`" for s in problem.body if isinstance(s, Load | Store | Gather) and s.access.valid]
    lines += [f"`{s}`" for s in problem.body if isinstance(s, Map) and s.op is PointwiseOp.WHERE]
    return tuple(lines) or ("none in the reference",)


def _boundaries(parts: PackageParts) -> tuple[str, ...]:
    return tuple(f"{v.name}: {_boundary(v)}" for v in parts.plan.variants)


def _boundary(variant: Variant) -> str:
    form, size = variant.form, variant.choice.candidate.size
    if form.is_empty:
        return "the output is empty, nothing is launched"
    pairs = (("m", form.m, size.m), ("n", form.n, size.n), ("k", form.k, size.k))
    ragged = [f"{axis} = {extent} leaves {extent % tile} of {tile}" for axis, extent, tile in pairs if extent % tile]
    if not ragged:
        return "the tile divides m, n and k"
    reads = "bulk copies read 0 outside of a tensor" if variant.load_path == "tma" else "loads outside are 0"
    writes = "bulk stores" if variant.store_path == "tma" else "element stores"
    return f"{', '.join(ragged)}; {reads}, {writes} leave out what is outside of D"


def _write_back(parts: PackageParts) -> tuple[str, ...]:
    lines = [
        f"`{t.name}`: {t.type.dtype}, allocated by the host function, each element written once, by one CTA"
        for t in parts.problem.outputs
    ]
    lines.append("no input is written to")
    return tuple(lines)


def _accuracy(parts: PackageParts) -> tuple[str, ...]:
    tolerance = parts.spec.tolerance
    element, reason = element_limit(parts)
    lines = [
        f"limit on ||out - ref|| / ||ref|| in float64: {tolerance.rel_err:g}",
        f"limit on |out - ref| / (|ref| + rms(ref)) of an element: {element.removeprefix('math.')} ({reason})",
    ]
    if tolerance.atol is not None:
        lines.append(f"limit on |out - ref| of an element: {tolerance.atol:g}")
    lines += [
        f"`{s.result}` is accumulated in {s.dtype}" for s in parts.problem.body if isinstance(s, Contract | Reduce)
    ]
    casts = [s for s in parts.problem.body if isinstance(s, Map) and s.op is PointwiseOp.CAST]
    lines += [f"rounding as in the reference: `{s}`" for s in casts]
    return tuple(lines)


def _special_values(parts: PackageParts) -> tuple[str, ...]:
    lines = ["NaN and infinities stand where they stand in the reference's output; the test plants both"]
    if any(v.form.k == 0 for v in parts.plan.variants):
        lines.append("k = 0: the sum over nothing is 0, the epilogue still runs")
    return tuple(lines)


def _accepts(parts: PackageParts) -> tuple[str, ...]:
    spec = parts.spec
    lines = [f"`{i.name}`: {i.dtype}, {_axes(len(i.shape))}, {_shapes(i, spec.cases)}" for i in parts.inputs]
    base = spec.accepts.base_alignment_bytes
    lines.append("base addresses: any" if base == 1 else f"base addresses: multiples of {base} bytes")
    return tuple(lines)


def _axes(count: int) -> str:
    return f"{count} axis" if count == 1 else f"{count} axes"


def _shapes(tensor: InputSpec, cases: tuple[Case, ...]) -> str:
    shapes = dict.fromkeys(str([case.value(d) for d in tensor.shape]) for case in cases)
    return f"of shape {' or '.join(shapes)}"
