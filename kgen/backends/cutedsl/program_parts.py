"""The kernels of a program as parts of one file: each family's own text of a kernel, under names that no other has."""

import ast
from dataclasses import dataclass, replace

from kgen.backends.cutedsl.expressions import library_names
from kgen.backends.cutedsl.gemm import operands_of, view_kernel
from kgen.backends.cutedsl.gemm_device import FOLDER as GEMM_FOLDER
from kgen.backends.cutedsl.gemm_host import passed_tensor, signature
from kgen.backends.cutedsl.gemm_rows import kind_of
from kgen.backends.cutedsl.gemm_types import passed_as_bytes
from kgen.backends.cutedsl.loop_dialect import CUTEDSL_LOOPS
from kgen.backends.cutedsl.loops import view_loops
from kgen.backends.loops.device import kernel_name
from kgen.backends.loops.host import argument, loop_signatures
from kgen.backends.loops.views import LoopFileView
from kgen.backends.source.file_text import allocated_tensors
from kgen.backends.source.statements import Statement, fitted, numbered, statements_of
from kgen.ir.graph import GraphInput, InputKind
from kgen.ir.problem import Problem
from kgen.ir.program import Program
from kgen.planning.plan import Plan
from kgen.planning.plan_gemm import GemmPlan, GemmVariant, gemm_plan
from kgen.planning.plan_loops import LoopVariant
from kgen.render import render
from kgen.spec.model import Spec

# One name has one meaning in a file: where loop kernels import it from, too.
_NEWER = {"from cutlass.utils import SmemAllocator": "from cutlass.memory import SmemAllocator"}


@dataclass(frozen=True, slots=True)
class PartVariant:
    """A variant: its launch function, its rules, what it is compiled for, and whether its grid follows the SMs."""

    name: str
    launch: str
    rules: str
    signature: tuple[str, ...]
    is_persistent: bool


@dataclass(frozen=True, slots=True)
class Part:
    """One kernel: its statements, the name of its table, its variants, and the arguments of its launch as expressions.

    `shared` are statements that it has in common with other kernels, `imports` what it needs imported.
    """

    kernel: str
    imports: tuple[str, ...]
    shared: tuple[Statement, ...]
    statements: tuple[Statement, ...]
    table: str
    variants: tuple[PartVariant, ...]
    arguments: tuple[str, ...]
    tensors: frozenset[str]  # that its launch takes


def parts_of(spec: Spec, programs: dict[str, Program], plan: Plan, shown: dict[str, str]) -> tuple[Part, ...]:
    """Return the kernels in launch order; `shown` are the names of tensors in the host function."""
    program = next(iter(programs.values()))
    loops = {v.kernel for v in plan.variants if isinstance(v, LoopVariant)}
    if loops:
        source = _LoopSource(spec, {c: _alone(p, loops) for c, p in programs.items()}, plan, shown)
    return tuple(
        source.part(number, problem)
        if problem.name in loops
        else _gemm_part(number, problem.name, programs, gemm_plan(plan), shown)
        for number, problem in enumerate(program.problems)
    )


def _alone(program: Program, kernels: set[str]) -> Program:
    """Return the program of some of the kernels: what others make is an argument, what these make a result."""
    problems = tuple(p for p in program.problems if p.name in kernels)
    stored = dict.fromkeys(t.name for p in problems for t in p.outputs)
    tensors = {t.name: t.type for p in program.problems for t in p.tensors}
    given = {a.name for a in program.arguments} | stored.keys()
    made = tuple(GraphInput(n, InputKind.USER, t) for n, t in tensors.items() if n not in given)
    return Program(program.name, (*program.arguments, *made), tuple(stored), problems)


def _gemm_part(number: int, kernel: str, programs: dict[str, Program], plan: GemmPlan, shown: dict[str, str]) -> Part:
    plan = replace(plan, variants=tuple(v for v in plan.variants if v.kernel == kernel))
    alone = {case: _alone(program, {kernel}) for case, program in programs.items()}
    first = next(iter(alone.values()))
    view, operands, d = view_kernel(plan, first), operands_of(plan, first), first.results[0]
    as_bytes = passed_as_bytes(plan.variants[0].form)
    library, text = library_names(), render(f"{GEMM_FOLDER}/kernel.py.j2", view)
    named = numbered([s for s in statements_of(text) if s.name not in library], number)
    made = frozenset(allocated_tensors(next(iter(programs.values()))))

    def variant(v: GemmVariant) -> PartVariant:
        kind, types = kind_of(v), signature(v, alone[v.case], shown, operands, made, shown[d])
        launch, rules = named[f"launch_{kind}"].name, named[f"rules_{kind}"].name
        return PartVariant(v.name, launch, rules, types.lines, is_persistent=v.load_path != "simt")

    return Part(
        kernel=kernel,
        imports=tuple(_NEWER.get(line, line) for line in view.imports),
        shared=(),
        statements=tuple(named.values()),
        table=named["VARIANTS"].name,
        variants=tuple(variant(v) for v in plan.variants),
        arguments=tuple(passed_tensor(shown[t], t in as_bytes) for t in (*operands, d)),
        tensors=frozenset((*operands, d)),
    )


class _LoopSource:
    """The text of all loop kernels of a program, of which each part takes its own."""

    def __init__(self, spec: Spec, programs: dict[str, Program], plan: Plan, shown: dict[str, str]) -> None:
        variants = tuple(v for v in plan.variants if isinstance(v, LoopVariant))
        bare = replace(spec, reference=replace(spec.reference, is_module=False))
        view = view_loops(bare, programs, replace(plan, variants=variants)).view
        assert isinstance(view, LoopFileView)
        self.view, self.shown = replace(view, imports=(), host=()), shown
        self.imports = tuple(ast.unparse(node) for node in ast.parse("\n".join(view.imports)).body)
        self.signatures = {s.variant: s.lines for s in loop_signatures(variants, programs, shown, CUTEDSL_LOOPS)}
        self.variants = {v.kernel: [o for o in variants if o.kernel == v.kernel] for v in variants}
        library, statements = library_names(), self.statements(self.view)
        self.found = {s.name: s for s in statements if s.name not in library}
        own = {name for kernel in self.variants for name in self.names(kernel)}
        self.shared = tuple(s for s in self.found.values() if s.name not in own and s.name != "VARIANTS")

    def statements(self, view: LoopFileView) -> tuple[Statement, ...]:
        """Return the statements of a file of loops."""
        return statements_of(fitted(render(f"{CUTEDSL_LOOPS.folder}/kernel.py.j2", view)))

    def names(self, kernel: str) -> tuple[str, ...]:
        """Return what belongs to one kernel: its rules, its device functions, its launch functions."""
        variants = self.variants[kernel]
        functions = dict.fromkeys(map(kernel_name, variants))
        return (*(f"rules_{v.name}" for v in variants), *functions, *(f"launch_{f}" for f in functions))

    def part(self, number: int, problem: Problem) -> Part:
        """Return the part of one kernel."""
        variants = self.variants[problem.name]
        names = {v.name for v in variants}
        rows = tuple(row for row in self.view.rows if row.name in names)
        (table,) = (s for s in self.statements(replace(self.view, rows=rows)) if s.name == "VARIANTS")
        (table,) = numbered([table], number).values()
        types = {t.name: t.type for t in problem.tensors}
        return Part(
            kernel=problem.name,
            imports=self.imports,
            shared=self.shared,
            statements=(table, *(self.found[name] for name in self.names(problem.name))),
            table=table.name,
            variants=tuple(
                PartVariant(v.name, f"launch_{kernel_name(v)}", f"rules_{v.name}", self.signatures[v.name], False)
                for v in variants
            ),
            arguments=tuple(argument(self.shown[t], type_, CUTEDSL_LOOPS) for t, type_ in types.items()),
            tensors=frozenset(types),
        )
