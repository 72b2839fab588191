"""ProgramHostView: what each variant is compiled for, and how the host function makes tensors and launches kernels."""

from kgen.backends.cutedsl.program_views import ProgramHostView
from kgen.backends.program.dialect import HostSource
from kgen.backends.program.host import (
    allocation_entry,
    copied_tensors,
    launch_entries,
    launch_of,
    launches_of,
    rules_entries,
    tables,
)
from kgen.backends.program.views import EntryView, ProgramCaseView
from kgen.backends.source.file_text import allocation_shapes, allocations, plan_key, returned, unread_arguments
from kgen.backends.source.lines import Lines, bracketed
from kgen.ir.program import Program
from kgen.planning.plan import Variant
from kgen.planning.plan_attention import AttentionVariant
from kgen.planning.plan_gemm import GemmVariant


def program_host_view(source: HostSource) -> ProgramHostView:
    """Return what the template of the host code prints."""
    plan, parts, program, shown = source.plan, source.parts, source.program, dict(source.shown)
    arguments = tuple(shown[a.name] for a in program.arguments)
    follow_sms = {v.name for v in plan.variants if follows_sms(v)}
    persistent = [v.name for part in parts for v in part.variants if v.name in follow_sms]
    return ProgramHostView(
        name=plan.name,
        tables=tables(source),
        signatures=tuple(EntryView(v.name, v.signature) for part in parts for v in part.variants),
        launches=launch_entries(source),
        rules=rules_entries(source),
        persistent=bracketed("PERSISTENT = [", [f'"{name}"' for name in persistent], "]"),
        accepts=tuple(EntryView(case, _arguments(found, shown)) for case, found in source.programs.items()),
        cases=tuple(_case(source, case, found) for case, found in source.programs.items()),
        head=bracketed("def kernel(", arguments, "):"),
        tensors=bracketed("tensors = [", arguments, "]", indent=4),
        first=arguments[0],
        unread=unread_arguments(program, shown, frozenset(t for part in parts for t in part.tensors)),
        copied=tuple(shown[t] for t in copied_tensors(source)),
        allocations=allocations(program, shown),
        calls=tuple(launch_of(source, index, "run") for index in range(len(parts))),
        result=returned(program, shown),
        may_be_empty=any(v.form.is_empty for v in plan.variants),
    )


def follows_sms(variant: Variant) -> bool:
    """Return whether a launch takes the number of SMs, which its grid follows."""
    if isinstance(variant, AttentionVariant):
        return not variant.few_rows
    return isinstance(variant, GemmVariant) and variant.load_path != "simt"


def _arguments(program: Program, shown: dict[str, str]) -> Lines:
    return tuple(f'"{shown[a.name]} {a.type}",' for a in program.arguments)


def _case(source: HostSource, case: str, program: Program) -> ProgramCaseView:
    return ProgramCaseView(
        key=plan_key(program),
        allocations=allocation_entry(allocation_shapes(program)),
        launches=launches_of(source, case, program),
    )
