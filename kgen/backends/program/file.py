"""Plan -> ProgramFileView: one kernel.py of several kernels, matrix products and loops, in the words of a dialect.

Every kernel is printed by its family, as in a file of its own; here their texts become parts of one file, in which all
names are distinct, what they share stands once, and one host function launches them in order.
"""

from itertools import zip_longest

from kgen.backends.program.dialect import HostSource, Part, ProgramDialect
from kgen.backends.program.parts import parts_of
from kgen.backends.program.views import PartView, ProgramFileView
from kgen.backends.program.words import describe_program
from kgen.backends.program.workspace import with_workspace, workspace_names
from kgen.backends.source.imports import import_block
from kgen.backends.source.module import module_text, require_free_names
from kgen.backends.source.names import host_names
from kgen.backends.source.operator import with_operator
from kgen.backends.source.statements import Statement, joined, statements_of
from kgen.errors.backend import CasesDifferError, MixedKernelsError
from kgen.ir.problem import Problem, TensorRole
from kgen.ir.program import Program
from kgen.planning.plan import Plan
from kgen.render import Page
from kgen.spec.model import Spec


def program_page(dialect: ProgramDialect, spec: Spec, programs: dict[str, Program], plan: Plan) -> Page:
    """Return the page of kernel.py. Raises an `UnsupportedError` for a plan that one file cannot hold."""
    _require_same_kernels(programs, plan)
    workspace = workspace_names(programs, plan)
    programs = with_workspace(programs, plan, workspace)
    program = next(iter(programs.values()))
    tensors = (*(a.name for a in program.arguments), *(t.name for p in program.problems for t in p.tensors))
    shown = host_names(tuple(dict.fromkeys((*tensors, *(name for names in workspace.values() for name in names)))))
    parts = parts_of(dialect, spec, programs, plan, shown, workspace)
    host = dialect.host(HostSource(plan, programs, parts, shown))
    host = with_operator(host, spec.operator, programs, shown, plan.device.arch)
    module = module_text(spec, program, shown)
    doc = describe_program(dialect, spec, programs, plan, shown)
    imports = tuple(dict.fromkeys(line for part in parts for line in part.imports))
    shared = _shared(dialect, parts)
    own = [
        _part(number, problem, part) for number, (problem, part) in enumerate(zip(program.problems, parts, strict=True))
    ]
    found = (*([PartView(("What the kernels share.",), joined(shared))] if shared else []), *own)
    view = ProgramFileView(
        title=doc[0],
        doc=doc[1:],
        imports=import_block((*imports, *module.imports)),
        parts=found,
        titled=len(own) > 1,
        host=(*host.rstrip("\n").splitlines(), *module.lines),
    )
    require_free_names(module, spec.reference.file, (*imports, *(p.text for p in view.parts), host))
    return Page(f"{dialect.folder}/kernel.py.j2", view)


def _shared(dialect: ProgramDialect, parts: tuple[Part, ...]) -> tuple[Statement, ...]:
    """Return what kernels share: constants and classes, library functions that any of them calls, and the rest."""
    found = {s.name: s for part in parts for s in part.shared}
    texts = [s.text for part in parts for s in (*part.shared, *part.statements)]
    library = statements_of("\n\n\n".join(dialect.loops.values.library_source(["\n".join(texts)])))
    head = [s for s in found.values() if not s.is_block]
    classes = [s for s in found.values() if s.is_block and "\nclass " in f"\n{s.text}"]
    rest = [s for s in found.values() if s not in head and s not in classes]
    return (*head, *classes, *library, *rest)


def _part(number: int, problem: Problem, part: Part) -> PartView:
    made = ", ".join(t.name for t in problem.outputs)
    read = ", ".join(t.name for t in problem.tensors if t.role is not TensorRole.OUTPUT)
    return PartView((f"Kernel {number}, {problem.name}: {made} from {read}.",), joined(part.statements))


def _require_same_kernels(programs: dict[str, Program], plan: Plan) -> None:
    """Require that all cases have the same kernels of the same families, on the same tensors."""
    (first, program), *others = programs.items()
    for case, other in others:
        for one, another in zip_longest(_kernels(program), _kernels(other), fillvalue="no kernel"):
            if one != another:
                raise CasesDifferError(spec=plan.name, first=first, second=case, one=one, other=another)
    for kernel in plan.kernels_of(first):
        found = {v.family: v.case for v in plan.variants if v.kernel == kernel}
        if "gemm" in found and len(found) > 1:
            (one, first_of), (another, second_of), *_ = found.items()
            raise MixedKernelsError(spec=plan.name, one=one, first=first_of, other=another, second=second_of)


def _kernels(program: Program) -> list[str]:
    """Return each kernel with the tensors that it takes."""
    return [f"{p.name}: {', '.join(f'{t.role} {t.name}' for t in p.tensors)}" for p in program.problems]
