"""Which back-end prints a plan: by the device's back-end name, its template folder and the family."""

from collections.abc import Callable
from dataclasses import dataclass

from kgen.backends.cutedsl.gemm import view_gemm
from kgen.backends.cutedsl.loops import view_loops
from kgen.backends.cutedsl.program import view_program
from kgen.backends.flydsl.gemm import view_gemm as view_gemm_on_cdna
from kgen.backends.flydsl.loops import view_loops as view_cdna_loops
from kgen.backends.flydsl.program import view_program as view_cdna_program
from kgen.errors.backend import NoBackendError
from kgen.errors.dynamic import DynamicBackendError
from kgen.ir.program import Program
from kgen.planning.plan import Plan
from kgen.planning.plan_gemm import gemm_plan
from kgen.render import Page
from kgen.spec.model import Spec
from kgen.target import Device

View = Callable[[Spec, dict[str, Program], Plan], Page]


@dataclass(frozen=True, slots=True)
class Backend:
    """The families that one view prints, together in one file, on one instruction set.

    `most_kernels` is how many kernels a program may have; None is any number. `run_time_extent`: its kernels take an
    extent at run time.
    """

    name: str
    templates: str
    families: frozenset[str]
    view: View
    most_kernels: int | None = None
    run_time_extent: bool = False

    def prints(self, plan: Plan) -> bool:
        """Return whether this prints the plan."""
        arch, families = plan.device.arch, {v.family for v in plan.variants}
        count = max(len(plan.kernels_of(case)) for case in {v.case for v in plan.variants})
        fits = self.most_kernels is None or count <= self.most_kernels
        return (self.name, self.templates) == (arch.backend, arch.templates) and families <= self.families and fits


def _view_product(spec: Spec, programs: dict[str, Program], plan: Plan) -> Page:
    """Print a product: as a program where its launch needs a workspace."""
    with_workspace = any(v.workspace for v in gemm_plan(plan).variants)
    return view_program(spec, programs, plan) if with_workspace else view_gemm(spec, programs, plan)


_LOOPS = frozenset({"reduction", "pointwise"})
BACKENDS = (
    Backend("flydsl", "gfx942", frozenset({"gemm"}), view_gemm_on_cdna, most_kernels=1),
    Backend("flydsl", "gfx950", frozenset({"gemm"}), view_gemm_on_cdna, most_kernels=1),
    Backend("cutedsl", "sm90", frozenset({"gemm"}), _view_product, most_kernels=1, run_time_extent=True),
    Backend("cutedsl", "sm90", _LOOPS, view_loops),
    Backend("cutedsl", "sm90", _LOOPS | {"gemm", "attention"}, view_program),
    Backend("flydsl", "gfx942", _LOOPS, view_cdna_loops),
    Backend("flydsl", "gfx950", _LOOPS, view_cdna_loops),
    Backend("flydsl", "gfx942", _LOOPS | {"gemm", "attention"}, view_cdna_program),
    Backend("flydsl", "gfx950", _LOOPS | {"gemm", "attention"}, view_cdna_program),
)


def require_run_time_extent(spec: Spec, device: Device) -> None:
    """Raise `DynamicBackendError` where a spec leaves an extent to run time and no kernels of the device take one."""
    arch = device.arch
    found = any(b.run_time_extent for b in BACKENDS if (b.name, b.templates) == (arch.backend, arch.templates))
    if spec.dynamic is not None and not found:
        where, name = spec.dynamic.where, spec.dynamic.name
        raise DynamicBackendError(where=where, extent=name, isa=arch.isa, device=device.name)


def backend_of(plan: Plan) -> Backend:
    """Return the back-end of a plan. Raises `NoBackendError`."""
    for backend in BACKENDS:
        if backend.prints(plan):
            return backend
    raise NoBackendError(family=plan.family, isa=plan.device.arch.isa, device=plan.device.name)
