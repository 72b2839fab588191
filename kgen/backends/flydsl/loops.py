"""Plan -> the kernel.py of loop kernels on CDNA."""

from kgen.backends.flydsl.loop_dialect import flydsl_loops_of
from kgen.backends.loops.file import loops_page
from kgen.ir.program import Program
from kgen.planning.plan import Plan
from kgen.render import Page
from kgen.spec.model import Spec


def view_loops(spec: Spec, programs: dict[str, Program], plan: Plan) -> Page:
    """Return the page of kernel.py for a plan whose kernels are all loops."""
    read = [t.type.dtype for p in programs.values() for problem in p.problems for t in problem.inputs]
    floats = frozenset(dtype for dtype in read if dtype.is_float)
    return loops_page(flydsl_loops_of(plan.device.arch, floats), spec, programs, plan)
