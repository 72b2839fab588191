"""Plan -> LoopFileView for loop kernels: the whole kernel.py as printable values, in the words of a dialect.

The device and host sections are rendered here, because which of them a file has is a choice, and templates make none.
"""

from kgen.backends.loops.device import DeviceText, device_texts
from kgen.backends.loops.dialect import AHEAD, LoopDialect
from kgen.backends.loops.host import loop_host_view
from kgen.backends.loops.names import loop_names
from kgen.backends.loops.rows import loop_row, loop_rules
from kgen.backends.loops.views import LoopFileView
from kgen.backends.loops.words import describe_loops
from kgen.backends.source.imports import import_block
from kgen.backends.source.lines import Lines
from kgen.backends.source.module import module_text, require_free_names
from kgen.backends.source.operator import with_operator
from kgen.families.strided.facts import reach_of
from kgen.ir.dtype import DType
from kgen.ir.program import Program
from kgen.planning.plan import Plan
from kgen.planning.plan_loops import LoopVariant, loop_variants
from kgen.render import Page, render
from kgen.spec.model import Spec

_INT32_LIMIT = 2**31


def loops_page(dialect: LoopDialect, spec: Spec, programs: dict[str, Program], plan: Plan) -> Page:
    """Return the page of kernel.py for a plan whose kernels are all loops."""
    variants = loop_variants(plan)
    program = next(iter(programs.values()))
    names = loop_names(_tensors(program), dialect)
    devices = device_texts(variants, programs, names, dialect)
    functions = _functions(tuple(devices.values()))
    joins = tuple(dict.fromkeys(source for device in devices.values() for source in device.joins))
    host = render(f"{dialect.folder}/host.py.j2", loop_host_view(plan, devices, programs, names, dialect))
    library = dialect.values.library_source(["\n".join((*joins, *functions))])
    imports = _imports(dialect, (*joins, *functions), library)
    host = with_operator(host, spec.operator, programs, names, plan.device.arch)
    module = module_text(spec, program, names)
    warp = int(plan.device.arch.limit("warp_size").value)
    doc = describe_loops(spec, programs, plan, variants, names, dialect.units)
    kept = tuple(name for name in dialect.kept if name != AHEAD or any(v.ahead for v in variants))
    rows = tuple(loop_row(v, devices[v.name], dialect, kept, warp) for v in variants)
    accesses = tuple(line for row in rows for line in row.accesses)
    view = LoopFileView(
        title=doc[0],
        doc=doc[1:],
        imports=import_block((*imports, *module.imports)),
        constants=_constants(dialect, variants, warp, (*joins, *functions, *library, *accesses)),
        axes=tuple(f"{name}: int{_comment(dialect.kept[name])}" for name in kept),
        rows=rows,
        rules=tuple(loop_rules(v, plan.device, dialect) for v in variants),
        sections=(*library, *joins, *functions),
        host=(*host.rstrip("\n").splitlines(), *module.lines),
    )
    require_free_names(module, spec.reference.file, (*imports, *view.sections, host))
    return Page(f"{dialect.folder}/kernel.py.j2", view)


def _comment(text: str) -> str:
    return f"  # {text}" if text else ""


def _tensors(program: Program) -> tuple[str, ...]:
    """Return all tensors, the arguments first."""
    others = (t.name for problem in program.problems for t in problem.tensors)
    return tuple(dict.fromkeys((*(a.name for a in program.arguments), *others)))


def _functions(devices: tuple[DeviceText, ...]) -> Lines:
    """Return the device functions, then the launch functions; those that several variants share are one text."""
    return tuple(dict.fromkeys((*(d.text for d in devices), *(d.launch_text for d in devices))))


def _imports(dialect: LoopDialect, functions: Lines, library: Lines) -> Lines:
    found = [line for word, line in dialect.imports_by_word.items() if any(word in text for text in functions)]
    if any("prod(" in text for text in (*functions, *library)):
        found.append("from math import prod")
    return (*dialect.imports, *found)


def _constants(dialect: LoopDialect, variants: tuple[LoopVariant, ...], warp: int, texts: Lines) -> Lines:
    if max(_last_offset(v) for v in variants) >= _INT32_LIMIT:
        index = f"INDEX = {dialect.index[DType.INT64]}  # of tensor elements: offsets pass 2^31"
    else:
        index = f"INDEX = {dialect.index[DType.INT32]}  # of tensor elements: every offset is below 2^31"
    named = {"WARP": f"WARP = {warp}", **dialect.constants}
    return (index, *(line for word, line in named.items() if any(word in text for text in texts)))


def _last_offset(variant: LoopVariant) -> int:
    """Return the largest element offset of a kernel, of what it gathers included."""
    form = variant.form
    return max(form.rows, form.cols, *(reach_of(a, form) - 1 for a in (*form.loads, *form.stores)))
