"""What a kernel that replaces an incumbent has to keep, and what it is free to choose: `plans/port.md`.

An axis is fixed only where the application needs its value: the incumbent's own tile and thread count are no
requirements. What only a run shows (the incumbent's launch geometry) is added to the report when it is measured.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kgen.ir.problem import Contract, Map, Problem, Reduce, Scan
from kgen.package.limits import worst_rel_err
from kgen.package.parts import PackageParts, results_of
from kgen.package.views import ConstraintRow, PortView


@dataclass(frozen=True, slots=True)
class Constraint:
    """One thing that is fixed, and why, or one axis that is free."""

    name: str
    value: str
    fixed: bool
    because: str


def port_view(parts: PackageParts) -> PortView:
    """Return the view of `plans/port.md`."""
    incumbent = parts.spec.incumbent
    assert incumbent is not None
    found = constraints_of(parts)
    fixed, free = (tuple(_row(c) for c in found if c.fixed is is_fixed) for is_fixed in (True, False))
    return PortView(parts.spec.name, f"{incumbent.file}::{incumbent.entry}", fixed, free)


def _row(constraint: Constraint) -> ConstraintRow:
    return ConstraintRow(*(_cell(text) for text in (constraint.name, constraint.value, constraint.because)))


def _cell(text: str) -> str:
    """Return a text as one cell of a Markdown table: a reason of the user may hold bars and lines."""
    return " ".join(text.split()).replace("|", "\\|")


def constraints_of(parts: PackageParts) -> tuple[Constraint, ...]:
    """Return what a port keeps and what it may choose; nothing where no incumbent is named."""
    if parts.spec.incumbent is None:
        return ()
    return (*_interface(parts), *_meaning(parts), *_fixed_axes(parts), *_free_axes(parts))


def _interface(parts: PackageParts) -> Iterator[Constraint]:
    arguments = ", ".join(i.name for i in parts.inputs)
    made = f"{', '.join(parts.updated)} updated in place" if parts.updated else "new tensors"
    yield Constraint(
        "call", f"({arguments}) -> {made}, on the current stream", True, "callers of the incumbent call it so"
    )
    for case, program in parts.programs:
        for tensor in results_of(program):
            kind = tensor.type
            value = f"{tensor.name}: {kind.dtype} {list(kind.static_shape)}, strides {list(kind.strides)}"
            yield Constraint(f"output format, case {case}", value, True, "what follows the incumbent reads it")


def _meaning(parts: PackageParts) -> Iterator[Constraint]:
    for problem in parts.problems:
        name, nothing = ("epilogue", "none: the product itself is the output")
        ops = [str(s) for s in _after_the_product(problem)]
        if not any(isinstance(s, Contract) for s in problem.body):
            name, nothing = "computation", "none: elements are moved as they are"
            ops = [str(s) for s in problem.body if isinstance(s, Map | Reduce | Scan)]
        of = f" of {problem.name}" if len(parts.problems) > 1 else ""
        yield Constraint(f"{name}{of}", "; ".join(ops) or nothing, True, "the reference defines it")
    sums = {str(s.dtype) for p in parts.problems for s in p.body if isinstance(s, Contract | Reduce | Scan)}
    in_words = f"sums in {', '.join(sorted(sums))}; " if sums else ""
    value = f"{in_words}rel_err at most {worst_rel_err(parts):g} in float64"
    yield Constraint("precision", value, True, "the spec's tolerance and torch's accumulation")


def _after_the_product(problem: Problem) -> Iterator[Map]:
    seen = False
    for statement in problem.body:
        seen = seen or isinstance(statement, Contract | Reduce)
        if seen and isinstance(statement, Map):
            yield statement


def _fixed_axes(parts: PackageParts) -> Iterator[Constraint]:
    for axis in parts.spec.fixed:
        name = axis.axis if axis.case is None else f"{axis.axis}, case {axis.case}"
        yield Constraint(name, str(axis.value), True, axis.because)


def _free_axes(parts: PackageParts) -> Iterator[Constraint]:
    """Yield the axes of each case's first variant that nothing fixes, with the choice that was made."""
    for case, program in parts.programs:
        decided = {f.axis for f in parts.spec.fixed_for(case)}
        for first in parts.first_variants_of(case):
            of = f"{first.kernel}, " if len(program.problems) > 1 else ""
            because = f"free; first of {first.candidates.legal_count} legal candidates by predicted time"
            for axis, value in first.choice.candidate.choices:
                if axis not in decided:
                    yield Constraint(f"{axis}, {of}case {case}", str(value), False, because)
