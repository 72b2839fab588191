"""LoopHostView: what each variant is compiled for, and how the host function makes tensors and launches the kernels."""

from kgen.backends.cutedsl.expressions import memory
from kgen.backends.cutedsl.gemm_rows import tuple_text
from kgen.backends.cutedsl.gemm_views import UnreadView, ValueView
from kgen.backends.cutedsl.lines import LINE, bracketed, listed
from kgen.backends.cutedsl.loop_body import Lines
from kgen.backends.cutedsl.loop_device import FP8, kernel_name, tensors_of
from kgen.backends.cutedsl.loop_views import LoopCaseView, LoopHostView, LoopSignatureView
from kgen.families.strided.facts import MAX_ACCESS_BYTES
from kgen.ir.dtype import DType
from kgen.ir.problem import Problem, TensorRole
from kgen.ir.program import Program
from kgen.ir.tensor import TensorType
from kgen.planning.plan_loops import LoopVariant

_KEY_LINE = 100  # a longer key has a line for each shape


def loop_host_view(
    name: str, variants: tuple[LoopVariant, ...], programs: dict[str, Program], names: dict[str, str]
) -> LoopHostView:
    """Return what the template of the host code prints."""
    program = next(iter(programs.values()))
    arguments = tuple(names[a.name] for a in program.arguments)
    used = {t.name for p in program.problems for t in p.tensors}
    made = made_tensors(program)
    results = [names[r] for r in program.results]
    return LoopHostView(
        name=name,
        signatures=tuple(_signature(v, _problem(v, programs), names) for v in variants),
        cases=tuple(_case(case, program, variants, names) for case, program in programs.items()),
        parameters=arguments,
        first=arguments[0],
        unread=tuple(
            UnreadView(names[a.name], a.type.dtype.torch_name) for a in program.arguments if a.name not in used
        ),
        made=tuple(
            f"{names[t]} = torch.empty_strided(*made[{i}], dtype={type_.dtype.torch_name}, device=device)"
            for i, (t, type_) in enumerate(made.items())
        ),
        calls=tuple(_call(i, p, variants, names) for i, p in enumerate(program.problems)),
        result=f"({', '.join(results)}{',' if len(results) == 1 else ''})" if program.returns_tuple else results[0],
        launches=tuple(dict.fromkeys(f"launch_{kernel_name(v)}" for v in variants)),
        rules=tuple(ValueView(v.name, f"rules_{v.name}") for v in variants),
        may_be_empty=any(v.form.is_empty for v in variants),
    )


def made_tensors(program: Program) -> dict[str, TensorType]:
    """Return the tensors that the host function allocates: results, then buffers."""
    outputs = {t.name: t.type for p in program.problems for t in p.tensors if t.role is TensorRole.OUTPUT}
    buffers = {b.name: b.type for b in program.buffers}
    return {**{n: t for n, t in outputs.items() if n not in buffers}, **buffers}


def _problem(variant: LoopVariant, programs: dict[str, Program]) -> Problem:
    return next(p for p in programs[variant.case].problems if p.name == variant.kernel)


def _signature(variant: LoopVariant, problem: Problem, names: dict[str, str]) -> LoopSignatureView:
    aligned = dict(variant.guard.base_align)
    lines: list[str] = []
    for t in problem.tensors:
        align = max(aligned.get(t.name, 1), t.type.dtype.bytes, variant.base_align if t.name in aligned else 1)
        lines += _tensor(names[t.name], t.type, align)
    return LoopSignatureView(variant.name, tuple(lines))


def _tensor(name: str, type_: TensorType, align: int) -> Lines:
    """Return the entry of one tensor. The DSL has no extent of 0; a variant that never runs is compiled for 1."""
    element = "cutlass.Uint8" if type_.dtype in FP8 else memory(type_.dtype)
    shape = tuple_text(tuple(max(extent, 1) for extent in type_.static_shape))
    items = (element, shape, tuple_text(type_.strides), str(align))
    line = f"({', '.join(items)}),  # {name}"
    return (line,) if len(line) <= LINE - 8 else (f"# {name}", *bracketed("(", items, "),", indent=8))


def _case(case: str, program: Program, variants: tuple[LoopVariant, ...], names: dict[str, str]) -> LoopCaseView:
    shapes = [tuple_text(a.type.static_shape) for a in program.arguments]
    key = f"({', '.join(shapes)}{',' if len(shapes) == 1 else ''}): ("
    made = [f"({tuple_text(t.static_shape)}, {tuple_text(t.strides)})" for t in made_tensors(program).values()]
    launches: list[str] = []
    for problem in program.problems:
        found = [v for v in variants if (v.case, v.kernel) == (case, problem.name) and not v.form.is_empty]
        entries = ", ".join(f'"{v.name}": {MAX_ACCESS_BYTES if v.guard.base_align else 1}' for v in found)
        launches.append(f"{{{entries}}}")
    return LoopCaseView(
        key=(key,) if len(key) <= _KEY_LINE else listed("(", shapes, "): ("),
        made=listed("[", made, "],"),
        launches=listed("[", launches, "],"),
    )


def _call(index: int, problem: Problem, variants: tuple[LoopVariant, ...], names: dict[str, str]) -> Lines:
    guarded = dict.fromkeys(t for v in variants if v.kernel == problem.name for t, _ in v.guard.base_align)
    types = {t.name: t.type for t in problem.tensors}
    bases = " | ".join(f"{names[t]}.data_ptr()" for t in guarded if t in types) or "0"
    arguments = [_argument(names[t], types[t]) for t in tensors_of(problem)]
    return bracketed("run(", (f"launches[{index}]", "device", bases, *arguments), ")", indent=12)


def _argument(name: str, type_: TensorType) -> str:
    return f"{name}.view(torch.uint8)" if type_.dtype in FP8 or type_.dtype is DType.BOOL else name
