"""What a kernel leaves to the kernels of its own launch: tensors that the host function makes beside the program's."""

from collections.abc import Mapping
from dataclasses import replace

from kgen.ir.program import Buffer, Program
from kgen.ir.tensor import TensorType
from kgen.planning.plan import Plan, Variant
from kgen.planning.plan_attention import AttentionVariant
from kgen.planning.plan_gemm import GemmVariant

Names = Mapping[str, tuple[str, ...]]  # of each kernel that has any


def workspace_names(programs: Mapping[str, Program], plan: Plan) -> Names:
    """Return names for what kernels leave to themselves, which no tensor of the program has."""
    taken = {t.name for program in programs.values() for p in program.problems for t in p.tensors}
    taken |= {a.name for program in programs.values() for a in program.arguments}
    found: dict[str, tuple[str, ...]] = {}
    for variant in plan.variants:
        if (wanted := _wanted(variant)) and variant.kernel not in found:
            names = []
            for name in wanted:
                while name in taken:
                    name += "_"
                taken.add(name)
                names.append(name)
            found[variant.kernel] = tuple(names)
    return found


def _wanted(variant: Variant) -> tuple[str, ...]:
    """Return what the tensors are: an attention's; planes of operands, and what holds of their rows."""
    if isinstance(variant, AttentionVariant):
        return tuple(variant.workspace)
    return ("planes", "rows") if isinstance(variant, GemmVariant) and variant.workspace else ()


def _types(variant: Variant) -> tuple[TensorType, ...]:
    if isinstance(variant, AttentionVariant):
        return tuple(variant.workspace.values())
    return variant.workspace if isinstance(variant, GemmVariant) else ()


def with_workspace(programs: Mapping[str, Program], plan: Plan, names: Names) -> dict[str, Program]:
    """Return the programs with these tensors among their buffers."""
    return {case: replace(p, buffers=(*p.buffers, *_buffers(case, plan, names))) for case, p in programs.items()}


def _buffers(case: str, plan: Plan, names: Names) -> tuple[Buffer, ...]:
    own = {v.kernel: v for v in reversed(plan.variants) if v.case == case and v.kernel in names}
    return tuple(
        Buffer(name, type_) for kernel in names for name, type_ in zip(names[kernel], _types(own[kernel]), strict=True)
    )
