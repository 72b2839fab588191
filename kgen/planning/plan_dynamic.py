"""A product with an extent of run time -> Plan: few variants, and the table of the values that each of them serves.

Each alignment class is planned by itself, as for fixed extents; a row of the table has a variant of each class, in the
order the host tries them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from kgen.errors.dynamic import DynamicProgramError, DynamicResultError
from kgen.families.classify import Form
from kgen.families.gemm.dynamic import DynamicForm, dynamic_form
from kgen.families.gemm.facts import MAX_ALIGN_BYTES
from kgen.families.gemm.form import GemmForm
from kgen.ir.problem import TensorRole
from kgen.ir.program import Program
from kgen.planning.candidates import legal_set, solve_gemm
from kgen.planning.dynamic import ALIGNED, ANY_BASE, SWITCH, Choice, Limits, Reach, choose
from kgen.planning.fixed import fixed_axes
from kgen.planning.plan import RUNNERS_UP, Dynamic, Guard, Interval, Plan
from kgen.planning.plan_gemm import GemmRequest, GemmVariant
from kgen.planning.rank import rank_gemm
from kgen.rules.model import Value
from kgen.rules.solve import LegalSet
from kgen.spec.model import DynamicExtent, Spec
from kgen.target import Device


@dataclass(frozen=True, slots=True)
class _Class:
    """The plans of one alignment class: `base_align` in bytes, and whether a guard asks for it."""

    request: GemmRequest
    base_align: int
    guarded: bool
    choice: Choice

    def first(self, plan: int) -> int:
        """Return the least value that a plan serves: it names its variant."""
        return next(r.first for r in self.choice.reaches if r.plan == plan)

    def last(self, plan: int) -> int:
        """Return the largest value that a plan serves: its variant is described there."""
        return max(r.last for r in self.choice.reaches if r.plan == plan)

    def reach(self, value: int) -> Reach:
        """Return the row of the table that a value is in."""
        return next(r for r in self.choice.reaches if value <= r.last)


def plan_dynamic(
    spec: Spec, forms: Mapping[str, tuple[Form, ...]], programs: Mapping[str, Program], device: Device
) -> Plan:
    """Return the plan of a spec that leaves an extent to run time.

    `forms` and `programs` are those of its test cases. Raises `UnsupportedError` for what is no product by wgmma, whose
    strides follow from the extent, or where no candidate is legal.
    """
    extent = spec.dynamic
    assert extent is not None
    values = {case.id: case.value(extent.name) for case in spec.cases}
    products = {values[case]: _product(case_forms, extent) for case, case_forms in forms.items()}
    _require_fixed_strides(programs, values, extent)
    form = dynamic_form(products, extent)
    program = next(iter(programs.values()))
    made = frozenset(t.name for p in program.problems for t in p.tensors if t.role is TensorRole.OUTPUT)
    fixed = fixed_axes(spec.fixed_for(""), ("gemm",), device)["gemm"]
    request = GemmRequest(program.problems[0].name, device, spec.accepts.base_alignment_bytes, fixed, made, True)
    classes = tuple(_classes(form, extent, request))
    variants = tuple(_variant(each, form, plan, extent) for each in classes for plan in range(len(each.choice.plans)))
    served = tuple(_served(each, form, case, value, extent) for case, value in values.items() for each in classes)
    source = _source(spec, form.form, extent)
    numbers = (form.axis, form.scale, form.offset)
    dynamic = Dynamic(extent.range, source, *numbers, tuple(_intervals(classes)), served)
    return Plan(spec.name, device, variants, (), dynamic)


def _source(spec: Spec, form: GemmForm, extent: DynamicExtent) -> tuple[str, int]:
    """Return an input that a launch takes, and the axis of it that has the extent."""
    taken = (form.a.tensor, form.b.tensor, *(load.source.tensor for load in form.epilogue_loads))
    for tensor in spec.inputs:
        if tensor.name in taken and extent.name in tensor.shape:
            return tensor.name, tensor.shape.index(extent.name)
    raise DynamicProgramError(where=extent.where, extent=extent.name, found="no tensor that the product reads has it")


def _product(forms: tuple[Form, ...], extent: DynamicExtent) -> GemmForm:
    if len(forms) == 1 and isinstance(forms[0], GemmForm):
        if forms[0].mma_dtype.bytes <= 2:
            return forms[0]
        raise DynamicProgramError(where=extent.where, extent=extent.name, found="the product is one of fp32")
    kernels = " and ".join(f.family for f in forms)
    found = f"the kernel is a {kernels}" if len(forms) == 1 else f"there are {len(forms)} kernels ({kernels})"
    raise DynamicProgramError(where=extent.where, extent=extent.name, found=found)


def _require_fixed_strides(programs: Mapping[str, Program], values: Mapping[str, int], extent: DynamicExtent) -> None:
    """Raise where strides of a tensor follow from the extent; those of 0 and 1 elements mean nothing."""
    seen: dict[str, tuple[int, ...]] = {}
    for case, program in programs.items():
        for tensor in program.problems[0].tensors if values[case] > 1 else ():
            if seen.setdefault(tensor.name, tensor.type.strides) != tensor.type.strides:
                raise DynamicResultError(where=extent.where, extent=extent.name, tensor=tensor.name)


def _classes(form: DynamicForm, extent: DynamicExtent, request: GemmRequest) -> Iterator[_Class]:
    """Yield the alignment classes, best first; operands change places in all of a kernel's variants or in none."""
    some = form.at(extent.range.hi)
    if form.form.a_ops.ops or form.form.b_ops.ops:
        request = request.with_axes(swap=request.fixed.get("swap", 0))
    base = request.base_align
    if base >= MAX_ALIGN_BYTES or request.facts(some, base) != request.facts(some, MAX_ALIGN_BYTES):
        aligned = _class(form, extent, request, MAX_ALIGN_BYTES, ALIGNED)
        yield aligned
        if base >= MAX_ALIGN_BYTES:
            return
        request = request.with_axes(store_path=dict(aligned.choice.plans[0])["store_path"]).without_bulk_loads()
        yield _class(form, extent, request, base, ANY_BASE)
    else:
        yield _class(form, extent, request, base, ALIGNED)


def _class(form: DynamicForm, extent: DynamicExtent, request: GemmRequest, base_align: int, limits: Limits) -> _Class:
    def solved(value: int) -> tuple[LegalSet, np.ndarray]:
        facts = request.facts(form.at(value), base_align)
        legal = legal_set(facts, request.device, fixed=request.fixed)
        return legal, rank_gemm(legal.columns, facts, request.device).total

    choice = choose(extent.range, solved, limits)
    stores = [dict(plan)["store_path"] for plan in choice.plans]
    if len(set(stores)) > 1:  # all variants share the text of one: the way of the largest value
        request = request.with_axes(store_path=stores[choice.reaches[-1].plan])
        choice = choose(extent.range, solved, limits)
    return _Class(request, base_align, base_align >= MAX_ALIGN_BYTES, choice)


def _variant(each: _Class, form: DynamicForm, plan: int, extent: DynamicExtent) -> GemmVariant:
    """Return the variant of a plan, as it is at the largest value that it serves."""
    return _at(each, form, plan, each.last(plan), extent)


def _served(each: _Class, form: DynamicForm, case: str, value: int, extent: DynamicExtent) -> GemmVariant:
    """Return the variant that serves a test case, as it is there; what else could be chosen stands with the plans."""
    variant = _at(each, form, each.reach(value).plan, value, extent)
    alone = replace(variant.candidates, ranked=(variant.choice,), rejections=())
    return replace(variant, case=case, runners_up=(), candidates=alone)


def _at(each: _Class, form: DynamicForm, plan: int, value: int, extent: DynamicExtent) -> GemmVariant:
    """Return the variant of a plan as it is at one value; where the result is empty there, as it is at the least."""
    request, point = each.request, dict(each.choice.plans[plan])
    here = form.at(value)
    facts = request.facts(form.at(max(value, 1)) if here.is_empty else here, each.base_align)
    candidates = solve_gemm(facts, request.device, fixed=request.fixed, top=RUNNERS_UP + 1)
    chosen: Mapping[str, Value] = {**request.fixed, **point}
    (choice,) = solve_gemm(facts, request.device, fixed=chosen, top=1).ranked
    others = tuple(r for r in candidates.ranked if r.candidate != choice.candidate)[:RUNNERS_UP]
    exchanged = point.get("swap", 0) == 1
    load_path = str(point["load_path"])
    guard = request.guard(here, str(point["store_path"])) if each.guarded else Guard(())
    return GemmVariant(
        name=f"from_{each.first(plan)}_{load_path}{'' if each.guarded else '_any'}",
        case=f"{extent.name}_exchanged" if exchanged else extent.name,
        kernel=request.kernel,
        guard=guard,
        form=here.exchanged if exchanged else here,
        facts=facts,
        choice=choice,
        runners_up=others,
        candidates=candidates,
        fixed=tuple(request.fixed.items()),
    )


def _intervals(classes: tuple[_Class, ...]) -> Iterator[Interval]:
    """Yield the rows of the table: values for which all classes have one plan each."""
    ends = sorted({r.last for each in classes for r in each.choice.reaches})
    first = classes[0].choice.reaches[0].first
    for last in ends:
        rows = [(each, each.reach(last)) for each in classes]
        names = tuple(
            f"from_{each.first(r.plan)}_{dict(each.choice.plans[r.plan])['load_path']}{'' if each.guarded else '_any'}"
            for each, r in rows
        )
        reach = rows[0][1]
        yield Interval(first, last, names, reach.time_us, reach.best_us, _because(reach))
        first = last + 1


def _because(reach: Reach) -> str:
    """Return why a plan serves a row of the table."""
    behind = reach.worst - 1
    values = "at its upper end" if reach.points == 1 else f"at all {reach.points} values that were ranked in it"
    if behind < 5e-4:
        return f"the best candidate {values}"
    return (
        f"of the plans the best, or within {SWITCH:.1%} of it; at most {behind:.1%} behind the best candidate {values}"
    )
