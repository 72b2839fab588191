"""Plan -> the kernel.py of several kernels on CDNA: matrix products, attentions and loops."""

from functools import cache, partial
from typing import Final

from kgen.backends.flydsl.attention import attention_part
from kgen.backends.flydsl.attention_words import attention_words
from kgen.backends.flydsl.gemm import view_kernel
from kgen.backends.flydsl.gemm_device import SHARED
from kgen.backends.flydsl.gemm_host import pointer_types, taken_tensors
from kgen.backends.flydsl.gemm_rows import gemm_rules, kind_of
from kgen.backends.flydsl.gemm_words import variant_words
from kgen.backends.flydsl.loop_dialect import flydsl_loops
from kgen.backends.flydsl.names import device_names
from kgen.backends.flydsl.program_host import FOLDER, host_text, splits_k, sums_name
from kgen.backends.program.dialect import PartVariant, Product, ProductSource, ProgramDialect
from kgen.backends.program.file import program_page
from kgen.ir.program import Program
from kgen.planning.plan import Plan
from kgen.planning.plan_gemm import GemmPlan
from kgen.render import Page
from kgen.spec.model import Spec
from kgen.target import Arch

_TEMPLATE: Final = f"{SHARED}/kernel.py.j2"


def view_program(spec: Spec, programs: dict[str, Program], plan: Plan) -> Page:
    """Return the page of kernel.py. Raises an `UnsupportedError` for a plan that one file cannot hold."""
    return program_page(flydsl_programs(plan.device.arch), spec, programs, plan)


@cache
def flydsl_programs(arch: Arch) -> ProgramDialect:
    """Return the words for an arch."""
    return ProgramDialect(
        folder=FOLDER,
        loops=flydsl_loops(arch),
        newer={},
        product=partial(_product, arch),
        product_words=variant_words,
        host=host_text,
        attention=attention_part,
        attention_words=attention_words,
    )


def _product(arch: Arch, source: ProductSource[GemmPlan]) -> Product:
    """Return a product; its launches take addresses, and memory for sums over parts of k where a variant has those."""
    plan, shown = source.plan, source.shown
    names = device_names(tuple(a.name for a in source.program.arguments), arch)
    rules, first = gemm_rules(plan), plan.variants[0]
    operands, fused = taken_tensors(first, names)
    splits = splits_k(plan.variants)
    sums = [sums_name(source.number, shown)] if splits else []
    types = tuple(pointer_types(first, names, splits, arch))
    return Product(
        template=_TEMPLATE,
        view=view_kernel(plan, names, rules),
        variants=tuple(
            PartVariant(v.name, f"launch_{kind_of(v)}", f"rules_{rules[v.name].load_path}", types)
            for v in plan.variants
        ),
        arguments=(*(shown[t] for t in (*operands, first.form.d.tensor)), *sums, *(shown[t] for t in fused)),
        tensors=frozenset((*operands, first.form.d.tensor, *fused)),
    )
