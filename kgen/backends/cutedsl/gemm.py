"""Plan -> KernelView for GEMM on Hopper: the whole kernel.py as printable values.

The device and host sections are rendered here, because which of them a file has is a choice, and templates make none.
"""

from dataclasses import replace

from kgen.backends.cutedsl.expressions import ELEMENT_TYPES
from kgen.backends.cutedsl.gemm_device import FOLDER, device_view, library_sections, section_templates
from kgen.backends.cutedsl.gemm_dynamic import (
    joined,
    largest_form,
    mixes,
    run_time_constants,
    with_exchange,
    with_run_time,
    with_value,
)
from kgen.backends.cutedsl.gemm_host import host_view, table_of_cases, table_of_values
from kgen.backends.cutedsl.gemm_parts import CONSTANTS as PARTS_CONSTANTS
from kgen.backends.cutedsl.gemm_planes import CONSTANTS as PLANES_CONSTANTS
from kgen.backends.cutedsl.gemm_planes import planes_texts, with_scales
from kgen.backends.cutedsl.gemm_rows import BY_TMA, WRITES_PARTS, fields_of, gemm_rules, kind_of, row_view, writes_parts
from kgen.backends.cutedsl.gemm_scales import scale_tensors, with_scale_values
from kgen.backends.cutedsl.gemm_types import product_of, sum_dtype
from kgen.backends.cutedsl.gemm_views import DeviceView
from kgen.backends.cutedsl.loaded import LOADED_IMPORTS
from kgen.backends.cutedsl.names import device_names
from kgen.backends.cutedsl.words import describe
from kgen.backends.source.fused import fused_tensors
from kgen.backends.source.gemm_rows import case_view
from kgen.backends.source.gemm_views import KernelView
from kgen.backends.source.imports import import_block
from kgen.backends.source.module import module_text, require_free_names
from kgen.backends.source.names import host_names
from kgen.backends.source.one_text import one_view
from kgen.backends.source.operator import with_operator
from kgen.errors.backend import MixedKernelsError
from kgen.families.gemm.form import GemmForm
from kgen.ir.program import Program
from kgen.planning.plan import Plan
from kgen.planning.plan_gemm import GemmPlan, GemmVariant, gemm_plan
from kgen.render import Page, render
from kgen.spec.model import Spec

_WARP_GROUP = "WARP_GROUP = 128  # threads that issue one wgmma together"
_FMA = (
    "SIDE = 16  # the CTA is a square of 16 x 16 threads",
    "THREADS = SIDE * SIDE",
    "QUAD = 4  # fp32 elements of one 16-byte smem access",
    "PAD = 4  # fp32 elements between smem rows: spreads a column over the banks, keeps 16-byte alignment",
)
_INT32_LIMIT = 2**31


def view_gemm(spec: Spec, programs: dict[str, Program], plan: Plan) -> Page:
    """Return the page of kernel.py. Raises an `UnsupportedError` for a plan that one file cannot hold."""
    gemm = gemm_plan(plan)
    program = next(iter(programs.values()))
    shown = host_names(tuple(a.name for a in program.arguments))
    kernel = view_kernel(gemm, program)
    table = table_of_values(spec, gemm, programs, shown) if gemm.dynamic else table_of_cases(gemm, programs)
    host = render(f"{FOLDER}/host.py.j2", host_view(gemm, programs, shown, operands_of(gemm, program), table))
    host = with_operator(host, spec.operator, programs, shown, plan.device.arch, table.described)
    module = module_text(spec, program, shown)
    doc = describe(spec, programs, gemm, shown)
    view = replace(
        kernel,
        title=doc[0],
        doc=doc[1:],
        imports=import_block((*kernel.imports, *module.imports)),
        host=(*host.rstrip("\n").splitlines(), *module.lines),
    )
    require_free_names(module, spec.reference.file, _own_text(view, host, kernel.imports))
    return Page(f"{FOLDER}/kernel.py.j2", view)


def view_kernel(plan: GemmPlan, program: Program) -> KernelView:
    """Return the view of one kernel without what stands around it: no docstring, imports unsorted, no host code.

    The plan has the variants of this kernel alone; the program is that of any case. Raises `UnsupportedError`.
    """
    _require_one_kind(plan)
    names = device_names(tuple(a.name for a in program.arguments))
    device = _one_view(plan, names, operands_of(plan, program))
    of_case = {v.case: v for v in plan.variants}
    forms = {case: largest_form(v, plan) for case, v in of_case.items()}
    fused = {case: fused_tensors(form, names) for case, form in forms.items()}
    row_fused = next(iter(fused.values()))
    scales = {case: scale_tensors(form, names, fused[case]) for case, form in forms.items()}
    row_fields = fields_of(plan, row_fused, next(iter(scales.values())))
    first_of_kind = {kind_of(v): v for v in plan.variants}
    return KernelView(
        title="",
        doc=(),
        imports=_imports(plan, device),
        constants=_constants(plan, device),
        fields=row_fields,
        cases=tuple(
            with_exchange(
                with_scale_values(case_view(case, form, fused[case], row_fields), form, scales[case]),
                of_case[case],
                plan,
            )
            for case, form in forms.items()
        ),
        rows=tuple(with_value(row_view(v, plan), v, plan) for v in plan.variants),
        rules=tuple(gemm_rules(v, plan) for v in first_of_kind.values()),
        sections=(*library_sections(device), *_sections(plan, device, len(row_fused))),
        host=(),
    )


def _own_text(view: KernelView, host: str, imports: tuple[str, ...]) -> tuple[str, ...]:
    """Return statements that define every name of the file but those of the user's module."""
    made = ["Variant", "VARIANTS", *(c.constant for c in view.cases), *(f"rules_{r.load_path}" for r in view.rules)]
    return (*imports, *view.constants, *(f"{name} = None" for name in made), *view.sections, host)


def _sections(plan: GemmPlan, view: DeviceView, fused: int) -> tuple[str, ...]:
    """Return the device functions and launch functions in the order they stand; the epilogue reads `fused` tensors."""
    if not plan.variants[0].cuts:
        return tuple(_section(name, view) for name in section_templates(plan, view))
    scaled = with_scales(view, fused)
    return tuple(text for name in section_templates(plan, scaled) for text in planes_texts(name, view, scaled))


def _section(template: str, view: DeviceView) -> str:
    return render(template, view).rstrip("\n")


def _require_one_kind(plan: GemmPlan) -> None:
    """One file holds variants of one engine (wgmma, FFMA or none) and one store path, so that they share its text."""
    kinds = {(_engine(kind_of(v)), v.store_path): v.case for v in plan.variants}
    if len(kinds) > 1:
        (one, first), (other, second), *_ = kinds.items()
        raise MixedKernelsError(
            spec=plan.name, one=" and ".join(one), first=first, other=" and ".join(other), second=second
        )


def _one_view(plan: GemmPlan, names: dict[str, str], operands: tuple[str, ...]) -> DeviceView:
    """Return the view of all variants: what their rows do not hold, such as offsets and numbers, is one text."""
    if not mixes(plan):
        return with_run_time(_same_view(plan, plan.variants, names, operands), plan, names)
    exchanged, written = (tuple(v for v in plan.variants if v.is_exchanged is swap) for swap in (True, False))
    views = (_same_view(plan, variants, names, operands) for variants in (written, exchanged))
    return with_run_time(joined(*views), plan, names)


def _same_view(
    plan: GemmPlan, variants: tuple[GemmVariant, ...], names: dict[str, str], operands: tuple[str, ...]
) -> DeviceView:
    return one_view(plan.name, ((v.case, device_view(v, plan, names, operands), ()) for v in variants), _text)


def _text(part: object) -> str:
    return "; ".join(str(p) for p in part) if isinstance(part, tuple) else str(part)


def _engine(kind: str) -> str:
    if kind in ("planes", "planes_parts"):
        return "planes"
    return "wgmma" if kind in ("tma", "split", "parts", "gated", "grouped", "staged") else kind


def operands_of(plan: GemmPlan, program: Program) -> tuple[str, ...]:
    """Return the tensors that a launch takes, in the order of the signature."""
    form = plan.variants[0].form
    used = {load.source.tensor for load in form.epilogue_loads}
    if plan.variants[0].facts.k:
        used |= {o.tensor for o in form.operands} | {s.tensor for s in form.scales}
    used |= {form.groups.ends} if form.groups else set()
    return tuple(a.name for a in program.arguments if a.name in used)


def _imports(plan: GemmPlan, view: DeviceView) -> tuple[str, ...]:
    kinds = {kind_of(v) for v in plan.variants}
    on_tensor_cores = bool(kinds - {"simt", "no_k"})
    by_tma = kinds & BY_TMA or view.stores_by_tma
    replaces = bool(kinds & {"split", "planes", *WRITES_PARTS}) or plan.dynamic
    lines = [
        *(["from collections.abc import Callable"] if plan.variants[0].cuts else []),
        f"from dataclasses import dataclass{', replace' if replaces else ''}",
        f"from functools import cache{', lru_cache' if plan.dynamic else ''}",
        "from importlib.metadata import version",
        *_of_math(kinds, bool(view.scales)),
        "import cutlass",
        "import cutlass.cute as cute",
        "import torch",
        "from cutlass.cute.runtime import make_fake_stream, make_fake_tensor",
        *LOADED_IMPORTS,
    ]
    if on_tensor_cores:
        units = ["OperandMajorMode"] + ["cpasync"] * bool(by_tma) + ["warp"] * _uses_stmatrix(view) + ["warpgroup"]
        lines += ["from cutlass import pipeline", f"from cutlass.cute.nvgpu import {', '.join(units)}"]
    if "no_k" not in kinds:
        lines.append("from cutlass.utils import SmemAllocator")
    return tuple(lines)


def _of_math(kinds: set[str], has_scales: bool) -> tuple[str, ...]:
    if kinds == {"grouped"}:
        return ()
    return ("from math import gcd, prod",) if "staged" in kinds or has_scales else ("from math import prod",)


def _uses_stmatrix(view: DeviceView) -> bool:
    return view.stores_by_tma and view.to_smem_atom.startswith("warp.")


def _constants(plan: GemmPlan, view: DeviceView) -> tuple[str, ...]:
    form = plan.variants[0].form
    out, sums = f"OUT = {ELEMENT_TYPES[form.d.dtype]}", f"ACC = {ELEMENT_TYPES[sum_dtype(form)]}"
    if plan.variants[0].load_path == "simt":
        return (out, sums, _index(plan), *(_FMA if plan.variants[0].facts.k else _FMA[:-1]))
    product = product_of(form)
    lines = [
        *run_time_constants(plan),
        f"IN = {product.element}  # wgmma's operand type",
        out,
        f"{sums}  # the accumulator's type",
        _WARP_GROUP,
        "MMA_M = 64  # rows of one wgmma instruction",
        f"MMA_K = {product.k}  # k of one wgmma instruction on {product.bits}-bit operands",
    ]
    lines += PARTS_CONSTANTS if writes_parts(plan) else ()
    if plan.variants[0].cuts:
        return (*lines, _index(plan), *_FMA, *PLANES_CONSTANTS)
    by_element = view.has_epilogue or not view.stores_by_tma or form.groups
    return (*lines, _index(plan)) if by_element else tuple(lines)


def _index(plan: GemmPlan) -> str:
    """Return the constant that types element indices: 64 bits only where an offset needs them (they cost registers)."""
    if max(_last_offset(largest_form(v, plan)) for v in plan.variants) >= _INT32_LIMIT:
        return "INDEX = cutlass.Int64  # of tensor elements: a row index times a stride passes 2^31"
    return "INDEX = cutlass.Int32  # of tensor elements: every offset is below 2^31"


def _last_offset(form: GemmForm) -> int:
    """Return the largest element offset that the epilogue reads or writes."""
    extents = (form.m, form.n, *form.batch)
    accesses = (form.d, *(load.source for load in form.epilogue_loads))
    return max(
        a.offset + sum((e - 1) * abs(s) for e, s in zip(extents, (a.m, a.n, *a.batch), strict=True)) for a in accesses
    )
