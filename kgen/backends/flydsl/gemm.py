"""Plan -> KernelView for GEMM on CDNA: the whole kernel.py as printable values.

The device and host sections are rendered here, because which of them a file has is a choice, and templates make none.
"""

from dataclasses import replace

from kgen.backends.flydsl.elements import sum_dtype
from kgen.backends.flydsl.gemm_device import SHARED, device_view, in_lds, in_type, memory_type, sections
from kgen.backends.flydsl.gemm_host import host_view
from kgen.backends.flydsl.gemm_rows import fields_of, gemm_rules, row_view
from kgen.backends.flydsl.gemm_views import DeviceView
from kgen.backends.flydsl.gemm_words import describe
from kgen.backends.flydsl.names import device_names
from kgen.backends.source.file_views import RulesView
from kgen.backends.source.fused import fused_tensors
from kgen.backends.source.gemm_rows import case_view
from kgen.backends.source.gemm_views import KernelView
from kgen.backends.source.imports import import_block
from kgen.backends.source.module import module_text, require_free_names
from kgen.backends.source.names import host_names
from kgen.backends.source.one_text import one_view
from kgen.backends.source.operator import with_operator
from kgen.errors.backend import ElementTypeError
from kgen.ir.dtype import DType
from kgen.ir.program import Program
from kgen.planning.plan import Plan
from kgen.planning.plan_gemm import GemmPlan, gemm_plan
from kgen.render import Page, render
from kgen.spec.model import Spec
from kgen.target import Arch

_OUTPUTS = (DType.BF16, DType.FP16, DType.FP32, DType.INT32, DType.INT8, DType.UINT8, DType.FP8_E4M3, DType.FP8_E5M2)


def view_gemm(spec: Spec, programs: dict[str, Program], plan: Plan) -> Page:
    """Return the page of kernel.py. Raises an `UnsupportedError` for a plan that one file cannot hold."""
    gemm = gemm_plan(plan)
    program, arch = next(iter(programs.values())), plan.device.arch
    arguments = tuple(a.name for a in program.arguments)
    shown, names = host_names(arguments), device_names(arguments, arch)
    rules = gemm_rules(gemm)
    kernel = view_kernel(gemm, names, rules)
    host = render(f"{SHARED}/host.py.j2", host_view(gemm, programs, shown, names, rules))
    host = with_operator(host, spec.operator, programs, shown, arch)
    module = module_text(spec, program, shown)
    doc = describe(spec, programs, gemm, shown)
    view = replace(
        kernel,
        title=doc[0],
        doc=doc[1:],
        imports=import_block((*kernel.imports, *module.imports)),
        host=(*host.rstrip("\n").splitlines(), *module.lines),
    )
    made = ["Variant", "VARIANTS", *(c.constant for c in view.cases), *(f"rules_{r.load_path}" for r in view.rules)]
    own = (*kernel.imports, *view.constants, *(f"{name} = None" for name in made), *view.sections, host)
    require_free_names(module, spec.reference.file, own)
    return Page(f"{SHARED}/kernel.py.j2", view)


def view_kernel(plan: GemmPlan, names: dict[str, str], rules: dict[str, RulesView]) -> KernelView:
    """Return the view of one kernel without what stands around it: no docstring, imports unsorted, no host code.

    The plan has the variants of this kernel alone; `names` are those of device code. Raises `UnsupportedError`.
    """
    arch = plan.device.arch
    forms = {v.case: v.form for v in plan.variants}
    fused = {case: fused_tensors(form, names) for case, form in forms.items()}
    row_fields = fields_of(plan, tuple(f.name for f in next(iter(fused.values()))))
    return KernelView(
        title="",
        doc=(),
        imports=kernel_imports(),
        constants=_constants(plan, arch),
        fields=row_fields,
        cases=tuple(case_view(case, form, fused[case], row_fields) for case, form in forms.items()),
        rows=tuple(row_view(v, fused[v.case], row_fields) for v in plan.variants),
        rules=tuple(dict.fromkeys(rules.values())),
        sections=sections(plan, names, _one_view(plan, names, arch)),
        host=(),
    )


def _one_view(plan: GemmPlan, names: dict[str, str], arch: Arch) -> DeviceView:
    """Return the view of all variants: what their rows do not hold, such as offsets and numbers, is one text."""
    d = plan.variants[0].form.d
    if d.dtype not in _OUTPUTS:
        raise ElementTypeError(role="output", tensor=d.tensor, dtype=d.dtype, valid=", ".join(_OUTPUTS))
    return one_view(plan.name, ((v.case, device_view(v, names, arch), ()) for v in plan.variants))


def kernel_imports() -> tuple[str, ...]:
    """Return the import statements of a kernel of MFMAs."""
    return (
        "from dataclasses import dataclass",
        "from functools import cache",
        "from importlib.metadata import version",
        "from math import prod",
        "import flydsl.compiler as flyc",
        "import flydsl.expr as fx",
        "import torch",
    )


def _constants(plan: GemmPlan, arch: Arch) -> tuple[str, ...]:
    first, device = plan.variants[0], plan.device
    form, limits = first.form, dict(arch.limits)
    out = f"OUT = {memory_type(form.d.dtype, arch)}"
    acc = f"ACC = {memory_type(sum_dtype(form.mma_dtype), arch)}  # the type of the sums"
    shared = (
        f"WARP = {int(limits['warp_size'].value)}",
        f"XCDS = {int(device.value('quantities.dies'))}  # dies of the {device.name}, each with an L2 of its own",
        "OUTSIDE = 2**31  # bytes from a buffer's start to where none reaches: loads give 0 there, stores do nothing",
    )
    if not first.facts.k:
        return out, acc, *shared
    candidate = first.choice.candidate
    lane = candidate.number("inst_k") * candidate.number("mma") // 64
    chunk = 16 // form.mma_dtype.bytes
    return (
        f"IN = {in_type(first, arch)}  # MFMA's operand type",
        out,
        acc,
        *shared,
        "CHUNK = 16  # bytes of the widest access of a lane",
        f"LDS_LINE = {int(limits['smem_banks'].value) * 4}  # bytes of all banks of LDS",
        f"MFMA_LANE = {lane}  # elements of an operand that a lane gives one MFMA",
        f"FRAGMENT = {max(lane, chunk)}  # elements of a row that a lane reads at a time: whole chunks, whole MFMAs",
        *((f"BITS = fx.Int{form.mma_dtype.bits}  # of one element, to move it",) if _turns(plan) else ()),
    )


def _turns(plan: GemmPlan) -> bool:
    """Return whether a variant transposes in registers; ops before the product bring the text of both layouts."""
    return any(
        v.facts.input_ops or (v.load_path != "async" and "columns" in [layout for _, layout, _ in in_lds(v)])
        for v in plan.variants
    )
