"""ProgramHostView: what each variant is compiled for, and how the host function makes tensors and launches kernels."""

from kgen.backends.cutedsl.program_parts import Part
from kgen.backends.cutedsl.program_views import EntryView, ProgramCaseView, ProgramHostView
from kgen.backends.source.file_text import (
    allocation_shapes,
    allocations,
    choices,
    plan_key,
    returned,
    unread_arguments,
)
from kgen.backends.source.lines import Lines, bracketed, listed, tuple_text
from kgen.ir.program import Program
from kgen.planning.plan import Plan


def program_host_view(
    plan: Plan, programs: dict[str, Program], parts: tuple[Part, ...], shown: dict[str, str]
) -> ProgramHostView:
    """Return what the template of the host code prints; `shown` are the names of all tensors."""
    program = next(iter(programs.values()))
    arguments = tuple(shown[a.name] for a in program.arguments)
    variants = tuple(v for part in parts for v in part.variants)
    return ProgramHostView(
        name=plan.name,
        tables=listed("VARIANTS = (", [f"*{part.table}" for part in parts], ")"),
        signatures=tuple(EntryView(v.name, v.signature) for v in variants),
        launches=tuple(f'"{v.name}": {v.launch},' for v in variants),
        rules=tuple(f'"{v.name}": {v.rules},' for v in variants),
        persistent=bracketed("PERSISTENT = [", [f'"{v.name}"' for v in variants if v.is_persistent], "]"),
        accepts=tuple(EntryView(case, _arguments(found, shown)) for case, found in programs.items()),
        cases=tuple(_case(case, found, plan) for case, found in programs.items()),
        parameters=arguments,
        first=arguments[0],
        unread=unread_arguments(program, shown, frozenset(t for part in parts for t in part.tensors)),
        allocations=allocations(program, shown),
        calls=tuple(_call(i, part, plan, program, shown) for i, part in enumerate(parts)),
        result=returned(program, shown),
        may_be_empty=any(v.form.is_empty for v in plan.variants),
    )


def _arguments(program: Program, shown: dict[str, str]) -> Lines:
    return tuple(f'"{shown[a.name]} {a.type}",' for a in program.arguments)


def _case(case: str, program: Program, plan: Plan) -> ProgramCaseView:
    shapes = allocation_shapes(program)
    launches = [choices(plan.variants_of(case, problem.name)) for problem in program.problems]
    return ProgramCaseView(
        key=plan_key(program),
        allocations=(f"{tuple_text(shapes)},",) if len(shapes) == 1 else listed("(", shapes, "),"),
        launches=listed("(", launches, "),"),
    )


def _call(index: int, part: Part, plan: Plan, program: Program, shown: dict[str, str]) -> Lines:
    """Return the launch of a kernel; what the host function makes itself is aligned and guards nothing."""
    given = {a.name for a in program.arguments} & part.tensors
    guarded = dict.fromkeys(t for v in plan.variants if v.kernel == part.kernel for t, _ in v.guard.base_align)
    bases = " | ".join(f"{shown[t]}.data_ptr()" for t in guarded if t in given) or "0"
    return bracketed("run(", (f"launches[{index}]", "device", bases, *part.arguments), ")", indent=12)
