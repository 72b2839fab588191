"""HostView of a product on CDNA: what the host function accepts, and what it gives a launch."""

from kgen.backends.flydsl.elements import mfma_type, sum_dtype
from kgen.backends.flydsl.gemm_device import memory_type
from kgen.backends.flydsl.gemm_rows import kind_of
from kgen.backends.flydsl.gemm_views import HostView, PlanEntryView
from kgen.backends.source.file_text import base_alignment, plan_key
from kgen.backends.source.file_views import RulesView, ValueView
from kgen.backends.source.fused import fused_tensors
from kgen.backends.source.lines import Lines, bracketed, listed, tuple_text
from kgen.ir.dtype import DType
from kgen.ir.program import Program
from kgen.ir.tensor import TensorType
from kgen.planning.plan_gemm import GemmPlan, GemmVariant
from kgen.target import Arch


def host_view(
    plan: GemmPlan,
    programs: dict[str, Program],
    names: dict[str, str],
    device: dict[str, str],
    rules: dict[str, RulesView],
) -> HostView:
    """Return what the template of the host code prints; `names` are those of the host function, `device` of kernels."""
    program, arch = next(iter(programs.values())), plan.device.arch
    arguments = tuple(names[a.name] for a in program.arguments)
    guarded = dict.fromkeys(names[t] for v in plan.variants for t, _ in v.guard.base_align)
    kinds = tuple(dict.fromkeys(kind_of(v) for v in plan.variants))
    splits = any(kind.endswith("_split") for kind in kinds)
    pointers = pointer_types(plan.variants[0], device, splits, arch)
    return HostView(
        name=plan.name,
        isa=arch.isa,
        rules=tuple(ValueView(name, f"rules_{view.load_path}") for name, view in rules.items()),
        load_paths=kinds,
        pointers=bracketed("POINTERS = (", pointers, ",)" if len(pointers) == 1 else ")"),
        parts_note=", sums over parts of k, what the epilogue reads" if splits else ", what the epilogue reads",
        plan=tuple(_entry(case, program, plan) for case, program in programs.items()),
        head=bracketed("def kernel(", arguments, "):"),
        tensors=bracketed("tensors = [", arguments, "]", indent=4),
        first=arguments[0],
        bases=" | ".join(f"{name}.data_ptr()" for name in guarded) or f"{arguments[0]}.data_ptr()",
        out_type=arch.torch_name(plan.variants[0].form.d.dtype),
        result="(d,)" if program.returns_tuple else "d",
        may_be_empty=any(not _result(program).numel for program in programs.values()),
        call=_call(plan.variants[0], names, device, splits),
    )


def pointer_types(variant: GemmVariant, device: dict[str, str], splits: bool, arch: Arch) -> list[str]:
    """Return the element types of what a launch takes, in its order."""
    form = variant.form
    operands = [_operand_type(t.dtype, form.mma_dtype, arch) for t in (form.a, form.b)] if variant.facts.k else []
    sums = [memory_type(sum_dtype(form.mma_dtype), arch)] if splits else []
    fused = [memory_type(f.source.dtype, arch) for f in fused_tensors(form, device)]
    return [*operands, memory_type(form.d.dtype, arch), *sums, *fused]


def _operand_type(dtype: DType, product: DType, arch: Arch) -> str:
    return mfma_type(dtype, arch) if dtype is product else memory_type(dtype, arch)


def _entry(case: str, program: Program, plan: GemmPlan) -> PlanEntryView:
    result = _result(program)
    choices = [v for v in plan.variants if v.case == case] if result.numel else []
    return PlanEntryView(
        key=plan_key(program),
        accepted=accepted_types(program, plan.device.arch),
        result_shape=f"{tuple_text(result.static_shape)}",
        result_stride=tuple_text(result.strides),
        choices=listed("{", [f'"{v.name}": {base_alignment(v)}' for v in choices], "},"),
    )


def accepted_types(program: Program, arch: Arch) -> Lines:
    """Return types and strides of the arguments, as entries of PLAN have them."""
    accepted = [f"({arch.torch_name(a.type.dtype)}, {tuple_text(a.type.strides)})" for a in program.arguments]
    return bracketed("(", accepted, ",)," if len(accepted) == 1 else "),", indent=8)


def taken_tensors(variant: GemmVariant, device: dict[str, str]) -> tuple[Lines, Lines]:
    """Return the tensors that a launch takes before D, and those that it takes last, which the epilogue reads."""
    form = variant.form
    operands = (form.a.tensor, form.b.tensor) if variant.facts.k else ()
    return operands, tuple(f.source.tensor for f in fused_tensors(form, device))


def _call(variant: GemmVariant, names: dict[str, str], device: dict[str, str], splits: bool) -> Lines:
    """Return the statements that launch a variant on the current stream."""
    form, (operands, fused) = variant.form, taken_tensors(variant, device)
    tensors = [*(names[t] for t in operands), "d", *(["parts"] if splits else []), *(names[t] for t in fused)]
    parts = [
        "v = next(v for v in VARIANTS if v.name == name)",
        "sums = v.split_k * v.m * v.n * prod(v.batch) if v.split_k > 1 else 1",
        f"parts = torch.empty(sums, dtype={sum_dtype(form.mma_dtype).torch_name}, device=device)",
    ]
    return (
        "with torch.cuda.device(device):",
        *(f"    {line}" for line in parts if splits),
        *(f"    {line}" for line in bracketed("taken = (", tensors, ",)" if len(tensors) == 1 else ")", indent=8)),
        "    pointers = [flyc.from_c_void_p(dtype, t.data_ptr()) for dtype, t in zip(POINTERS, taken, strict=True)]",
        "    compiled(name, device.index)(*pointers, fx.Stream(torch.cuda.current_stream().cuda_stream))",
    )


def _result(program: Program) -> TensorType:
    return program.problems[-1].tensor(program.results[0]).type
