"""What the kernel.py of a product of scaled operands prints beside that of any other: how scales lie and are read.

The sums of a k step are multiplied by the scales of its rows where they are added up (mainloop_scaled.py.j2). Scales
are read in the order of k in which operands arrive.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd

from kgen.backends.cutedsl.expressions import loaded, print_ops
from kgen.backends.cutedsl.gemm_views import DeviceView
from kgen.backends.source.file_views import ValueView
from kgen.backends.source.fused import FusedTensor
from kgen.backends.source.gemm_views import CaseView, FieldView
from kgen.backends.source.lines import bracketed, tuple_text
from kgen.families.gemm.form import BlockScale, GemmForm

_MATRICES = ("a", "b", "d")  # whose strides are fields of the row already
_SHAPE = "  # of (row, k, *batch): neighbours that share a scale, and runs of them"
_STRIDE = "  # of (row, k, *batch), in elements"
_ROWS = "  # rows of B that share their scales, 0 where all do"


@dataclass(frozen=True, slots=True)
class ScaleTensor:
    """A tensor of scales: `argument` is its Python name, `name` that of its fields, `rows` counts its operand's."""

    name: str
    argument: str
    scale: BlockScale
    rows: int

    @property
    def pointer(self) -> str:
        """The address of the first scale."""
        return f"{self.argument}.iterator + {self.scale.offset}" if self.scale.offset else f"{self.argument}.iterator"


def scale_tensors(form: GemmForm, names: dict[str, str], fused: Sequence[FusedTensor]) -> tuple[ScaleTensor, ...]:
    """Return the scales of A, then those of B; a name that an epilogue tensor or a matrix has gets a number."""
    taken = {*_MATRICES, *(f.name for f in fused)}
    found: list[ScaleTensor] = []
    for scale in form.scales:
        argument = names[scale.tensor]
        name, count = argument, 0
        while name in taken:
            count += 1
            name = f"{argument}_scale" if count == 1 else f"{argument}_scale_{count}"
        taken.add(name)
        found.append(ScaleTensor(name, argument, scale, form.m if len(found) < len(form.a_scales) else form.n))
    return tuple(found)


def scale_fields(tensors: Sequence[ScaleTensor]) -> tuple[FieldView, ...]:
    """Return the fields of a row that say how scales lie."""
    if not tensors:
        return ()
    pairs = [
        (FieldView(f"{t.name}_shape", "tuple", _SHAPE), FieldView(f"{t.name}_stride", "tuple", _STRIDE))
        for t in tensors
    ]
    return (*(field for pair in pairs for field in pair), FieldView("b_scale_rows", "int", _ROWS))


def with_scale_values(case: CaseView, form: GemmForm, tensors: Sequence[ScaleTensor]) -> CaseView:
    """Return a case that says how its scales lie."""
    if not tensors:
        return case
    values = [v for t in tensors for v in _values(t, form)]
    rows = ValueView("b_scale_rows", str(gcd(*(scale.rows for scale in form.b_scales))))
    return replace(case, values=(*case.values, *values, rows))


def _values(tensor: ScaleTensor, form: GemmForm) -> tuple[ValueView, ...]:
    scale = tensor.scale
    rows = (scale.rows, -(-tensor.rows // scale.rows)) if scale.rows else (tensor.rows, 1)
    row, k, *batch = scale.stride
    shape = (rows, (scale.k, -(-form.k // scale.k)), *form.batch)
    return (
        ValueView(f"{tensor.name}_shape", tuple_text(shape)),
        ValueView(f"{tensor.name}_stride", tuple_text(((0, row), (0, k), *batch))),
    )


def with_scales(
    view: DeviceView, form: GemmForm, tensors: Sequence[ScaleTensor], kinds: Sequence[str], has_parts: bool
) -> DeviceView:
    """Return the view of kernels that scale the sums of each k step; `kinds` are those of the plan's variants."""
    if not tensors:
        return view
    starts_apart = view.starts_apart or has_parts
    start = f'0 if v.load_path == "staged" else {view.start}' if "staged" in kinds else view.start
    order = ("first, steps = k_share(v)" if has_parts else "steps = -(-v.k // v.tile_k)", f"start = {start}")
    k_of_step = "first + (step + start) % steps" if has_parts else "(step + start) % steps"
    count = len(form.a_scales)
    return replace(
        view,
        scales=", scales",
        of_tile=", tile_at(v, index, rank), scales",
        of_part=", tile_at(v, cute.arch.block_idx()[0] // v.cluster_k, 0), scales",
        fused_views=(*view.fused_views, *_views(tensors)),
        scale_of_a=_factor(tensors[:count], 0),
        scale_of_b=_factor(tensors[count:], count),
        starts_apart=starts_apart,
        k_order=order if starts_apart else (),
        k_of_step=k_of_step if starts_apart else "step",
    )


def joined_scales(view: DeviceView, written: DeviceView, exchanged: DeviceView) -> DeviceView:
    """Return a view of rows as written and of exchanged ones: texts about scales ask the row where they differ."""
    if not written.scales:
        return view
    *views, packed = written.fused_views
    other = exchanged.fused_views[-1].removeprefix("scales = ")
    view = replace(
        view,
        fused_views=(*views, packed.replace("= ", f"= {other} if v.exchanged else ")),
        scale_of_a=_asked(exchanged.scale_of_a, written.scale_of_a),
        scale_of_b=_asked(exchanged.scale_of_b, written.scale_of_b),
    )
    if written.starts_apart:
        return replace(view, start=written.start)
    return replace(view, k_order=exchanged.k_order, k_of_step=f"{exchanged.k_of_step} if v.exchanged else step")


def _asked(exchanged: tuple[str, ...], written: tuple[str, ...]) -> tuple[str, ...]:
    if exchanged == written:
        return written
    return ("if v.exchanged:", *(f"    {line}" for line in exchanged), *written)


def _views(tensors: Sequence[ScaleTensor]) -> tuple[str, ...]:
    """Return the statements that view scales as functions of (row, k, *batch), and pack them."""
    lines: list[str] = []
    for t in sorted(tensors, key=lambda t: t.name):
        layout = f"cute.make_layout(v.{t.name}_shape, stride=v.{t.name}_stride)"
        lines += bracketed(f"{t.name}_view = cute.make_tensor(", (t.pointer, layout), ")", indent=4)
    packed = tuple_text([f"{t.name}_view" for t in tensors])
    return (*lines, f"scales = {packed}")


def _factor(tensors: Sequence[ScaleTensor], first: int) -> tuple[str, ...]:
    """Return the statements that compute and return what multiplies an element of one operand."""
    names = {t.scale.ops.source: f"x{i}" for i, t in enumerate(tensors)}
    types = {t.scale.ops.source: t.scale.dtype for t in tensors}
    lines: list[str] = []
    for i, t in enumerate(tensors):
        element = f"scales[{first + i}][at]"
        lines.append(f"x{i} = {loaded(element, t.scale.dtype)}")
    for t in tensors:
        lines += print_ops(t.scale.ops.ops, names, types)
    result = " * ".join(names[t.scale.ops.result] for t in tensors) or "1.0"
    if lines and lines[-1].startswith(f"{result} = "):
        return (*lines[:-1], lines[-1].replace(f"{result} =", "return", 1))
    return (*lines, f"return {result}")
