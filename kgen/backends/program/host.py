"""What the host code of a program says on every back-end: its tables of variants, what a launch is given."""

from kgen.backends.program.dialect import HostSource, Part
from kgen.backends.source.file_text import choices
from kgen.backends.source.lines import Lines, bracketed, listed, tuple_text
from kgen.ir.program import Program


def tables(source: HostSource) -> Lines:
    """Return the statement that joins the tables of all kernels; none where one table has the name of all."""
    if [part.table for part in source.parts] == ["VARIANTS"]:
        return ()
    return listed("VARIANTS = (", [f"*{part.table}" for part in source.parts], ")")


def launch_entries(source: HostSource) -> Lines:
    """Return the launch function of each variant, as entries of a dict."""
    return tuple(f'"{v.name}": {v.launch},' for part in source.parts for v in part.variants)


def rules_entries(source: HostSource) -> Lines:
    """Return the rules of each variant, as entries of a dict."""
    return tuple(f'"{v.name}": {v.rules},' for part in source.parts for v in part.variants)


def allocation_entry(shapes: Lines) -> Lines:
    """Return the shapes and strides of the tensors that a case makes, as an entry of its tuple."""
    return (f"{tuple_text(shapes)},",) if len(shapes) == 1 else listed("(", shapes, "),")


def launch_of(source: HostSource, index: int, function: str) -> Lines:
    """Return the launch of a kernel by a function of the host code."""
    part = source.parts[index]
    taken = (f"launches[{index}]", "device", base_addresses(source, part), *part.arguments)
    return bracketed(f"{function}(", taken, ")", indent=12)


def launches_of(source: HostSource, case: str, program: Program) -> Lines:
    """Return for each launch of a case its variants, in the order they are tried."""
    found = [choices(source.plan.variants_of(case, problem.name)) for problem in program.problems]
    return listed("(", found, "),") if len(found) > 1 else (f"{tuple_text(found)},",)


def base_addresses(source: HostSource, part: Part) -> str:
    """Return the base addresses that decide which variant of a kernel runs, all in one number.

    What the host function makes itself is aligned and guards nothing.
    """
    given = {a.name for a in source.program.arguments} & part.tensors
    variants = (v for v in source.plan.variants if v.kernel == part.kernel)
    guarded = dict.fromkeys(t for v in variants for t, _ in v.guard.base_align if t in given)
    for tensor in copied_tensors(source):
        guarded.pop(tensor, None)
    return " | ".join(f"{source.shown[t]}.data_ptr()" for t in guarded) or "0"


def copied_tensors(source: HostSource) -> tuple[str, ...]:
    """Return the arguments that every variant of some kernel needs aligned: elsewhere they are copied first."""
    found: dict[str, None] = {}
    for part in source.parts:
        variants = [v for v in source.plan.variants if v.kernel == part.kernel]
        guards = [dict(v.guard.base_align) for v in variants]
        found |= dict.fromkeys(t for t in guards[0] if all(t in guard for guard in guards))
    return tuple(a.name for a in source.program.arguments if a.name in found)
