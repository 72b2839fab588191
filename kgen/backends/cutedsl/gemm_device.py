"""DeviceView of a GEMM: operands, epilogue and input ops as source text, and which sections make the kernel."""

from collections.abc import Iterable

from kgen.backends.cutedsl.expressions import library_source, loaded, print_ops
from kgen.backends.cutedsl.gemm_gate import approximates, b_pointers, fused_pointer, sums_view, tile_sections
from kgen.backends.cutedsl.gemm_overlap import LAUNCH, TRIGGER, WAIT, overlaps
from kgen.backends.cutedsl.gemm_parts import sharing, unread
from kgen.backends.cutedsl.gemm_planes import OF_FMA
from kgen.backends.cutedsl.gemm_rows import WRITES_PARTS, has_parts, kind_of, kinds_of, shares_units, writes_parts
from kgen.backends.cutedsl.gemm_scales import scale_tensors, with_scales
from kgen.backends.cutedsl.gemm_types import IN_WORDS, PLANES, SIMT, Product, product_of, sum_dtype
from kgen.backends.cutedsl.gemm_views import DeviceView, TensorView
from kgen.backends.source.fused import FusedTensor, fused_tensors, fused_values
from kgen.backends.source.lines import bracketed
from kgen.errors.backend import ElementTypeError
from kgen.families.gemm.form import GemmForm, InputOps
from kgen.ir.dtype import DType
from kgen.planning.plan_gemm import GemmPlan, GemmVariant

OUTPUT_TYPES = (DType.BF16, DType.FP16, DType.FP32, DType.INT32)
FOLDER = "cutedsl/sm90/gemm"


def device_view(variant: GemmVariant, plan: GemmPlan, names: dict[str, str], operands: tuple[str, ...]) -> DeviceView:
    """Return what the device templates print; `operands` are the tensors that a launch takes, in order."""
    form = variant.form
    fused = fused_tensors(form, names)
    if form.d.dtype not in OUTPUT_TYPES:
        valid = ", ".join(OUTPUT_TYPES)
        raise ElementTypeError(role="output", tensor=form.d.tensor, dtype=form.d.dtype, valid=valid)
    by_tma = variant.store_path == "tma"
    on_tensor_cores = variant.load_path != "simt"
    multiplied = product_of(form) if on_tensor_cores else SIMT
    a_ops, a_result = _input_ops(form.a_ops, multiplied)
    b_ops, b_result = _input_ops(form.b_ops, multiplied)
    epilogue, result = _epilogue(form, fused)
    boxes, to_smem_atom = _TRANSPOSED_STORE if variant.is_exchanged else _STORE
    several = shares_units(plan)
    gated, b_pointer = form.products == 2, _operand_pointer(names[form.b.tensor], form.b.offset, multiplied)
    b_pointer = f"({b_pointer},)" if form.groups else b_pointer
    sums = sums_view(form.products)
    view = DeviceView(
        tensors=tuple(TensorView(names[tensor]) for tensor in operands),
        a_pointer=_operand_pointer(names[form.a.tensor], form.a.offset, multiplied),
        b_pointer=b_pointers(form, names) if gated else b_pointer,
        fused=", fused" if fused else "",
        fused_views=_fused_views(fused, gated),
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
        boxes=(f"return {boxes}",),
        to_smem_atom=to_smem_atom[form.d.dtype.bytes == 4],
        k_steps="k_share(v)[1]" if has_parts(plan) or writes_parts(plan) else "-(-v.k // v.tile_k)",
        sharing=sharing(plan),
        unread=unread(plan),
        units="sm_count * v.resident" if several else "sm_count",
        resident="v.resident" if several else "1",
        shares_units=several,
        launch_lines=_launch_lines(plan),
        starts_apart=variant.is_exchanged,
        mma_k=multiplied.k,
        mma_op=_mma_op(multiplied),
        along_k="major(stride) == OperandMajorMode.K" if multiplied.any_major else "stride[1] <= stride[0]",
        zero=multiplied.zero,
        start="tile_m // v.cluster_m",
        columns=sums.columns,
        box_sums=sums.of_box,
        sums=sums.in_box if by_tma else sums.in_row,
        sum_names=sums.names,
        tma_atoms=(*_tma_atom("a", "m", "n", multiplied), *_tma_atom("b", "n", "m", multiplied)),
        to_a=multiplied.written.format(smem="sA", layout="a_layout"),
        to_b=multiplied.written.format(smem="sB", layout="b_layout"),
        first_fused="*fused, " if fused else "",
        ends=_pointer(names[form.groups.ends], form.groups.offset) if form.groups else "",
        b_part=sums.b_part,
        b_parts=sums.b_parts,
        wait=WAIT if overlaps(plan) else (),
        trigger=TRIGGER if overlaps(plan) else (),
        overlap=(f"{LAUNCH},",) if overlaps(plan) else (),
        overlap_too=f", {LAUNCH}" if overlaps(plan) else "",
    )
    return with_scales(view, form, scale_tensors(form, names, fused), kinds_of(plan), has_parts=has_parts(plan))


def _launch_lines(plan: GemmPlan) -> tuple[str, ...]:
    """Return the arguments of the launch of the `tma` kernel."""
    multicasts = all(_multicasts(v) for v in plan.variants if kind_of(v) in ("tma", "gated", "planes"))
    if multicasts and not shares_units(plan) and not overlaps(plan):
        return (
            "grid=(grid, 1, 1), block=(threads(v), 1, 1), cluster=(cluster, 1, 1), min_blocks_per_mp=1, stream=stream",
        )
    cluster = (
        "# a cluster of one CTA is none: as an attribute of the launch it makes starting a CTA several times as long",
        "cluster=(cluster, 1, 1) if cluster > 1 else None,",
    )
    carveout = "preferred_smem_carveout=100,  # percent: the CTAs of an SM share all of its smem"
    return (
        "grid=(grid, 1, 1),",
        "block=(threads(v), 1, 1),",
        *(("cluster=(cluster, 1, 1),",) if multicasts and not shares_units(plan) else cluster),
        "min_blocks_per_mp=v.resident," if shares_units(plan) else "min_blocks_per_mp=1,",
        *([carveout] if shares_units(plan) else []),
        "stream=stream,",
        *([f"{LAUNCH},"] if overlaps(plan) else []),
    )


def _multicasts(variant: GemmVariant) -> bool:
    candidate = variant.choice.candidate
    return candidate.number("cluster_m") * candidate.number("cluster_n") > 1


_BOXES = "MMA_M, v.store_n, v.store_buffers * v.wg_m * v.wg_n, OUT"
# How D lies in smem, and how its registers get there where an element has 16 bits, and where it has 32.
_STORE = (
    f"row_major({_BOXES})",
    ("warp.StMatrix8x8x16bOp(False, 4), OUT", "cute.nvgpu.CopyUniversalOp(), OUT, num_bits_per_copy=64"),
)
_TRANSPOSED_STORE = (
    f"column_major({_BOXES}, MMA_M)",
    ("warp.StMatrix8x8x16bOp(True, 4), OUT", "cute.nvgpu.CopyUniversalOp(), OUT, num_bits_per_copy=32"),
)


def section_templates(plan: GemmPlan, view: DeviceView) -> tuple[str, ...]:
    """Return the names of the section templates in the order they stand in the file."""
    kinds = kinds_of(plan)
    tail = (["matrix_view"] if view.fused else []) + (["epilogue_ops"] if view.has_epilogue else [])
    kernels = [*_once(_kernels(kind) for kind in kinds), *(f"launch_{kind}" for kind in kinds)]
    match kinds:
        case ("simt",):
            names = ["simt_tiles", "simt_load", "simt_mainloop", *tail, "simt_store", *kernels]
        case ("no_k",):
            names = ["simt_tiles", *tail, "simt_store", *kernels]
        case _:
            form = plan.variants[0].form
            store = "store_grouped" if form.groups else "store_tma" if view.stores_by_tma else "store_direct"
            multiplied, gated = product_of(form), form.products == 2
            columns = view.stores_by_tma and any(v.is_exchanged for v in plan.variants)
            parts = ["parts_layout"] if writes_parts(plan) else []
            parts += ["k_share"] if has_parts(plan) or writes_parts(plan) else []
            parts += ["words"] if "staged" in kinds and multiplied.written == IN_WORDS else []
            loads = _once(_loads(kind, gated) for kind in kinds)
            gate_tiles = tile_sections(form.products, multiplied, kinds)
            consumers = _once(_consumers(kind) for kind in kinds)
            tiles = [*(["at_run_time"] if view.extent else []), "units" if form.groups else "tiles"]
            names = [
                *tiles,
                *multiplied.operands(columns),
                *gate_tiles,
                *parts,
                *loads,
                "mainloop_scaled" if form.scales else multiplied.mainloop,
            ]
            names += [*tail, store, *consumers, *kernels]
    return tuple(f"{FOLDER}/{name}.py.j2" for name in names)


def _kernels(kind: str) -> tuple[str, ...]:
    """Return the templates of what one kind of launch runs."""
    match kind:
        case "planes":
            return ("kernel_tma", *OF_FMA, "cut_operand")
        case "parts":
            return ("kernel_parts", "sum_parts")
        case "planes_parts":
            return ("kernel_parts", "sum_parts", *OF_FMA, "cut_operand")
    return (f"kernel_{kind}",)


def _loads(kind: str, gated: bool) -> tuple[str, ...]:
    """Return the templates that bring operands to smem for one kind of kernel."""
    match kind:
        case "tma":
            return ("of_operand", "load_tma")
        case "split":
            return ("of_operand", "load_split")
        case "gated":
            return ("of_operand", "load_gated")
        case "planes":
            return ("of_operand", "load_planes")
        case "grouped":
            return ("load_grouped",)
        case "parts" | "planes_parts":
            return ("of_operand", "load_parts")
    return ("staged_ops", "copy_tile", "batch_offset", "load_staged_gated" if gated else "load_staged")


def _consumers(kind: str) -> tuple[str, ...]:
    """Return the templates of the consumer warp groups of one kind of kernel."""
    match kind:
        case "split":
            return ("add_parts", "consume_split")
        case "grouped":
            return ("consume_grouped",)
    return ("consume_parts",) if kind in WRITES_PARTS else ("consume",)


def _once(names: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for group in names for name in group))


def library_sections(view: DeviceView) -> tuple[str, ...]:
    """Return the source of the library functions that the printed ops call."""
    return library_source((*view.a_ops, *view.b_ops, *view.scale_of_a, *view.scale_of_b, *view.epilogue))


def _input_ops(ops: InputOps, multiplied: Product) -> tuple[tuple[str, ...], str]:
    """Return the statements and the result, which has the type that goes to smem."""
    if multiplied not in (SIMT, PLANES) and not ops.ops:
        return (), multiplied.moved
    names = {"as loaded": "x0", ops.source: "x1"}
    lines = ("x1 = x0.to(cutlass.Float32)", *print_ops(ops.ops, names))
    return lines, multiplied.rounded.format(names[ops.result])


def _epilogue(form: GemmForm, fused: tuple[FusedTensor, ...]) -> tuple[tuple[str, ...], str]:
    sums = (form.accumulator, *((form.second.accumulator,) if form.second else ()))
    names, types = {s: f"x{i}" for i, s in enumerate(sums)}, dict.fromkeys(sums, sum_dtype(form))
    lines = [f"{f.name} = fused[{i}]" for i, f in enumerate(fused)]
    for value, tensor in fused_values(form, fused):
        names[value], types[value] = f"x{len(names)}", tensor.source.dtype
        element = f"{tensor.name}[at]"
        widened = f"{element}.to(cutlass.Float32)" if tensor.source.dtype.is_float else loaded(element, types[value])
        lines.append(f"{names[value]} = {widened}")
    for op in form.epilogue_ops:
        lines += print_ops((op,), names, types, approximate=approximates(op.op, form))
        types[op.result] = op.dtype
    return tuple(lines), names[form.result]


def _fused_views(fused: tuple[FusedTensor, ...], gated: bool) -> tuple[str, ...]:
    """Return the statements that view each tensor as a function of (m, n, *batch), and pack them."""
    lines: list[str] = []
    for f in fused:
        pointer = fused_pointer(f) if gated else _pointer(f.argument, f.source.offset)
        items = ("v", pointer, f"v.{f.name}_stride")
        lines += bracketed(f"{f.name}_view = matrix_view(", items, ")", indent=4)
    views = [f"{f.name}_view" for f in fused]
    if len(views) == 1:
        lines.append(f"fused = ({views[0]},)")
    elif views:
        lines += bracketed("fused = (", views, ")", indent=4)
    return tuple(lines)


def _mma_op(multiplied: Product) -> tuple[str, ...]:
    """Return the statement that makes the instruction on operands whose k is contiguous."""
    source, major = "warpgroup.OperandSource.SMEM", "OperandMajorMode.K"
    items = (*multiplied.types.split(", "), "(MMA_M, n, MMA_K)", source, major, major)
    return bracketed(f"op = {multiplied.op}(", items, ")", indent=4)


def _tma_atom(operand: str, outer: str, shared_along: str, multiplied: Product) -> tuple[str, ...]:
    """Return the statement that makes the descriptor of A or B."""
    matrix = f"m{operand.upper()}"
    box = f"cute.slice_({operand}_layout(v), (None, None, 0))"
    items = [f"load_{operand}", matrix, box, f"(v.tile_{outer}, v.tile_k)", f"num_multicast=v.cluster_{shared_along}"]
    items += ["internal_type=IN"] if multiplied.rounds_bulk_loads else []
    return bracketed(f"tma_{operand}, {matrix} = cpasync.make_tiled_tma_atom(", items, ")", indent=4)


def _operand_pointer(name: str, offset: int, multiplied: Product) -> str:
    """Return the address of an operand, of bytes as one of elements."""
    pointer = _pointer(name, offset)
    return f"cute.recast_ptr({pointer}, dtype=IN)" if multiplied.byte_wise else pointer


def _pointer(name: str, offset: int) -> str:
    return f"{name}.iterator + {offset}" if offset else f"{name}.iterator"
