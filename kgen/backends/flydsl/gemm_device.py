"""Device code of a product on CDNA: operands, epilogue and input ops as source text, and the sections of the file."""

from collections.abc import Sequence

from kgen.backends.flydsl.elements import mfma_type, sum_dtype
from kgen.backends.flydsl.expressions import flydsl
from kgen.backends.flydsl.gemm_rows import kind_of
from kgen.backends.flydsl.gemm_views import DeviceView, KindView
from kgen.backends.source.dialect import Dialect
from kgen.backends.source.fused import FusedTensor, fused_tensors, fused_values
from kgen.backends.source.lines import Lines, bracketed, fitted, tuple_text
from kgen.families.gemm.form import GemmForm, InputOps
from kgen.ir.dtype import DType
from kgen.planning.plan_gemm import GemmPlan, GemmVariant
from kgen.render import render
from kgen.target import Arch

SHARED = "flydsl/cdna/gemm"
_IN_LDS = {"k": "rows", "mn": "columns", "none": "rows"}  # how a tile lies in memory, by the axis that is contiguous


def device_view(variant: GemmVariant, names: dict[str, str], arch: Arch) -> DeviceView:
    """Return what the sections of device code print."""
    form, words = variant.form, flydsl(arch.fp8)
    fused = fused_tensors(form, names)
    a_ops, a_result = _input_ops(form.a_ops, form, words)
    b_ops, b_result = _input_ops(form.b_ops, form, words)
    arguments, epilogue, result = _epilogue(form, fused, words)
    taken = ", ".join(["sums[i]", *(f"{f.name}[i]" for f in fused)])
    element = f"epilogue_ops({taken})" if _computes(form) else _plain_store(form, words)
    return DeviceView(
        a_pointer=_pointer("a", form.a.offset),
        b_pointer=_pointer("b", form.b.offset),
        a_ops=a_ops,
        a_result=a_result,
        b_ops=b_ops,
        b_result=b_result,
        fused_items=_inside([f.name for f in fused]),
        fused_strides=_inside([f"v.{f.name}_stride" for f in fused]),
        sources="sources" if fused else "_",
        fused_loads=_fused_loads(fused),
        epilogue_arguments=", ".join(arguments),
        epilogue=epilogue,
        result=result,
        made=bracketed("made = [", [f"{element} for i in range(v.d_vector)"], "]", indent=4),
        sum_head=_head("def sum_parts_kernel(", ["parts", "d", *(f.name for f in fused)]),
    )


def kind_view(variant: GemmVariant, names: dict[str, str], view: DeviceView, splits: bool, arch: Arch) -> KindView:
    """Return what the sections of one kind of kernel print; `splits` is whether any kind of the file splits k."""
    form, load_path = variant.form, variant.load_path
    a, b = _IN_LDS[variant.facts.a_major], _IN_LDS[variant.facts.b_major]
    turned = {"rows": "read_rows", "columns": "read_turned" if load_path == "async" else "read_columns"}
    fused = [f.name for f in fused_tensors(form, names)]
    operands = [] if variant.facts.k == 0 else ["a", "b"]
    held_b = (f"{turned[b]}(v, lds_b, v.tile_n, warp_origin(v)[1], len(acc[0]), block)", "lds_b", " in LDS")
    read_b, b_name, b_place = ("pieces_for_block(v, b, block)", "b", "") if load_path == "b_direct" else held_b
    launched = [*operands, "d", *(["parts"] if splits else []), *fused]
    kind = "no_k" if variant.facts.k == 0 else load_path
    return KindView(
        kind=kind,
        mma=_mma(variant, arch),
        load_a=f"load_{a}",
        load_b=f"load_{b}",
        start_a=f"start_{a}",
        start_b=f"start_{b}",
        read_a=turned[a],
        read_b=read_b,
        b_name=b_name,
        b_place=b_place,
        store_stage=_store_stage(variant),
        fused_items=view.fused_items,
        head=_head(f"def gemm_{kind}_kernel(", [*operands, "d", *fused]),
        launch_head=_head("def launch(", launched, ["stream: fx.Stream"]),
        kernel_call=_call([*operands, "d", *fused]),
        part_call=_call([*operands, "parts", *fused]),
        sum_call=f"whole({', '.join(['parts', 'd', *fused])})",
    )


def _head(opening: str, pointers: list[str], others: Sequence[str] = ()) -> Lines:
    """Return the head of a function of pointers."""
    return bracketed(opening, [*(f"{name}: fx.Pointer" for name in pointers), *others], "):", indent=4)


def _call(arguments: list[str]) -> Lines:
    """Return the statement that gives a kernel its arguments, and the compiler the warps that a SIMD is to hold."""
    hint = 'value_attrs={"rocdl.waves_per_eu": v.waves}'
    return bracketed("of_tiles = kernel(", [*arguments, hint], ")", indent=8)


def sections(plan: GemmPlan, names: dict[str, str], view: DeviceView) -> tuple[str, ...]:
    """Return the device code in the order it stands in the file, callees before callers."""
    arch = plan.device.arch
    own = f"{arch.backend}/{arch.templates}/gemm"
    first_of = {kind_of(v): v for v in plan.variants}
    splits = any(kind.endswith("_split") for kind in first_of)
    loops = {v.load_path: v for v in plan.variants if v.facts.k}
    kernels = loops or {"no_k": plan.variants[0]}
    views = {kind: kind_view(v, names, view, splits, arch) for kind, v in kernels.items()}
    results = (view.a_result, view.b_result, view.result)
    printed = (*view.a_ops, *view.b_ops, *view.epilogue, *results, *view.made)
    found = [*flydsl(arch.fp8).library_source(printed)]
    found += [_text(f"{SHARED}/{name}", view) for name in ("memory", "buffer_from", "only", "tiles")]
    if loops:
        found += [_text(f"{SHARED}/operand", view), *_layouts(list(loops.values()), view, own)]
    found += [_text(f"{SHARED}/columns", view)] if view.fused_items else []
    found += [_text(f"{SHARED}/epilogue_ops", view)] if _computes(plan.variants[0].form) else []
    found += [_text(f"{SHARED}/store", view)]
    found += [_text(f"{SHARED}/split", view)] if splits else []
    for kind, kind_text in views.items():
        found += [_text(f"{SHARED}/multiply", kind_text)] if loops else []
        folder = own if kind == "async" else SHARED
        found.append(_text(f"{folder}/kernel_{kind}", kind_text))
    for name in first_of:
        kind = name.removesuffix("_split")
        found.append(_text(f"{SHARED}/launch{name.removeprefix(kind)}", views[kind]))
    return tuple(found)


def _layouts(variants: list[GemmVariant], view: DeviceView, own: str) -> list[str]:
    """Return the sections that move tiles of the layouts that the variants have."""
    used = {(v.load_path == "async", layout) for v in variants for _, layout, _ in in_lds(v)}
    converts = any(v.facts.input_ops for v in variants)
    names = [f"{SHARED}/rows"] if converts or any(layout == "rows" for _, layout in used) else []
    names += [f"{SHARED}/load_rows"] if (False, "rows") in used else []
    names += [f"{SHARED}/load_columns"] if converts or (False, "columns") in used else []
    names += [f"{SHARED}/load_b"] if any(v.load_path == "b_direct" for v in variants) else []
    names += [f"{SHARED}/convert"] if converts else []
    names += [f"{own}/start_rows"] if (True, "rows") in used else []
    names += [f"{own}/start_columns"] if (True, "columns") in used else []
    return [_text(name, view) for name in names]


def _text(template: str, view: object) -> str:
    return render(f"{template}.py.j2", view).rstrip("\n")


def _mma(variant: GemmVariant, arch: Arch) -> str:
    """Return the MFMA atom; fp8 on gfx950 is full speed with the scaled one alone, whose scales are left at one."""
    candidate, dtype = variant.choice.candidate, variant.form.mma_dtype
    if variant.facts.k == 0:
        return ""
    scaled = dtype.bytes == 1 and candidate.number("inst_k") * candidate.number("mma") == 2048
    if scaled:
        return "fx.rocdl.cdna4.MFMA_Scale(v.mma, v.mma, MFMA_LANE * WARP // v.mma, IN)"
    return "fx.rocdl.MFMA(v.mma, v.mma, MFMA_LANE * WARP // v.mma, IN, ACC)"


def in_lds(variant: GemmVariant) -> tuple[tuple[str, str, str], ...]:
    """Return the operands that pass through LDS, how their tiles lie there, and along which extent beside k."""
    facts = variant.facts
    operands = ("a", _IN_LDS[facts.a_major], "m"), ("b", _IN_LDS[facts.b_major], "n")
    return operands[:1] if variant.load_path == "b_direct" else operands


def _store_stage(variant: GemmVariant) -> Lines:
    lines = []
    for operand, layout, extent in in_lds(variant):
        held = f"held_{operand}"
        if variant.facts.input_ops:
            lines.append(f"held_{operand} = converted_{layout}(v, {operand}, {held}, step, {operand}_ops)")
        vector = f", v.{operand}_vector" if layout == "columns" else ""
        lines.append(f"store_{layout}(v, {held}, lds_{operand}, v.tile_{extent}{vector})")
    return tuple(lines)


def _computes(form: GemmForm) -> bool:
    return bool(form.epilogue_ops or form.epilogue_loads)


def _plain_store(form: GemmForm, words: Dialect) -> str:
    return words.stored("sums[i]", sum_dtype(form.mma_dtype), form.d.dtype)


def _input_ops(ops: InputOps, form: GemmForm, words: Dialect) -> tuple[Lines, str]:
    """Return the statements and the result, in fp32: it is rounded on its way to LDS."""
    source = form.a.dtype if ops is form.a_ops else form.b.dtype
    names = {"as loaded": "x0", ops.source: "x1"}
    lines = (f"x1 = {words.loaded('x0', source)}", *words.print_ops(ops.ops, names, {ops.source: source}))
    return _returned(lines, names[ops.result])


def _epilogue(form: GemmForm, fused: tuple[FusedTensor, ...], words: Dialect) -> tuple[list[str], Lines, str]:
    """Return the arguments, the statements and the result, which is an element of D."""
    names, types = {form.accumulator: "x0"}, {form.accumulator: sum_dtype(form.mma_dtype)}
    lines: list[str] = []
    for value, tensor in fused_values(form, fused):
        names[value] = f"x{len(names)}"
        types[value] = tensor.source.dtype
        lines.append(f"{names[value]} = {words.loaded(tensor.name, tensor.source.dtype)}")
    lines += words.print_ops(form.epilogue_ops, names, types)
    types |= {op.result: op.dtype for op in form.epilogue_ops}
    stored = words.stored(names[form.result], types[form.result], form.d.dtype)
    return ["x0", *(f.name for f in fused)], *_returned(lines, stored)


def _returned(lines: Sequence[str], result: str) -> tuple[Lines, str]:
    """Return statements and result, which is no name where the last statement only makes it."""
    made = lines[-1].removeprefix(f"{result} = ") if lines and lines[-1].startswith(f"{result} = ") else None
    return (tuple(lines[:-1]), made) if made else (tuple(lines), result)


def _fused_loads(fused: tuple[FusedTensor, ...]) -> Lines:
    """Return the statements that read the epilogue's tensors beside a piece of D."""
    lines: list[str] = []
    for i, f in enumerate(fused):
        call = f"{f.name} = neighbours(v, sources[{i}], v.{f.name}_stride, v.{f.name}_vector, m, n, inside)"
        lines += fitted(call, 4)
    return tuple(lines)


def _inside(items: list[str]) -> str:
    """Return the inside of a tuple."""
    return tuple_text(items)[1:-1]


def _pointer(name: str, offset: int) -> str:
    return f"{name} + {offset}" if offset else name


def in_type(variant: GemmVariant, arch: Arch) -> str:
    """Return the type of MFMA's operands."""
    return mfma_type(variant.form.mma_dtype, arch)


def memory_type(dtype: DType, arch: Arch) -> str:
    """Return the type of an element that the epilogue reads or writes."""
    return flydsl(arch.fp8).memory(dtype)
