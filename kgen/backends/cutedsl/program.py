"""Plan -> the kernel.py of several kernels on Hopper: matrix products, attentions and loops."""

from typing import Final

from kgen.backends.cutedsl.alone_host import alone_host_view, is_alone
from kgen.backends.cutedsl.attention import attention_part
from kgen.backends.cutedsl.attention_words import attention_words
from kgen.backends.cutedsl.gemm import operands_of, view_kernel
from kgen.backends.cutedsl.gemm_device import FOLDER as GEMM_FOLDER
from kgen.backends.cutedsl.gemm_host import passed_tensor, signature
from kgen.backends.cutedsl.gemm_rows import kind_of
from kgen.backends.cutedsl.gemm_types import passed_as_bytes
from kgen.backends.cutedsl.loop_dialect import CUTEDSL_LOOPS
from kgen.backends.cutedsl.program_host import program_host_view
from kgen.backends.cutedsl.words import variant_words
from kgen.backends.program.dialect import HostSource, PartVariant, Product, ProductSource, ProgramDialect
from kgen.backends.program.file import program_page
from kgen.backends.program.workspace import workspace_types
from kgen.ir.program import Program
from kgen.planning.plan import Plan
from kgen.planning.plan_gemm import GemmPlan, GemmVariant
from kgen.render import Page, render
from kgen.spec.model import Spec

FOLDER: Final = "cutedsl/sm90/program"


def view_program(spec: Spec, programs: dict[str, Program], plan: Plan) -> Page:
    """Return the page of kernel.py. Raises an `UnsupportedError` for a plan that one file cannot hold."""
    return program_page(CUTEDSL_PROGRAMS, spec, programs, plan)


def _product(source: ProductSource[GemmPlan]) -> Product:
    program, shown = source.program, dict(source.shown)
    operands, d = operands_of(source.plan, program), program.results[0]
    as_bytes = passed_as_bytes(source.plan.variants[0].form)

    def variant(v: GemmVariant) -> PartVariant:
        workspace = workspace_types(source.plan.variants, v.case)
        types = signature(v, source.programs[v.case], shown, operands, source.made, shown[d], workspace)
        return PartVariant(v.name, f"launch_{kind_of(v)}", f"rules_{kind_of(v)}", types.lines)

    return Product(
        template=f"{GEMM_FOLDER}/kernel.py.j2",
        view=view_kernel(source.plan, program),
        variants=tuple(variant(v) for v in source.plan.variants),
        arguments=(
            *(passed_tensor(shown[t], t in as_bytes) for t in (*operands, d)),
            *(shown[t] for t in source.workspace),
        ),
        tensors=frozenset((*operands, d)),
    )


def _host(source: HostSource) -> str:
    if is_alone(source):
        return render(f"{FOLDER}/host_alone.py.j2", alone_host_view(source))
    return render(f"{FOLDER}/host.py.j2", program_host_view(source))


CUTEDSL_PROGRAMS: Final = ProgramDialect(
    folder=FOLDER,
    loops=CUTEDSL_LOOPS,
    newer={"from cutlass.utils import SmemAllocator": "from cutlass.memory import SmemAllocator"},
    product=_product,
    product_words=variant_words,
    host=_host,
    attention=attention_part,
    attention_words=attention_words,
)
