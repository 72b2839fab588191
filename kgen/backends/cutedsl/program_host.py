"""ProgramHostView: what each variant is compiled for, and how the host function makes tensors and launches kernels."""

from kgen.backends.cutedsl.gemm_rows import tuple_text
from kgen.backends.cutedsl.gemm_views import UnreadView
from kgen.backends.cutedsl.lines import bracketed, listed
from kgen.backends.cutedsl.loop_host import made_tensors
from kgen.backends.cutedsl.program_parts import Part
from kgen.backends.cutedsl.program_views import EntryView, Lines, ProgramCaseView, ProgramHostView
from kgen.ir.program import Program
from kgen.ir.tensor import TensorType
from kgen.planning.plan import Plan, Variant

_KEY_LINE = 100  # a longer key has a line for each shape


def program_host_view(
    plan: Plan, programs: dict[str, Program], parts: tuple[Part, ...], shown: dict[str, str]
) -> ProgramHostView:
    """Return what the template of the host code prints; `shown` are the names of all tensors."""
    program = next(iter(programs.values()))
    arguments = tuple(shown[a.name] for a in program.arguments)
    results = [shown[r] for r in program.results]
    variants = tuple(v for part in parts for v in part.variants)
    taken = frozenset(t for part in parts for t in part.taken)
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
        unread=tuple(
            UnreadView(shown[a.name], a.type.dtype.torch_name) for a in program.arguments if a.name not in taken
        ),
        made=tuple(
            f"{shown[t]} = torch.empty_strided(*made[{i}], dtype={type_.dtype.torch_name}, device=device)"
            for i, (t, type_) in enumerate(made_tensors(program).items())
        ),
        calls=tuple(_call(i, part, plan, program, shown) for i, part in enumerate(parts)),
        result=f"({', '.join(results)}{',' if len(results) == 1 else ''})" if program.returns_tuple else results[0],
        may_be_empty=any(v.form.is_empty for v in plan.variants),
    )


def _arguments(program: Program, shown: dict[str, str]) -> Lines:
    return tuple(f'"{shown[a.name]} {a.type}",' for a in program.arguments)


def _case(case: str, program: Program, plan: Plan) -> ProgramCaseView:
    shapes = [tuple_text(a.type.static_shape) for a in program.arguments]
    key = f"({', '.join(shapes)}{',' if len(shapes) == 1 else ''}): ("
    made = [_made(type_) for type_ in made_tensors(program).values()]
    launches = [_choices(plan.variants_of(case, problem.name)) for problem in program.problems]
    return ProgramCaseView(
        key=(key,) if len(key) <= _KEY_LINE else listed("(", shapes, "): ("),
        made=(f"({made[0]},),",) if len(made) == 1 else listed("(", made, "),"),
        launches=listed("(", launches, "),"),
    )


def _made(type_: TensorType) -> str:
    return f"({tuple_text(type_.static_shape)}, {tuple_text(type_.strides)})"


def _choices(variants: tuple[Variant, ...]) -> str:
    """Return the variants of a kernel with the base alignment they need; none where it writes nothing."""
    found = [v for v in variants if not v.form.is_empty]
    aligned = [max((count for _, count in v.guard.base_align), default=1) for v in found]
    entries = [f'"{v.name}": {count}' for v, count in zip(found, aligned, strict=True)]
    return f"{{{', '.join(entries)}}}"


def _call(index: int, part: Part, plan: Plan, program: Program, shown: dict[str, str]) -> Lines:
    """Return the launch of a kernel; what the host function makes itself is aligned and guards nothing."""
    given = {a.name for a in program.arguments} & part.taken
    guarded = dict.fromkeys(t for v in plan.variants if v.kernel == part.kernel for t, _ in v.guard.base_align)
    bases = " | ".join(f"{shown[t]}.data_ptr()" for t in guarded if t in given) or "0"
    return bracketed("run(", (f"launches[{index}]", "device", bases, *part.arguments), ")", indent=12)
