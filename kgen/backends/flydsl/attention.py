"""Plan -> the text of an attention kernel on CDNA, as one of the kernels of a program."""

from collections.abc import Mapping

from kgen.backends.flydsl.attention_device import attention_view, masks_keys, sections
from kgen.backends.flydsl.attention_rows import attention_rules, case_view, fields_of, row_view
from kgen.backends.flydsl.attention_views import AttentionView
from kgen.backends.flydsl.elements import mfma_type
from kgen.backends.flydsl.gemm import kernel_imports
from kgen.backends.flydsl.gemm_device import SHARED, memory_type
from kgen.backends.program.dialect import PartVariant, Product, ProductSource
from kgen.backends.source.file_views import RulesView
from kgen.backends.source.gemm_views import KernelView
from kgen.backends.source.lines import Lines
from kgen.backends.source.one_text import one_view
from kgen.planning.plan_attention import AttentionPlan
from kgen.target import Arch


def attention_part(source: ProductSource[AttentionPlan]) -> Product:
    """Return the text of one attention. Raises an `UnsupportedError` for cases that one file cannot hold."""
    plan, shown = source.plan, source.shown
    rules, form, arch = attention_rules(plan), plan.variants[0].form, plan.device.arch
    tensors = (form.q.tensor, form.k.tensor, form.v.tensor, form.out.tensor)
    operand = mfma_type(form.mma_dtype, arch)
    types = (operand, operand, operand, memory_type(form.out.dtype, arch))
    return Product(
        template=f"{SHARED}/kernel.py.j2",
        view=_kernel(plan, rules),
        variants=tuple(
            PartVariant(v.name, "launch_attention", f"rules_{rules[v.name].load_path}", types) for v in plan.variants
        ),
        arguments=tuple(shown[t] for t in tensors),
        tensors=frozenset(tensors),
    )


def _kernel(plan: AttentionPlan, rules: Mapping[str, RulesView]) -> KernelView:
    first, arch = plan.variants[0], plan.device.arch
    view = _one_view(plan, arch)
    return KernelView(
        title="",
        doc=(),
        imports=kernel_imports(),
        constants=_constants(plan),
        fields=fields_of(first),
        cases=tuple(case_view(v) for v in plan.variants),
        rows=tuple(row_view(v) for v in plan.variants),
        rules=tuple(dict.fromkeys(rules.values())),
        sections=sections(first, view, arch),
        host=(),
    )


def _one_view(plan: AttentionPlan, arch: Arch) -> AttentionView:
    """Return the view of all variants: what their rows do not hold is one text."""
    masks = masks_keys(plan)
    return one_view(plan.name, ((v.case, attention_view(v, arch, masks), (fields_of(v),)) for v in plan.variants))


def _constants(plan: AttentionPlan) -> Lines:
    first, device = plan.variants[0], plan.device
    form, limits, lane = first.form, dict(device.arch.limits), first.choice.candidate.number("inst_k") // 2
    return (
        f"IN = {mfma_type(form.mma_dtype, device.arch)}  # of Q, K and V, and of the weights",
        f"OUT = {memory_type(form.out.dtype, device.arch)}",
        "ACC = fx.Float32  # of scores, sums and output",
        "BITS = fx.Int16  # of one element, to move it",
        f"WARP = {int(limits['warp_size'].value)}",
        f"XCDS = {int(device.value('quantities.dies'))}  # dies of the {device.name}, each with an L2 of its own",
        "OUTSIDE = 2**31  # bytes from a buffer's start to where none reaches: loads give 0 there, stores do nothing",
        "MMA = 32  # rows and columns of one MFMA",
        "SUMS = MMA * MMA // WARP  # registers of its results: of each 8 rows a lane has 4",
        "QUAD = 4  # neighbouring keys, or elements of O, that a lane has",
        f"MFMA_LANE = {lane}  # elements of an operand that a lane gives one MFMA",
        "CHUNK = 8  # elements of the widest access of a lane, 16 bytes",
        f"LDS_LINE = {int(limits['smem_banks'].value) * 4}  # bytes of all banks of LDS",
        "LOG2_E = 1.4426950408889634",
    )
