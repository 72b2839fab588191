"""Plan -> LoopFileView for loop kernels on Hopper: the whole kernel.py as printable values.

The device and host sections are rendered here, because which of them a file has is a choice, and templates make none.
"""

from kgen.backends.cutedsl.expressions import library_source
from kgen.backends.cutedsl.imports import import_block
from kgen.backends.cutedsl.loop_device import kernel_text, launch_text, printer_of
from kgen.backends.cutedsl.loop_host import loop_host_view
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

FOLDER = "cutedsl/sm90/loops"
_INT32_LIMIT = 2**31


def view_loops(spec: Spec, programs: dict[str, Program], plan: Plan) -> Page:
    """Return the page of kernel.py for a plan whose kernels are all loops."""
    variants = tuple(v for v in plan.variants if isinstance(v, LoopVariant))
    program = next(iter(programs.values()))
    tensors = tuple(dict.fromkeys((*(a.name for a in program.arguments), *_made(program))))
    names = loop_names(tensors)
    kernels = _kernels(plan.name, variants, programs, names)
    host = render(f"{FOLDER}/host.py.j2", loop_host_view(plan.name, variants, programs, names))
    module = module_text(spec, program, names)
    doc = describe_loops(spec, programs, plan, variants, names)
    joins = tuple(dict.fromkeys(source for v in variants for source in printer_of(v, names).joins()))
    device = "\n".join((*joins, *kernels.values()))
    library = library_source([device])
    view = LoopFileView(
        title=doc[0],
        doc=doc[1:],
        imports=import_block((*_imports(device, library), *module.imports)),
        constants=_constants(variants, (device, *library)),
        rows=tuple(loop_row(v, names) for v in variants),
        rules=tuple(loop_rules(v, plan.device) for v in variants),
        sections=(*library, *joins, *kernels.values()),
        host=(*host.rstrip("\n").splitlines(), *module.lines),
    )
    require_free_names(module, spec.reference.file, (*_imports(device, library), *view.sections, host))
    return Page(f"{FOLDER}/kernel.py.j2", view)


def _made(program: Program) -> tuple[str, ...]:
    return tuple(t.name for problem in program.problems for t in problem.tensors)


def _kernels(
    name: str, variants: tuple[LoopVariant, ...], programs: dict[str, Program], names: dict[str, str]
) -> dict[str, str]:
    """Return the device functions and launch functions by name; those that several variants share are one text."""
    texts: dict[str, str] = {}
    owners: dict[str, LoopVariant] = {}
    for v in variants:
        problem = next(p for p in programs[v.case].problems if p.name == v.kernel)
        for function, text in (kernel_text(v, names, problem), launch_text(v, names, problem)):
            if texts.setdefault(function, text) != text:
                raise CasesDifferError(
                    spec=name, first=owners[function].case, second=v.case, one=texts[function], other=text
                )
            owners.setdefault(function, v)
    launches = [f for f in texts if f.startswith("launch_")]
    return {f: texts[f] for f in (*(f for f in texts if f not in launches), *launches)}


def _imports(device: str, library: tuple[str, ...]) -> tuple[str, ...]:
    lines = [
        "from dataclasses import dataclass",
        "from functools import cache",
        "from importlib.metadata import version",
        "import cutlass",
        "import cutlass.cute as cute",
        "import torch",
        "from cutlass.cute.runtime import make_fake_stream, make_fake_tensor",
    ]
    if "prod(" in "\n".join((device, *library)):
        lines.append("from math import prod")
    if "SmemAllocator" in device:
        lines.append("from cutlass.memory import SmemAllocator")
    return tuple(lines)


def _constants(variants: tuple[LoopVariant, ...], texts: tuple[str, ...]) -> tuple[str, ...]:
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
