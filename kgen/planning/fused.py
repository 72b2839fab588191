"""Programs with what takes several anchors in one kernel, where a device runs that and it pays; and why not elsewhere.

Runs before the partition. One file has the same kernels in all cases, and so the choice is one for all of them.
"""

from collections.abc import Mapping
from math import prod

from kgen.errors.base import UnsupportedError
from kgen.errors.rules import NoLegalCandidateError
from kgen.families.classify import classify
from kgen.families.gemm.facts import MAX_ALIGN_BYTES, facts_of
from kgen.families.gemm.form import GemmForm
from kgen.ir.attention import holds_two_products
from kgen.ir.gated import is_gated
from kgen.ir.problem import Gather, Problem
from kgen.ir.program import Program
from kgen.ir.scaled import is_scaled
from kgen.planning.aligned import with_aligned
from kgen.planning.attention import why_not_fused
from kgen.planning.candidates import legal_set
from kgen.planning.predicted import INFINITE, kernel_us
from kgen.target import Device


def with_fused(programs: Mapping[str, Program], device: Device) -> tuple[dict[str, Program], tuple[str, ...]]:
    """Return the programs with what was fused in one kernel each, or in several, and why in several."""
    chosen, reasons = dict(programs), dict[str, None]()
    while any(program.plain for program in chosen.values()):
        chosen, copied = with_aligned(chosen, device)
        reasons |= dict.fromkeys(copied)
        fused = [p for program in chosen.values() if program.plain for p in program.problems]
        found = dict.fromkeys(
            f"{p.name}: {_instead(p)}, for {reason}" for p in fused if (reason := _why_not(p, device)) is not None
        )
        if not found and (slower := _slower(chosen, device)):
            found = {slower: None}
        if not found:
            break
        reasons |= found
        chosen = {case: program.plain or program for case, program in chosen.items()}
    return chosen, tuple(reasons)


def _why_not(problem: Problem, device: Device) -> str | None:
    """Return why what was fused is no single kernel on a device; None if it is one, or nothing was fused."""
    if holds_two_products(problem):
        return why_not_fused(problem, device)
    return _why_no_product(problem, device) if is_gated(problem) or is_scaled(problem) else None


def _instead(problem: Problem) -> str:
    """Return what becomes of what is no single kernel."""
    if is_scaled(problem):
        return "operands are multiplied by their scales in kernels of their own"
    if is_gated(problem):
        return "its products and what is made of them in kernels of their own"
    if any(isinstance(s, Gather) for s in problem.body):
        return "K and V are copied through their table first"
    return "product, softmax and product in kernels of their own"


def _why_no_product(problem: Problem, device: Device) -> str | None:
    try:
        form = classify(problem, device)
        assert isinstance(form, GemmForm)
        legal_set(facts_of(form, MAX_ALIGN_BYTES), device)
    except NoLegalCandidateError as error:
        alone = [f"{r['rule']} ({r['text']}: {r['because']})" for r in error.rules if r["removes_all_alone"]]
        return f"no candidate keeps to {alone[0]}" if alone else str(error).splitlines()[0]
    except UnsupportedError as error:
        return str(error).splitlines()[0]
    return None


def _slower(programs: Mapping[str, Program], device: Device) -> str | None:
    """Return why gates are predicted not to pay, over all cases; None if they do, or there are none."""
    gates = [p.name for program in programs.values() if program.plain for p in program.problems if is_gated(p)]
    if not gates:
        return None
    times = [(_time(p, device), _time(p.plain or p, device)) for p in programs.values()]
    if any(None in pair for pair in times) or prod(one / other for one, other in times if one and other) < 1:
        return None
    shown = ", ".join(f"{one:.1f} us in one kernel, {other:.1f} us in several" for one, other in times)
    return f"{gates[0]}: its products and what is made of them in kernels of their own, predicted {shown}"


def _time(program: Program, device: Device) -> float | None:
    """Return the predicted microseconds of a program's products and loops, None where one has no candidate.

    Attentions are the same kernels with gates and without, and are left out.
    """
    try:
        time = sum(kernel_us(classify(problem, device), device) for problem in program.problems)
    except UnsupportedError:
        return None
    return time if time < INFINITE else None
