"""Plan -> the text of an attention kernel on Hopper, as one of the kernels of a program."""

import textwrap

from kgen.backends.cutedsl.attention_arguments import parameters, tensors
from kgen.backends.cutedsl.attention_decode import (
    decode_templates,
    decode_view,
    reads_once,
)
from kgen.backends.cutedsl.attention_decode_views import DecodeView
from kgen.backends.cutedsl.attention_device import (
    CONSUMER_FIELDS,
    FOLDER,
    attention_view,
    library_sections,
    section_templates,
)
from kgen.backends.cutedsl.attention_lengths import printed_form
from kgen.backends.cutedsl.attention_modes import Whole, whole_operands
from kgen.backends.cutedsl.attention_rows import attention_rules, fields_of, row_values, row_view
from kgen.backends.cutedsl.attention_views import AttentionFileView, AttentionView
from kgen.backends.cutedsl.expressions import ELEMENT_TYPES, memory
from kgen.backends.cutedsl.gemm_host import passed_tensor
from kgen.backends.cutedsl.loaded import LOADED_IMPORTS
from kgen.backends.program.dialect import PartVariant, Product, ProductSource
from kgen.backends.source.file_text import signature_entry
from kgen.backends.source.lines import Lines
from kgen.backends.source.one_text import one_view
from kgen.families.attention.form import AttentionForm
from kgen.ir.dtype import DType
from kgen.planning.plan_attention import AttentionPlan, AttentionVariant
from kgen.render import render

_ALIGN_BYTES = 16  # of what bulk copies move, and of what torch allocates
_INT32_LIMIT = 2**31


def attention_part(source: ProductSource[AttentionPlan]) -> Product:
    """Return the text of one attention. Raises an `UnsupportedError` for cases that one file cannot hold."""
    plan, shown = source.plan, dict(source.shown)
    first = plan.variants[0]
    taken = tensors(first)
    problems = (p for program in source.programs.values() for p in program.problems)
    types = {t.name: t.type for p in problems for t in p.tensors}
    return Product(
        template=f"{FOLDER}/file.py.j2",
        view=_file(plan),
        variants=tuple(
            PartVariant(v.name, "launch_attention", "rules_attention", _signature(v, source)) for v in plan.variants
        ),
        arguments=(
            *(passed_tensor(shown[t], types[t].dtype is DType.BOOL) for t in taken),
            *(shown[t] for t in source.workspace),
        ),
        tensors=frozenset(taken),
    )


def _file(plan: AttentionPlan) -> AttentionFileView:
    first = plan.variants[0]
    whole = frozenset.intersection(*(whole_operands(v.form) for v in plan.variants))
    view = _one_view(plan, whole)
    names = decode_templates(view) if isinstance(view, DecodeView) else section_templates(first, view)
    consumer = (render(CONSUMER_FIELDS, view).rstrip("\n"), *(_method(name, view) for name in names.consumer))
    derived, checks = attention_rules(first, plan.device)
    return AttentionFileView(
        imports=_imports(view),
        constants=_constants(first),
        fields=fields_of(first, whole),
        methods=tuple(_method(name, view) for name in names.variant),
        rows=tuple(row_view(v, first, whole) for v in plan.variants),
        derived=derived,
        checks=checks,
        sections=(
            *library_sections(view),
            *(render(name, view).rstrip("\n") for name in names.before),
            "\n\n".join(consumer),
            *(render(name, view).rstrip("\n") for name in names.after),
        ),
    )


def _method(template: str, view: AttentionView | DecodeView) -> str:
    """Return functions as methods: they stand a level deeper, a line apart."""
    return textwrap.indent(render(template, view).rstrip("\n"), "    ")


def _view(variant: AttentionVariant, whole: Whole) -> AttentionView | DecodeView:
    return decode_view(variant, whole) if variant.few_rows else attention_view(variant, whole)


def _one_view(plan: AttentionPlan, whole: Whole) -> AttentionView | DecodeView:
    """Return the view of all variants: what their rows do not hold is one text."""
    return one_view(plan.name, ((v.case, _view(v, whole), tuple(row_values(v, whole))) for v in plan.variants))


def _signature(variant: AttentionVariant, source: ProductSource[AttentionPlan]) -> Lines:
    """Return what a variant is compiled for: its tensors in the order of the launch function."""
    form, program = variant.form, source.programs[variant.case]
    types = {t.name: t.type for p in program.problems for t in p.tensors}
    wide = {form.q.tensor, form.k.tensor, form.v.tensor} | source.made
    lines: list[str] = []
    found = tensors(variant)
    for name, tensor in zip(parameters(variant), found, strict=False):  # the workspace comes behind them
        type_ = types[tensor]
        align = _ALIGN_BYTES if tensor in wide else type_.dtype.bytes
        lines += signature_entry(_role(name, source.shown[tensor]), memory(type_.dtype), type_, align)
    for (name, type_), tensor in zip(variant.workspace.items(), source.workspace, strict=True):
        lines += signature_entry(_role(name, source.shown[tensor]), memory(type_.dtype), type_, _ALIGN_BYTES)
    return tuple(lines)


def _role(name: str, shown: str) -> str:
    """Return a parameter by its role, and the tensor that it is where that has another name."""
    return name if name == shown else f"{name}: {shown}"


def _imports(view: AttentionView | DecodeView) -> Lines:
    stages = isinstance(view, AttentionView) and view.to_smem_atom.startswith("warp.")
    units = ["OperandMajorMode", "cpasync", *(["warp"] if stages else []), "warpgroup"]
    return (
        "from dataclasses import dataclass",
        "from functools import cache",
        "from importlib.metadata import version",
        "from math import prod",
        "from typing import NamedTuple",
        "import cutlass",
        "import cutlass.cute as cute",
        "import torch",
        "from cutlass import pipeline",
        f"from cutlass.cute.nvgpu import {', '.join(units)}",
        "from cutlass.cute.runtime import make_fake_stream, make_fake_tensor",
        "from cutlass.memory import SmemAllocator",
        "from cutlass.utils import LayoutEnum, hopper_helpers",
        *LOADED_IMPORTS,
    )


def _constants(variant: AttentionVariant) -> Lines:
    form = printed_form(variant)
    lines = [
        f"IN = {ELEMENT_TYPES[form.mma_dtype]}  # of Q, K and V, and of the weights",
        f"OUT = {ELEMENT_TYPES[form.out.dtype]}",
        "ACC = cutlass.Float32  # of scores, sums and output",
        "WARP_GROUP = 128  # threads that issue one wgmma together",
        "MMA_M = 64  # rows of one wgmma instruction",
        "LOG2_E = 1.4426950408889634",
    ]
    if variant.few_rows and reads_once(form):
        lines.append("EVICT_FIRST = cutlass.Int64(0x12F0000000000000)  # policy of L2 for what is read once: K and V")
    indexes = variant.few_rows or form.logsumexp or form.epilogue_ops or form.score_loads
    return (*lines, _index(form)) if indexes else tuple(lines)


def _index(form: AttentionForm) -> str:
    """Return the constant that types element indices: 64 bits only where an offset needs them."""
    extents = (form.m, form.n, form.ratio, *form.batch)
    reads = [(load.queries, load.keys, load.group, *load.batch) for load in form.score_loads]
    reads += [(a.tokens, a.dim, a.group, *a.batch) for a in (form.out, *(x.source for x in form.epilogue_loads))]
    last = max(sum((e - 1) * abs(s) for e, s in zip(extents, strides, strict=True)) for strides in reads)
    if last >= _INT32_LIMIT:
        return "INDEX = cutlass.Int64  # of tensor elements: an offset passes 2^31"
    return "INDEX = cutlass.Int32  # of tensor elements: every offset is below 2^31"
