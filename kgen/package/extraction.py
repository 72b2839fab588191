"""The view of `plans/v0_plan.md`: the record of what was read out of the PyTorch text, and of what was decided."""

from collections.abc import Sequence
from itertools import pairwise

from kgen.ir.graph import InputKind
from kgen.ir.pointwise import PointwiseOp
from kgen.ir.problem import Combine, Contract, Gather, Load, Map, Problem, Reduce, Scan, Store, TensorRole
from kgen.ir.tensor import TensorType, row_major_strides
from kgen.package.kernel_test import hidden_inputs
from kgen.package.limits import element_factor, rel_errs
from kgen.package.parts import PackageParts, results_of
from kgen.package.plan_words import missing_facts, rejection_rows, source_rows, variant_rows
from kgen.package.views import ExtractionView, TensorRow
from kgen.planning.plan import Dynamic, Variant
from kgen.planning.plan_attention import AttentionVariant
from kgen.planning.plan_gemm import GemmVariant
from kgen.spec.model import FixedAxis, InputSpec, Spec

_SUMS = (Combine.SUM, Combine.PROD, Combine.M2)


def extraction_view(parts: PackageParts) -> ExtractionView:
    """Return the view of `plans/v0_plan.md`."""
    return ExtractionView(
        title=parts.spec.name,
        spec=parts.source,
        pattern=_pattern(parts),
        computation="\n".join(map(str, parts.problems)),
        cut=parts.plan.cut or ("one kernel: nothing is written that only a later kernel reads",),
        tensors=tensor_rows(parts),
        dependencies=tuple(line for p in parts.problems for line in _dependencies(p)),
        broadcasting=_broadcasting(parts),
        masks=_masks(parts),
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
        rows += [_row(t.name, str(t.role), case, t.type) for t in results_of(program)]
        rows += [_row(b.name, "buffer", case, b.type) for b in program.buffers]
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


def _pattern(parts: PackageParts) -> tuple[str, ...]:
    """Return a line per kernel of the first case."""
    case, _ = parts.programs[0]
    firsts = zip(parts.problems, parts.first_variants_of(case), strict=True)
    lines = [_kernel(v, problem) for problem, v in firsts]
    return (
        tuple(f"- {p.name}: {line}" for p, line in zip(parts.problems, lines, strict=True)) if lines[1:] else (*lines,)
    )


def _kernel(variant: Variant, problem: Problem) -> str:
    match variant:
        case GemmVariant():
            return _product(variant)
        case AttentionVariant():
            return _attention(variant)
        case _:
            return _loop(variant, problem)


def _attention(variant: AttentionVariant) -> str:
    form = variant.form
    heads = (
        f"{form.ratio} query heads for each head of K and V" if form.ratio > 1 else "as many heads of K and V as of Q"
    )
    bounds = "; a mask bounds the keys that a query sees" if variant.facts.bounded else ""
    ops = f"; {len(form.score_ops)} pointwise ops on scores" if form.score_ops else ""
    lse = "; log(sum(exp)) of each row is a result" if form.logsumexp else ""
    return f"Family {variant.family}: product, softmax and product, {heads}{bounds}{ops}{lse}."


def _loop(variant: Variant, problem: Problem) -> str:
    counts = (
        (sum(isinstance(s, Reduce) for s in problem.body), "reduction"),
        (sum(isinstance(s, Scan) for s in problem.body), "scan"),
        (sum(isinstance(s, Map) for s in problem.body), "pointwise op"),
    )
    parts = [f"{count} {words}{'s' if count != 1 else ''}" for count, words in counts if count]
    return f"Family {variant.family}: {' and '.join(parts) or 'elements are moved as they are'}."


def _product(variant: GemmVariant) -> str:
    form = variant.form
    inside = [
        f"{len(ops)} {words} op{'s' if len(ops) != 1 else ''}"
        for ops, words in ((form.a_ops.ops, "A"), (form.b_ops.ops, "B"), (form.epilogue_ops, "epilogue"))
        if ops
    ]
    batch = f"{len(form.batch)} batch mode{'s' if len(form.batch) != 1 else ''}" if form.batch else "no batch"
    batch = f"{form.groups.count} groups of rows, with a matrix each" if form.groups else batch
    fused = f", fused with {' and '.join(inside)}" if inside else ""
    return f"Family {variant.family}: one matrix product, {batch}{fused}."


def _dependencies(problem: Problem) -> tuple[str, ...]:
    lines = []
    for s in problem.body:
        match s:
            case Contract() | Reduce():
                order = "" if isinstance(s, Reduce) and s.combine not in _SUMS else "; the order of its sum is free"
                lines.append(f"`{s.result}` needs every element along {', '.join(s.axes)}{order}")
            case Scan():
                lines.append(f"`{s.result}` needs the element before it along {s.axis}")
            case Gather():
                lines.append(f"`{s.result}` needs the value of `{s.index}` for its address")
            case Store():
                lines.append(f"elements of `{s.access.tensor}` do not depend on one another")
            case _:
                pass
    return tuple(lines)


def _broadcasting(parts: PackageParts) -> tuple[str, ...]:
    lines = tuple(line for p in parts.problems for line in _broadcast(p))
    return lines or ("none beyond what the product itself implies" if parts.has_product else "none",)


def _broadcast(problem: Problem) -> tuple[str, ...]:
    stores = [s for s in problem.body if isinstance(s, Store)]
    axes = dict.fromkeys(axis for s in stores for axis in s.access.axes)
    operands = {o for s in problem.body if isinstance(s, Contract) for o in (s.lhs, s.rhs)}
    lines = []
    for s in problem.body:
        if isinstance(s, Load) and s.result not in operands and (over := [a for a in axes if a not in s.access.axes]):
            lines.append(f"`{s.access}` is the same along {', '.join(over)}")
    return tuple(lines)


def _masks(parts: PackageParts) -> tuple[str, ...]:
    body = [s for problem in parts.problems for s in problem.body]
    lines = [f"`{s.access}`" for s in body if isinstance(s, Load | Store | Gather) and s.access.valid]
    lines += [f"`{s}`" for s in body if isinstance(s, Map) and s.op is PointwiseOp.WHERE]
    return tuple(lines) or ("none in the reference",)


def _boundaries(parts: PackageParts) -> tuple[str, ...]:
    dynamic = parts.plan.dynamic
    return tuple(f"{v.name}: {_boundary(v, dynamic)}" for v in parts.plan.variants)


def _boundary(variant: Variant, dynamic: Dynamic | None) -> str:
    if variant.form.is_empty:
        return "the output is empty, nothing is launched"
    if isinstance(variant, AttentionVariant):
        if variant.choice.candidate.value("load_path") != "tma":
            return "loads outside of a tensor are 0, keys there are masked, stores outside of O do nothing"
        return (
            "bulk copies read 0 outside of a tensor, keys there are masked, bulk stores leave out what is outside of O"
        )
    if not isinstance(variant, GemmVariant):
        return "elements outside are neither read nor written"
    form, size = variant.form, variant.choice.candidate.size
    pairs = (("m", form.m, size.m), ("n", form.n, size.n), ("k", form.k, size.k))
    side = _side(variant, dynamic)
    ragged = [
        f"{axis} leaves any number of {tile}" if axis == side else f"{axis} = {extent} leaves {extent % tile} of {tile}"
        for axis, extent, tile in pairs
        if axis == side or extent % tile
    ]
    if not ragged:
        return "the tile divides m, n and k"
    reads = "bulk copies read 0 outside of a tensor" if variant.load_path == "tma" else "loads outside are 0"
    writes = "bulk stores" if variant.store_path == "tma" else "element stores"
    return f"{', '.join(ragged)}; {reads}, {writes} leave out what is outside of D"


def _side(variant: GemmVariant, dynamic: Dynamic | None) -> str:
    """Return the extent of a kernel that is known at run time, if there is one."""
    if dynamic is None:
        return ""
    return {"m": "n", "n": "m"}[dynamic.axis] if variant.is_exchanged else dynamic.axis


def _write_back(parts: PackageParts) -> tuple[str, ...]:
    made = "allocated by the host function, each element written once, by one CTA"
    lines = [
        f"`{t.name}`: {t.type.dtype}, {'updated in place' if t.role is TensorRole.UPDATED else made}"
        for t in parts.results
    ]
    lines += [
        f"`{b.name}`: {b.type.dtype}, between kernels, allocated by the host function" for b in parts.program.buffers
    ]
    lines.append("no other input is written to" if parts.updated else "no input is written to")
    return tuple(lines)


def _accuracy(parts: PackageParts) -> tuple[str, ...]:
    tolerance = parts.spec.tolerance
    _, reason = element_factor(parts)
    lines = [f"limit on ||out - ref|| / ||ref|| in float64, {d}: {limit:g}" for d, limit in rel_errs(parts).items()]
    in_words = reason.replace("x REL_ERR", "times the limit on the whole")
    lines.append(f"limit on |out - ref| / (|ref| + rms(ref)) of an element: {in_words}")
    if tolerance.atol is not None:
        lines.append(f"limit on |out - ref| of an element: {tolerance.atol:g}")
    body = [s for problem in parts.problems for s in problem.body]
    lines += [f"`{s.result}` is accumulated in {s.dtype}" for s in body if isinstance(s, Contract | Reduce | Scan)]
    casts = [s for s in body if isinstance(s, Map) and s.op is PointwiseOp.CAST]
    lines += [f"rounding as in the reference: `{s}`" for s in casts]
    return tuple(lines)


def _special_values(parts: PackageParts) -> tuple[str, ...]:
    lines = ["NaN and infinities stand where they stand in the reference's output; the test plants both"]
    if any(isinstance(v, GemmVariant) and v.form.k == 0 for v in parts.plan.variants):
        lines.append("k = 0: the sum over nothing is 0, the epilogue still runs")
    if hidden := sorted(hidden_inputs(parts)):
        scaled = any(isinstance(v, GemmVariant) for v in parts.plan.variants)
        what = "kernels scale sums of products" if scaled else "keys that a mask hides are skipped"
        lines.append(f"not in {', '.join(hidden)}: {what}, where 0 * Inf would be NaN")
    return tuple(lines)


def _accepts(parts: PackageParts) -> tuple[str, ...]:
    spec = parts.spec
    lines = [f"`{i.name}`: {i.dtype}, {_axes(len(i.shape))}, {_shapes(i, spec)}" for i in parts.inputs]
    if spec.dynamic is not None:
        lines.append(f"{spec.dynamic.range}, known at run time")
    base = parts.base_alignment
    lines.append("base addresses: any" if base == 1 else f"base addresses: multiples of {base} bytes")
    return tuple(lines)


def _axes(count: int) -> str:
    return f"{count} axis" if count == 1 else f"{count} axes"


def _shapes(tensor: InputSpec, spec: Spec) -> str:
    named = spec.dynamic.name if spec.dynamic else None
    shapes = dict.fromkeys(_shape([d if d == named else case.value(d) for d in tensor.shape]) for case in spec.cases)
    return f"of shape {' or '.join(shapes)}"


def _shape(extents: Sequence[object]) -> str:
    return f"[{', '.join(map(str, extents))}]"
