"""The kernels of a program as parts of one file: each family's own text of a kernel, under names that no other has."""

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from kgen.backends.loops.device import device_texts
from kgen.backends.loops.file import loops_page
from kgen.backends.loops.host import argument, loop_signatures
from kgen.backends.loops.views import LoopFileView
from kgen.backends.program.dialect import Part, PartVariant, PlanT, Product, ProductSource, ProgramDialect
from kgen.backends.program.workspace import Names
from kgen.backends.source.file_text import allocated_tensors
from kgen.backends.source.statements import Statement, fitted, numbered, statements_of
from kgen.ir.graph import GraphInput, InputKind
from kgen.ir.problem import Problem
from kgen.ir.program import Program
from kgen.planning.plan import Plan
from kgen.planning.plan_attention import attention_plan
from kgen.planning.plan_gemm import gemm_plan
from kgen.planning.plan_loops import loop_variants
from kgen.render import render
from kgen.spec.model import Spec


def parts_of(
    dialect: ProgramDialect,
    spec: Spec,
    programs: dict[str, Program],
    plan: Plan,
    shown: dict[str, str],
    workspace: Names,
) -> tuple[Part, ...]:
    """Return the kernels in launch order; `shown` are the names of tensors in the host function.

    `workspace` are the tensors that a kernel writes and reads itself.
    """
    program = next(iter(programs.values()))
    loops = {v.kernel for v in loop_variants(plan)}
    if loops:
        source = _LoopSource(dialect, spec, {c: _alone(p, loops) for c, p in programs.items()}, plan, shown)
    attentions = {v.kernel for v in attention_plan(plan).variants}
    products = _Products(programs, plan, shown, workspace)
    parts: list[Part] = []
    for number, problem in enumerate(program.problems):
        own = number if len(program.problems) > 1 else None
        if problem.name in loops:
            parts.append(source.part(number, problem))
        elif problem.name in attentions:
            assert dialect.attention is not None  # the registry gives attentions to dialects that print them
            parts.append(
                _part_of(dialect, dialect.attention(products.source(number, attention_plan)), problem.name, own)
            )
        else:
            parts.append(_part_of(dialect, dialect.product(products.source(number, gemm_plan)), problem.name, own))
    return tuple(parts)


def _alone(program: Program, kernels: set[str]) -> Program:
    """Return the program of some of the kernels: what others make is an argument, what these make a result."""
    problems = tuple(p for p in program.problems if p.name in kernels)
    stored = dict.fromkeys(t.name for p in problems for t in p.outputs)
    tensors = {t.name: t.type for p in program.problems for t in p.tensors}
    given = {a.name for a in program.arguments} | stored.keys()
    made = tuple(GraphInput(n, InputKind.USER, t) for n, t in tensors.items() if n not in given)
    return Program(program.name, (*program.arguments, *made), tuple(stored), problems)


@dataclass(frozen=True, slots=True)
class _Products:
    """What products and attentions are made of: the programs and the plan of all kernels, and the names of tensors."""

    programs: Mapping[str, Program]
    plan: Plan
    shown: Mapping[str, str]
    workspace: Names

    def source(self, number: int, narrow: Callable[[Plan], PlanT]) -> ProductSource[PlanT]:
        """Return one kernel alone; `narrow` gives the plan of its family."""
        first, family = next(iter(self.programs.values())), narrow(self.plan)
        kernel = first.problems[number].name
        return ProductSource(
            number=number,
            plan=replace(family, variants=tuple(v for v in family.variants if v.kernel == kernel)),
            programs={case: _alone(program, {kernel}) for case, program in self.programs.items()},
            shown=self.shown,
            made=frozenset(allocated_tensors(first)),
            workspace=self.workspace.get(kernel, ()),
        )


def _part_of(dialect: ProgramDialect, product: Product, kernel: str, number: int | None) -> Part:
    """Return a part whose names have its number; alone in its file (None) it keeps them."""
    library, text = dialect.loops.values.library_names(), render(product.template, product.view)
    statements = [s for s in statements_of(text) if s.name not in library]
    named = {s.name: s for s in statements} if number is None else numbered(statements, number)
    return Part(
        kernel=kernel,
        is_product=True,
        imports=tuple(dialect.newer.get(line, line) for line in product.view.imports),
        shared=(),
        statements=tuple(named.values()),
        table=named["VARIANTS"].name,
        variants=tuple(replace(v, launch=named[v.launch].name, rules=named[v.rules].name) for v in product.variants),
        arguments=product.arguments,
        tensors=product.tensors,
    )


class _LoopSource:
    """The text of all loop kernels of a program, of which each part takes its own."""

    def __init__(
        self, dialect: ProgramDialect, spec: Spec, programs: dict[str, Program], plan: Plan, shown: dict[str, str]
    ) -> None:
        self.loops, self.shown = dialect.loops, shown
        variants = loop_variants(plan)
        bare = replace(spec, reference=replace(spec.reference, is_module=False))
        view = loops_page(self.loops, bare, programs, replace(plan, variants=variants)).view
        assert isinstance(view, LoopFileView)
        self.view = replace(view, imports=(), host=())
        self.imports = tuple(ast.unparse(node) for node in ast.parse("\n".join(view.imports)).body)
        self.signatures = {s.variant: s.lines for s in loop_signatures(variants, programs, shown, self.loops)}
        self.devices = device_texts(variants, programs, shown, self.loops)
        self.variants = {v.kernel: [o for o in variants if o.kernel == v.kernel] for v in variants}
        library, statements = self.loops.values.library_names(), self.statements(self.view)
        self.found = {s.name: s for s in statements if s.name not in library}
        own = {name for kernel in self.variants for name in self.names(kernel)}
        self.shared = tuple(s for s in self.found.values() if s.name not in own and s.name != "VARIANTS")

    def statements(self, view: LoopFileView) -> tuple[Statement, ...]:
        """Return the statements of a file of loops."""
        return statements_of(fitted(render(f"{self.loops.folder}/kernel.py.j2", view)))

    def names(self, kernel: str) -> tuple[str, ...]:
        """Return what belongs to one kernel: its rules, its device functions, its launch functions."""
        variants = self.variants[kernel]
        devices = [self.devices[v.name] for v in variants]
        functions = dict.fromkeys((*(d.name for d in devices), *(d.launch for d in devices)))
        return (*(f"rules_{v.name}" for v in variants), *functions)

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
            is_product=False,
            imports=self.imports,
            shared=self.shared,
            statements=(table, *(self.found[name] for name in self.names(problem.name))),
            table=table.name,
            variants=tuple(
                PartVariant(v.name, self.devices[v.name].launch, f"rules_{v.name}", self.signatures[v.name])
                for v in variants
            ),
            arguments=tuple(argument(self.shown[t], type_, self.loops) for t, type_ in types.items()),
            tensors=frozenset(types),
        )
