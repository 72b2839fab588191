"""Plan -> the kernel.py of loop kernels on Hopper."""

from kgen.backends.cutedsl.loop_dialect import CUTEDSL_LOOPS
from kgen.backends.loops.file import loops_page
from kgen.ir.program import Program
from kgen.planning.plan import Plan
from kgen.render import Page
from kgen.spec.model import Spec


def view_loops(spec: Spec, programs: dict[str, Program], plan: Plan) -> Page:
    """Return the page of kernel.py for a plan whose kernels are all loops."""
    return loops_page(CUTEDSL_LOOPS, spec, programs, plan)
