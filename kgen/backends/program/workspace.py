"""What a kernel leaves to the kernels of its own launch: tensors that the host function makes beside the program's."""

from collections.abc import Mapping
from dataclasses import replace

from kgen.ir.program import Buffer, Program
from kgen.planning.plan import Plan
from kgen.planning.plan_attention import AttentionVariant

Names = Mapping[str, tuple[str, ...]]  # of each kernel that has any


def workspace_names(programs: Mapping[str, Program], plan: Plan) -> Names:
    """Return names for the parts that split keys leave, which no tensor of the program has."""
    taken = {t.name for program in programs.values() for p in program.problems for t in p.tensors}
    taken |= {a.name for program in programs.values() for a in program.arguments}
    found: dict[str, tuple[str, ...]] = {}
    for variant in plan.variants:
        if isinstance(variant, AttentionVariant) and variant.combined and variant.kernel not in found:
            names = []
            for name in ("parts", "sums"):
                while name in taken:
                    name += "_"
                taken.add(name)
                names.append(name)
            found[variant.kernel] = tuple(names)
    return found


def with_workspace(programs: Mapping[str, Program], plan: Plan, names: Names) -> dict[str, Program]:
    """Return the programs with these tensors among their buffers."""
    return {case: replace(p, buffers=(*p.buffers, *_buffers(case, plan, names))) for case, p in programs.items()}


def _buffers(case: str, plan: Plan, names: Names) -> tuple[Buffer, ...]:
    own = (v for v in plan.variants if v.case == case and isinstance(v, AttentionVariant) and v.kernel in names)
    return tuple(Buffer(name, type_) for v in own for name, type_ in zip(names[v.kernel], v.parts, strict=True))
