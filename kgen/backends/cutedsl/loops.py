"""Plan -> LoopFileView for loop kernels on Hopper: the whole kernel.py as printable values.

The device and host sections are rendered here, because which of them a file has is a choice, and templates make none.
"""

from kgen.backends.cutedsl.expressions import library_source
from kgen.backends.cutedsl.imports import import_block
from kgen.backends.cutedsl.lines import Lines
from kgen.backends.cutedsl.loop_device import FOLDER, DeviceText, device_text, launch_text
from kgen.backends.cutedsl.loop_host import loop_host_view, problem_of
from kgen.backends.cutedsl.loop_rows import loop_row, loop_rules
from kgen.backends.cutedsl.loop_views import LoopFileView
from kgen.backends.cutedsl.loop_words import describe_loops
from kgen.backends.cutedsl.module import module_text, require_free_names
from kgen.backends.cutedsl.names import loop_names
from kgen.errors.backend import CasesDifferError
from kgen.ir.program import Program
from kgen.planning.plan import Plan
from kgen.planning.plan_loops import LoopVariant
from kgen.render import Page, render
from kgen.spec.model import Spec

_INT32_LIMIT = 2**31


def view_loops(spec: Spec, programs: dict[str, Program], plan: Plan) -> Page:
    """Return the page of kernel.py for a plan whose kernels are all loops."""
    variants = tuple(v for v in plan.variants if isinstance(v, LoopVariant))
    program = next(iter(programs.values()))
    names = loop_names(_tensors(program))
    devices = {v.name: device_text(v, names, problem_of(v, programs)) for v in variants}
    functions = _functions(plan.name, variants, programs, names, devices)
    joins = tuple(dict.fromkeys(source for device in devices.values() for source in device.joins))
    host = render(f"{FOLDER}/host.py.j2", loop_host_view(plan.name, variants, programs, names))
    library = library_source(["\n".join((*joins, *functions))])
    imports = _imports((*joins, *functions), library)
    module = module_text(spec, program, names)
    doc = describe_loops(spec, programs, plan, variants, names)
    view = LoopFileView(
        title=doc[0],
        doc=doc[1:],
        imports=import_block((*imports, *module.imports)),
        constants=_constants(variants, (*joins, *functions, *library)),
        rows=tuple(loop_row(v, devices[v.name]) for v in variants),
        rules=tuple(loop_rules(v, plan.device) for v in variants),
        sections=(*library, *joins, *functions),
        host=(*host.rstrip("\n").splitlines(), *module.lines),
    )
    require_free_names(module, spec.reference.file, (*imports, *view.sections, host))
    return Page(f"{FOLDER}/kernel.py.j2", view)


def _tensors(program: Program) -> tuple[str, ...]:
    """Return all tensors, the arguments first."""
    others = (t.name for problem in program.problems for t in problem.tensors)
    return tuple(dict.fromkeys((*(a.name for a in program.arguments), *others)))


def _functions(
    name: str,
    variants: tuple[LoopVariant, ...],
    programs: dict[str, Program],
    names: dict[str, str],
    devices: dict[str, DeviceText],
) -> Lines:
    """Return the device functions, then the launch functions; those that several variants share are one text."""
    texts: dict[str, tuple[str, str]] = {}  # function -> text, and the case that it was first printed for
    launches: list[str] = []
    for v in variants:
        launch, launch_source = launch_text(v, names, problem_of(v, programs))
        launches.append(launch)
        for function, text in ((devices[v.name].name, devices[v.name].text), (launch, launch_source)):
            one, first = texts.setdefault(function, (text, v.case))
            if one != text:
                raise CasesDifferError(spec=name, first=first, second=v.case, one=one, other=text)
    device = [function for function in texts if function not in launches]
    return tuple(texts[function][0] for function in dict.fromkeys((*device, *launches)))


def _imports(functions: Lines, library: Lines) -> Lines:
    lines = [
        "from dataclasses import dataclass",
        "from functools import cache",
        "from importlib.metadata import version",
        "import cutlass",
        "import cutlass.cute as cute",
        "import torch",
        "from cutlass.cute.runtime import make_fake_stream, make_fake_tensor",
    ]
    if any("prod(" in text for text in (*functions, *library)):
        lines.append("from math import prod")
    if any("SmemAllocator" in text for text in functions):
        lines.append("from cutlass.memory import SmemAllocator")
    return tuple(lines)


def _constants(variants: tuple[LoopVariant, ...], texts: Lines) -> Lines:
    last = max(_last_offset(v) for v in variants)
    if last >= _INT32_LIMIT:
        index = "INDEX = cutlass.Int64  # of tensor elements: offsets pass 2^31"
    else:
        index = "INDEX = cutlass.Int32  # of tensor elements: every offset is below 2^31"
    warp = ("WARP = 32",) if any("WARP" in text for text in texts) else ()
    return (index, *warp)


def _last_offset(variant: LoopVariant) -> int:
    """Return the largest element offset of a kernel, of what it gathers included."""
    form = variant.form
    found = [form.rows, form.cols]
    for a in (*form.loads, *form.stores):
        pairs = (*zip(form.kept, a.walk.kept, strict=True), *zip(form.reduced, a.walk.reduced, strict=True))
        reach = a.gathered[1] * a.gathered[2] if a.gathered else 0
        found.append(abs(a.walk.base) + sum((e - 1) * abs(s) for e, s in pairs) + reach)
    return max(found)
