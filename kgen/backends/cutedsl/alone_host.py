"""AloneHostView: the host code of one kernel whose arguments are copied where they are not aligned.

Each case has one variant then, so that nothing is left to choose at a call.
"""

from typing import Final

from kgen.backends.cutedsl.program_host import follows_sms
from kgen.backends.cutedsl.program_views import AloneCaseView, AloneHostView
from kgen.backends.program.dialect import HostSource
from kgen.backends.program.host import allocation_entry, base_addresses, copied_tensors
from kgen.backends.program.views import EntryView
from kgen.backends.source.file_text import (
    allocation_shapes,
    allocations,
    plan_key,
    returned,
    string_lines,
    unread_arguments,
)
from kgen.backends.source.lines import LINE, Lines, bracketed, tuple_text
from kgen.ir.program import Program

_UNTIL_DEVICE: Final = "made once per process and device."


def is_alone(source: HostSource) -> bool:
    """Return whether a program is one kernel, one launch function, and its cases and nothing else say what runs."""
    if len(source.parts) > 1 or len({v.launch for v in source.parts[0].variants}) > 1:
        return False
    (part,) = source.parts
    counts = {len(source.plan.variants_of(case, part.kernel)) for case in source.programs}
    return counts == {1} and base_addresses(source, part) == "0"


def alone_host_view(source: HostSource) -> AloneHostView:
    """Return what the template of the host code of one kernel prints."""
    program, shown, (part,) = source.program, dict(source.shown), source.parts
    first, arguments = part.variants[0], tuple(shown[a.name] for a in program.arguments)
    persistent = follows_sms(source.plan.variants[0])
    sms = "torch.cuda.get_device_properties(device).multi_processor_count"
    return AloneHostView(
        name=source.plan.name,
        signatures=tuple(EntryView(v.name, v.signature) for v in part.variants),
        cases=tuple(_case(source, case, found) for case, found in source.programs.items()),
        launch=first.launch,
        rules=first.rules,
        grid_example=", cutlass.Int32(1)" if persistent else "",
        compiled_doc=f"The function of a variant{', and the SMs of the device' if persistent else ''}; {_UNTIL_DEVICE}",
        compiled=f"loaded(name), {sms}" if persistent else "loaded(name)",
        function="function, sm_count" if persistent else "function",
        head=bracketed("def kernel(", arguments, "):"),
        tensors=bracketed("tensors = [", arguments, "]", indent=4),
        first=arguments[0],
        unread=unread_arguments(program, shown, part.tensors),
        aligned=_aligned([shown[t] for t in copied_tensors(source)]),
        allocations=allocations(program, shown),
        call=bracketed("function(", (*part.arguments, *(("sm_count",) if persistent else ())), ")", indent=12),
        result=returned(program, shown),
        may_be_empty=any(v.form.is_empty for v in source.plan.variants),
    )


def _aligned(names: list[str]) -> Lines:
    if len(names) > 1:
        return bracketed(f"{', '.join(names)} = map(aligned, (", names, "))", indent=4)
    return tuple(f"{name} = aligned({name})" for name in names)


def _allocation_entry(shapes: Lines) -> Lines:
    """Return the shapes and strides of the tensors that a case makes on one line, where they fit."""
    line = f"{tuple_text(shapes)},"
    return (line,) if len(line) + 8 <= LINE else allocation_entry(shapes)


def _case(source: HostSource, case: str, program: Program) -> AloneCaseView:
    (variant,) = source.plan.variants_of(case, source.parts[0].kernel)
    takes = ", ".join(f"{source.shown[a.name]} {a.type}" for a in program.arguments)
    return AloneCaseView(
        key=plan_key(program),
        accepts=string_lines(f"{case}: {takes}", indent=8),
        allocations=_allocation_entry(allocation_shapes(program)),
        variant="None" if variant.form.is_empty else f'"{variant.name}"',
    )
