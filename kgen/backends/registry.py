"""Which back-end prints a plan: by the device's back-end name, its template folder and the family."""

from collections.abc import Callable
from dataclasses import dataclass

from kgen.backends.cutedsl.gemm import view_gemm
from kgen.errors.backend import NoBackendError
from kgen.ir.program import Program
from kgen.planning.plan import Plan
from kgen.render import Page
from kgen.spec.model import Spec

View = Callable[[Spec, dict[str, Program], Plan], Page]


@dataclass(frozen=True, slots=True)
class Backend:
    """One family on one instruction set."""

    name: str
    templates: str
    family: str
    view: View


BACKENDS = (Backend("cutedsl", "sm90", "gemm", view_gemm),)


def backend_of(plan: Plan) -> Backend:
    """Return the back-end of a plan. Raises `NoBackendError`."""
    arch = plan.device.arch
    for backend in BACKENDS:
        if (backend.name, backend.templates, backend.family) == (arch.backend, arch.templates, plan.family):
            return backend
    raise NoBackendError(family=plan.family, isa=arch.isa, device=plan.device.name)
