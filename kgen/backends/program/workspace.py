"""What a kernel leaves to the kernels of its own launch: tensors that the host function makes beside the program's."""

from collections.abc import Iterable, Mapping
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
    for kernel in dict.fromkeys(v.kernel for v in plan.variants):
        names = []
        for name in _largest(v for v in plan.variants if v.kernel == kernel):
            while name in taken:
                name += "_"
            taken.add(name)
            names.append(name)
        if names:
            found[kernel] = tuple(names)
    return found


def workspace_types(variants: Iterable[Variant], case: str) -> dict[str, TensorType]:
    """Return what the launches of one kernel are given in a case: room for any of its variants there.

    What only other cases need is one element long.
    """
    found = tuple(variants)
    here = _largest(v for v in found if v.case == case)
    return {name: here.get(name, replace(type_, shape=(1,))) for name, type_ in _largest(found).items()}


def _largest(variants: Iterable[Variant]) -> dict[str, TensorType]:
    found: dict[str, TensorType] = {}
    for variant in variants:
        for name, type_ in _own(variant).items():
            if name not in found or found[name].numel < type_.numel:
                found[name] = type_
    return found


def _own(variant: Variant) -> dict[str, TensorType]:
    """Return what one variant needs: parts that split keys or split k leave; planes of operands, and their rows'."""
    return dict(variant.workspace) if isinstance(variant, AttentionVariant | GemmVariant) else {}


def with_workspace(programs: Mapping[str, Program], plan: Plan, names: Names) -> dict[str, Program]:
    """Return the programs with these tensors among their buffers."""
    return {case: replace(p, buffers=(*p.buffers, *_buffers(case, plan, names))) for case, p in programs.items()}


def _buffers(case: str, plan: Plan, names: Names) -> tuple[Buffer, ...]:
    types = {kernel: workspace_types((v for v in plan.variants if v.kernel == kernel), case) for kernel in names}
    return tuple(
        Buffer(name, type_)
        for kernel, found in types.items()
        for name, type_ in zip(names[kernel], found.values(), strict=True)
    )
