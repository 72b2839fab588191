"""DeviceView of a GEMM: operands, epilogue and input ops as source text, and which sections make the kernel."""

from kgen.backends.cutedsl.expressions import ELEMENT_TYPES, library_source, print_ops
from kgen.backends.cutedsl.gemm_rows import kind_of
from kgen.backends.cutedsl.gemm_views import DeviceView, TensorView
from kgen.backends.source.fused import FusedTensor, fused_tensors, fused_values
from kgen.backends.source.lines import bracketed
from kgen.errors.backend import ElementTypeError
from kgen.families.gemm.form import GemmForm, InputOps
from kgen.ir.dtype import DType
from kgen.planning.plan_gemm import GemmPlan, GemmVariant

OUTPUT_TYPES = (DType.BF16, DType.FP16, DType.FP32)
FOLDER = "cutedsl/sm90/gemm"

_LOADS = {"tma": "load_tma", "staged": "load_staged"}


def device_view(variant: GemmVariant, names: dict[str, str], operands: tuple[str, ...]) -> DeviceView:
    """Return what the device templates print; `operands` are the tensors that a launch takes, in order."""
    form = variant.form
    fused = fused_tensors(form, names)
    if form.d.dtype not in OUTPUT_TYPES:
        valid = ", ".join(OUTPUT_TYPES)
        raise ElementTypeError(role="output", tensor=form.d.tensor, dtype=form.d.dtype, valid=valid)
    by_tma = variant.store_path == "tma"
    on_tensor_cores = variant.load_path != "simt"
    a_ops, a_result = _input_ops(form.a_ops, form, on_tensor_cores)
    b_ops, b_result = _input_ops(form.b_ops, form, on_tensor_cores)
    epilogue, result = _epilogue(form, fused)
    wide = form.d.dtype is DType.FP32
    return DeviceView(
        tensors=tuple(TensorView(names[tensor]) for tensor in operands),
        a_pointer=_pointer(names[form.a.tensor], form.a.offset),
        b_pointer=_pointer(names[form.b.tensor], form.b.offset),
        fused=", fused" if fused else "",
        fused_views=_fused_views(fused),
        a_ops=a_ops,
        a_result=a_result,
        b_ops=b_ops,
        b_result=b_result,
        has_epilogue=bool(epilogue),
        epilogue=epilogue,
        result=result,
        stores_by_tma=by_tma,
        store="tma_d, gD, sD" if by_tma else "mD",
        d="tma_d, mD" if by_tma else "mD",
        to_smem_atom=_WIDE_ATOM if wide else "warp.StMatrix8x8x16bOp(False, 4), OUT",
    )


_WIDE_ATOM = "cute.nvgpu.CopyUniversalOp(), OUT, num_bits_per_copy=64"


def section_templates(plan: GemmPlan, view: DeviceView) -> tuple[str, ...]:
    """Return the names of the section templates in the order they stand in the file."""
    kinds = tuple(dict.fromkeys(kind_of(v) for v in plan.variants))
    tail = (["matrix_view"] if view.fused else []) + (["epilogue_ops"] if view.has_epilogue else [])
    kernels = [f"kernel_{kind}" for kind in kinds] + [f"launch_{kind}" for kind in kinds]
    match kinds:
        case ("simt",):
            names = ["simt_tiles", "simt_load", "simt_mainloop", *tail, "simt_store", *kernels]
        case ("no_k",):
            names = ["simt_tiles", *tail, "simt_store", *kernels]
        case _:
            store = "store_tma" if view.stores_by_tma else "store_direct"
            names = ["tiles", *(_LOADS[k] for k in kinds), "mainloop", *tail, store, "consume", *kernels]
    return tuple(f"{FOLDER}/{name}.py.j2" for name in names)


def library_sections(view: DeviceView) -> tuple[str, ...]:
    """Return the source of the library functions that the printed ops call."""
    return library_source((*view.a_ops, *view.b_ops, *view.epilogue))


def _input_ops(ops: InputOps, form: GemmForm, on_tensor_cores: bool) -> tuple[tuple[str, ...], str]:
    """Return the statements and the result, which has the type that goes to smem."""
    if on_tensor_cores and not ops.ops:
        return (), "x0"
    names = {"as loaded": "x0", ops.source: "x1"}
    lines = ("x1 = x0.to(cutlass.Float32)", *print_ops(ops.ops, names))
    result = names[ops.result]
    return lines, f"{result}.to({ELEMENT_TYPES[form.mma_dtype]})" if on_tensor_cores else result


def _epilogue(form: GemmForm, fused: tuple[FusedTensor, ...]) -> tuple[tuple[str, ...], str]:
    names = {form.accumulator: "x0"}
    lines = [f"{f.name} = fused[{i}]" for i, f in enumerate(fused)]
    for value, tensor in fused_values(form, fused):
        names[value] = f"x{len(names)}"
        widen = " != 0" if tensor.source.dtype is DType.BOOL else ".to(cutlass.Float32)"
        lines.append(f"{names[value]} = {tensor.name}[at]{widen}")
    lines += print_ops(form.epilogue_ops, names)
    return tuple(lines), names[form.result]


def _fused_views(fused: tuple[FusedTensor, ...]) -> tuple[str, ...]:
    """Return the statements that view each tensor as a function of (m, n, *batch), and pack them."""
    lines: list[str] = []
    for f in fused:
        items = ("v", _pointer(f.argument, f.source.offset), f"v.{f.name}_stride")
        lines += bracketed(f"{f.name}_view = matrix_view(", items, ")", indent=4)
    views = [f"{f.name}_view" for f in fused]
    if len(views) == 1:
        lines.append(f"fused = ({views[0]},)")
    elif views:
        lines += bracketed("fused = (", views, ")", indent=4)
    return tuple(lines)


def _pointer(name: str, offset: int) -> str:
    return f"{name}.iterator + {offset}" if offset else f"{name}.iterator"
