"""HostView of a GEMM: what each variant is compiled for, and how the host function picks one."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kgen.backends.cutedsl.expressions import ELEMENT_TYPES
from kgen.backends.cutedsl.gemm_device import FOLDER
from kgen.backends.cutedsl.gemm_dynamic_host import accepted_lines, described_lines, dynamic_plan_view, symbolic_program
from kgen.backends.cutedsl.gemm_rows import kind_of
from kgen.backends.cutedsl.gemm_types import passed_as_bytes
from kgen.backends.cutedsl.gemm_views import HostView, PlanEntryView, PlanView, SignatureView
from kgen.backends.source.file_text import base_alignment, plan_key, signature_entry, unread_arguments
from kgen.backends.source.lines import Lines, bracketed, listed, tuple_text
from kgen.errors.backend import ElementTypeError
from kgen.ir.dtype import DType
from kgen.ir.program import Program
from kgen.ir.tensor import TensorType
from kgen.planning.plan_gemm import GemmPlan, GemmVariant
from kgen.render import render
from kgen.spec.model import Spec

RESULT_ALIGN_BYTES = 16  # torch's allocator gives far more
EMPTY: Mapping[str, TensorType] = {}


@dataclass(frozen=True, slots=True)
class HostTable:
    """Which variants serve which shapes: the text of the table, what asks it, and programs with the types of each case.

    `accepts` is the statement that says what is accepted, where the signatures do not; `described` makes the result
    as a type alone, where the table has no entry for its shape.
    """

    text: str
    lookup: str
    types: Mapping[str, Program]
    accepts: Lines
    may_be_empty: bool
    described: Lines = ()


def table_of_cases(plan: GemmPlan, programs: Mapping[str, Program]) -> HostTable:
    """Return the table where every extent is a constant: shapes are looked up in it."""
    view = PlanView(tuple(_entry(case, program, plan) for case, program in programs.items()))
    is_empty = any(not _result(program).numel for program in programs.values())
    return HostTable(render(f"{FOLDER}/plan.py.j2", view), "PLAN.get", programs, (), is_empty)


def table_of_values(spec: Spec, plan: GemmPlan, programs: Mapping[str, Program], names: Mapping[str, str]) -> HostTable:
    """Return the table where an extent is known at run time: a function looks its value up."""
    assert plan.dynamic is not None
    program = symbolic_program(spec, programs)
    text = render(f"{FOLDER}/plan_dynamic.py.j2", dynamic_plan_view(plan, program))
    types = {v.case: program for v in plan.variants}
    accepted, described = accepted_lines(program, plan.dynamic, names), described_lines(program, plan.dynamic, names)
    return HostTable(text, "planned", types, accepted, True, described)


def host_view(
    plan: GemmPlan,
    programs: dict[str, Program],
    names: dict[str, str],
    operands: tuple[str, ...],
    table: HostTable,
) -> HostView:
    """Return what the template of the host code prints."""
    program = next(iter(programs.values()))
    made = frozenset(program.results)
    arguments = tuple(names[a.name] for a in program.arguments)
    form = plan.variants[0].form
    guarded = tuple(dict.fromkeys(names[t] for v in plan.variants for t, _ in v.guard.base_align)) or arguments[:1]
    persistent = plan.variants[0].load_path != "simt"
    as_bytes = passed_as_bytes(form)
    passed = (passed_tensor(names[tensor], tensor in as_bytes) for tensor in operands)
    launch_arguments = (*passed, "d", *(["sm_count"] if persistent else []))
    return HostView(
        name=plan.name,
        load_paths=tuple(dict.fromkeys(kind_of(v) for v in plan.variants)),
        signatures=tuple(signature(v, table.types[v.case], names, operands, made) for v in plan.variants),
        table=tuple(table.text.splitlines()),
        lookup=table.lookup,
        accepts=table.accepts,
        head=bracketed("def kernel(", arguments, "):"),
        tensors=bracketed("tensors = [", arguments, "]", indent=4),
        first=arguments[0],
        unread=unread_arguments(program, names, frozenset(operands) - as_bytes),
        bases=" | ".join(f"{name}.data_ptr()" for name in guarded),
        out_type=form.d.dtype.torch_name,
        result="(d,)" if program.returns_tuple else "d",
        may_be_empty=table.may_be_empty,
        grid_example=", cutlass.Int32(1)" if persistent else "",
        compiled_doc=_COMPILED_DOC if persistent else "The function of one variant, made once per process and device.",
        compiled=f"loaded(name), {_SM_COUNT}" if persistent else "loaded(name)",
        function="function, sm_count" if persistent else "function",
        call=bracketed("function(", launch_arguments, ")", indent=12),
    )


_COMPILED_DOC = "The function of a variant, and the SM count of `device` that its grid follows; made once per process."
_SM_COUNT = "torch.cuda.get_device_properties(device).multi_processor_count"


def passed_tensor(name: str, as_bytes: bool) -> str:
    """Return what the host function passes for a tensor."""
    return f"{name}.view(torch.uint8)" if as_bytes else name


def _entry(case: str, program: Program, plan: GemmPlan) -> PlanEntryView:
    result = _result(program)
    choices = [v for v in plan.variants if v.case == case] if result.numel else []
    return PlanEntryView(
        key=plan_key(program),
        result_shape=tuple_text(result.static_shape),
        result_stride=tuple_text(result.strides),
        choices=listed("{", [f'"{v.name}": {base_alignment(v)}' for v in choices], "},"),
    )


def signature(
    variant: GemmVariant,
    program: Program,
    names: dict[str, str],
    operands: tuple[str, ...],
    made: frozenset[str],
    d: str = "d",
    workspace: Mapping[str, TensorType] = EMPTY,
) -> SignatureView:
    """Return what a variant is compiled for: its operands, D, the program's one result, as `d`, and its workspace."""
    types = {a.name: a.type for a in program.arguments}
    aligned = dict(variant.guard.base_align) | dict.fromkeys(made, RESULT_ALIGN_BYTES)
    as_bytes = passed_as_bytes(variant.form)
    passed = {t: replace(types[t], dtype=DType.UINT8) if t in as_bytes else types[t] for t in operands}
    tensors = [_tensor(names[t], passed[t], max(aligned.get(t, 1), passed[t].dtype.bytes)) for t in operands]
    result, is_aligned = _result(program), variant.store_path == "tma" or program.results[0] in made
    tensors.append(_tensor(d, result, RESULT_ALIGN_BYTES if is_aligned else result.dtype.bytes))
    tensors += [_tensor(name, type_, RESULT_ALIGN_BYTES) for name, type_ in workspace.items()]
    return SignatureView(variant.name, tuple(line for lines in tensors for line in lines))


def _tensor(name: str, type_: TensorType, align: int) -> Lines:
    """Return the entry of one tensor. Raises `ElementTypeError` for a type that no GEMM kernel takes."""
    if type_.dtype not in ELEMENT_TYPES:
        raise ElementTypeError(role="input", tensor=name, dtype=type_.dtype, valid=", ".join(ELEMENT_TYPES))
    return signature_entry(name, ELEMENT_TYPES[type_.dtype], type_, align)


def _result(program: Program) -> TensorType:
    return program.problems[-1].tensor(program.results[0]).type
