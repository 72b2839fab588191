"""LoopHostView: what each variant is compiled for, and how the host function makes tensors and launches the kernels."""

from kgen.backends.loops.device import DeviceText, problem_of, tensors_of
from kgen.backends.loops.dialect import LoopDialect
from kgen.backends.loops.views import LoopCaseView, LoopHostView, LoopSignatureView
from kgen.backends.source.file_text import (
    allocation_shapes,
    allocations,
    choices,
    plan_key,
    returned,
    signature_entry,
    unread_arguments,
)
from kgen.backends.source.lines import Lines, bracketed, listed
from kgen.families.strided.facts import MAX_ACCESS_BYTES
from kgen.ir.dtype import DType
from kgen.ir.problem import Problem, ProblemTensor
from kgen.ir.program import Program
from kgen.ir.tensor import TensorType
from kgen.planning.plan import Plan
from kgen.planning.plan_loops import LoopVariant, loop_variants

_BYTES = (DType.FP8_E4M3, DType.FP8_E5M2, DType.BOOL)  # passed as bytes


def loop_host_view(
    plan: Plan,
    devices: dict[str, DeviceText],
    programs: dict[str, Program],
    names: dict[str, str],
    dialect: LoopDialect,
) -> LoopHostView:
    """Return what the template of the host code prints; `devices` are the device functions, by variant."""
    variants, program = loop_variants(plan), next(iter(programs.values()))
    arguments = tuple(names[a.name] for a in program.arguments)
    read = frozenset(t.name for p in program.problems for t in p.tensors)
    return LoopHostView(
        name=plan.name,
        signatures=loop_signatures(variants, programs, names, dialect),
        cases=tuple(_case(case, program, variants) for case, program in programs.items()),
        head=bracketed("def kernel(", arguments, "):"),
        tensors=bracketed("tensors = [", arguments, "]", indent=4),
        first=arguments[0],
        unread=unread_arguments(program, names, read, dialect.torch_type),
        allocations=allocations(program, names, dialect.torch_type),
        calls=tuple(_call(i, p, variants, names, dialect) for i, p in enumerate(program.problems)),
        result=returned(program, names),
        launches=tuple(dict.fromkeys(devices[v.name].launch for v in variants)),
        rules=tuple(f'"{v.name}": rules_{v.name},' for v in variants),
        may_be_empty=any(v.form.is_empty for v in variants),
    )


def loop_signatures(
    variants: tuple[LoopVariant, ...], programs: dict[str, Program], names: dict[str, str], dialect: LoopDialect
) -> tuple[LoopSignatureView, ...]:
    """Return what each variant is compiled for."""
    return tuple(_signature(v, problem_of(v, programs), names, dialect) for v in variants)


def argument(name: str, type_: TensorType, dialect: LoopDialect) -> str:
    """Return what the host function passes for a tensor: bools and fp8 arrive as bytes."""
    code = f"{name}.view(torch.uint8)" if type_.dtype in _BYTES else name
    return code if type_.shape or dialect.has_scalars else f"{code}.view(1)"


def _passed(type_: TensorType, dialect: LoopDialect) -> TensorType:
    """Return the type of what the host function passes for a tensor."""
    return type_ if type_.shape or dialect.has_scalars else TensorType.contiguous(type_.dtype, (1,))


def _signature(
    variant: LoopVariant, problem: Problem, names: dict[str, str], dialect: LoopDialect
) -> LoopSignatureView:
    lines: list[str] = []
    for t in problem.tensors:
        element, passed = dialect.signature_type(t.type.dtype), _passed(t.type, dialect)
        lines += signature_entry(names[t.name], element, passed, _base_align(t, variant))
    return LoopSignatureView(variant.name, tuple(lines))


def _base_align(tensor: ProblemTensor, variant: LoopVariant) -> int:
    """Return the bytes that a base address is known to be a multiple of; torch aligns what the host function makes."""
    if tensor.name not in variant.form.given:
        return MAX_ACCESS_BYTES
    return max(dict(variant.guard.base_align).get(tensor.name, 1), tensor.type.dtype.bytes)


def _case(case: str, program: Program, variants: tuple[LoopVariant, ...]) -> LoopCaseView:
    of_case = [v for v in variants if v.case == case]
    launches = [choices(v for v in of_case if v.kernel == problem.name) for problem in program.problems]
    return LoopCaseView(
        key=plan_key(program),
        allocations=listed("[", allocation_shapes(program), "],"),
        launches=listed("[", launches, "],"),
    )


def _call(
    index: int, problem: Problem, variants: tuple[LoopVariant, ...], names: dict[str, str], dialect: LoopDialect
) -> Lines:
    guarded = dict.fromkeys(t for v in variants if v.kernel == problem.name for t, _ in v.guard.base_align)
    types = {t.name: t.type for t in problem.tensors}
    bases = " | ".join(f"{names[t]}.data_ptr()" for t in guarded if t in types) or "0"
    arguments = [argument(names[t], types[t], dialect) for t in tensors_of(problem)]
    return bracketed("run(", (f"launches[{index}]", "device", bases, *arguments), ")", indent=12)
