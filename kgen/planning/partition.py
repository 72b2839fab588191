"""Program -> Program: the loop kernels of a program, each whole, cut or split, whichever is predicted to be fastest."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count

from kgen.errors.base import UnsupportedError
from kgen.families.classify import classify
from kgen.families.gemm.form import GemmForm
from kgen.families.strided.classify import classify_loop
from kgen.families.strided.cuts import Cut, can_split, cut_after_first_phase, split_reduction, splittable_axes
from kgen.families.strided.facts import MAX_ACCESS_BYTES, facts_of
from kgen.families.strided.online import online
from kgen.families.strided.vectors import as_loop
from kgen.ir.access import Access
from kgen.ir.attention import holds_two_products
from kgen.ir.problem import Contract, Gather, Load, Problem, Reduce, Statement, Store
from kgen.ir.program import Buffer, Program
from kgen.planning.loops import solve_loop
from kgen.planning.predicted import INFINITE, kernel_us
from kgen.target import Device

PARTS = (2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024, 2048, 4096)
FEWER_PARTS = 0.01  # of the time, that fewer parts of a split may cost
VECTOR_GAIN = 0.75  # a loop has to be predicted this much faster than a product: two models are compared
GAIN = 0.97  # a cut has to be predicted this much faster: one kernel is simpler than two


@dataclass(frozen=True, slots=True)
class _Pieces:
    """A problem in kernels, with the predicted time of all of them."""

    problems: tuple[Problem, ...]
    buffers: tuple[Buffer, ...]
    time_us: float
    reasons: tuple[str, ...]


def partition(
    program: Program, device: Device, *, may_cut: bool = True, may_loop: bool = True
) -> tuple[Program, tuple[str, ...]]:
    """Return the program in the kernels that a device is to run, and why these.

    Where it may not cut, each kernel stays whole, and where it may not loop, each product stays one. Raises
    `NoLegalCandidateError` where one then has no candidate.
    """
    problems = tuple(_exponents(problem, device) for problem in program.problems)
    pieces = [_best(problem, device, may_loop) if may_cut else _uncut(problem, device) for problem in problems]
    problems = tuple(p for piece in pieces for p in piece.problems)
    buffers = (*program.buffers, *(b for piece in pieces for b in piece.buffers))
    taken = {t.name for p in program.problems for t in p.tensors} - {b.name for b in program.buffers}
    free = (name for name in (f"buffer_{i}" for i in count()) if name not in taken)
    renamed = {b.name: next(free) for b in buffers}
    names = [program.name] if len(problems) == 1 else [f"{program.name}_{i}" for i in range(len(problems))]
    made = tuple(_renamed(p, name, renamed) for p, name in zip(problems, names, strict=True))
    new = replace(program, problems=made, buffers=tuple(replace(b, name=renamed[b.name]) for b in buffers))
    return new, tuple(reason for piece in pieces for reason in piece.reasons)


def _exponents(problem: Problem, device: Device) -> Problem:
    """Return the problem with sums of exponentials about the largest value in one pass, or in two where that is faster.

    With the largest value of the whole row at hand, what the sum adds are the exponentials that a store wants: a CTA
    that holds the row computes each once. Where clusters share a row, one exchange less is worth more than that.
    """
    if holds_two_products(problem):
        return problem  # an attention: its family keeps the sums in one pass by itself
    one_pass = online(problem)
    has_clusters = any(name == "cluster_portable" for name, _ in device.arch.limits)
    if one_pass == problem or has_clusters or any(isinstance(s, Contract) for s in problem.body):
        return one_pass
    return min(one_pass, problem, key=lambda each: _time(each, device))


def _best(problem: Problem, device: Device, may_loop: bool = True) -> _Pieces:
    if any(isinstance(s, Contract) for s in problem.body):
        return _product(problem, device) if may_loop else _Pieces((problem,), (), 0.0, ())
    whole = _whole(problem, device)
    best = whole
    options = [(c, why, _whole(c.first, device), _whole(c.second, device)) for c, why in _splits(problem, device)]
    options += [(c, why, _best(c.first, device), _best(c.second, device)) for c, why in _cuts(problem)]
    for cut, why, first, second in options:
        time = first.time_us + second.time_us
        if time < best.time_us * GAIN or (best.time_us == INFINITE and time < best.time_us):
            alone = f"{whole.time_us:.1f} us in one kernel" if whole.time_us < INFINITE else "no single kernel is legal"
            reason = f"{problem.name}: {why}, predicted {time:.1f} us; {alone}"
            buffers = (*cut.buffers, *first.buffers, *second.buffers)
            reasons = (reason, *first.reasons, *second.reasons)
            best = _Pieces((*first.problems, *second.problems), buffers, time, reasons)
    return best


def _product(problem: Problem, device: Device) -> _Pieces:
    """Return a product as it is, or a product with a vector as a loop where that is predicted much faster."""
    product = _Pieces((problem,), (), 0.0, ())
    if sum(isinstance(s, Contract) for s in problem.body) > 1:
        return product
    try:
        form = classify(problem, device)
        if not isinstance(form, GemmForm) or min(form.m, form.n) > 1 or form.k < 2:
            return product
        found = _best(as_loop(problem), device)
    except UnsupportedError:
        return product  # the plan says what stands in its way; or no loop walks it, with scales of blocks, say
    time = kernel_us(form, device)
    if found.time_us >= time * VECTOR_GAIN:
        return product
    alone = f"{time:.1f} us on tensor cores" if time < INFINITE else "no product is legal"
    reason = f"{problem.name}: a product with a vector, as a loop predicted {found.time_us:.1f} us; {alone}"
    return replace(found, reasons=(reason, *found.reasons))


def _uncut(problem: Problem, device: Device) -> _Pieces:
    """Return a problem as one kernel. Raises `NoLegalCandidateError`."""
    if not any(isinstance(s, Contract) for s in problem.body):
        form = classify_loop(problem)
        solve_loop(form.family, facts_of(form, MAX_ACCESS_BYTES), device, top=1)
    return _Pieces((problem,), (), 0.0, ())


def _whole(problem: Problem, device: Device) -> _Pieces:
    return _Pieces((problem,), (), _time(problem, device), ())


def _time(problem: Problem, device: Device) -> float:
    """Return the predicted time of one loop kernel in microseconds, infinite where none is legal."""
    return kernel_us(classify_loop(problem), device)


def _names(problem: Problem) -> tuple[str, ...]:
    """Return names for the buffers of a cut, which no other cut has."""
    count = 2 * sum(isinstance(s, Reduce) for s in problem.body)
    return tuple(f"{problem.name}.{i}" for i in range(count))


def _cuts(problem: Problem) -> Iterator[tuple[Cut, str]]:
    found = cut_after_first_phase(problem, _names(problem))
    if found is not None:
        yield found, "cut after the first reductions"


def _splits(problem: Problem, device: Device) -> Iterator[tuple[Cut, str]]:
    """Yield the split that is predicted fastest; of those that take about as long, the one in fewest parts."""
    if not can_split(problem):
        return
    found: list[tuple[float, int, Cut, str]] = []
    most = INFINITE  # what a split may take that is still about as long as the fastest one so far
    for axis in splittable_axes(problem):
        extent = problem.axis(axis).extent
        assert isinstance(extent, int)
        for parts in PARTS:
            if extent % parts or extent // parts < 2:
                continue
            cut = split_reduction(problem, axis, parts, _names(problem))
            time = _time(cut.first, device)
            if time <= most:
                time += _time(cut.second, device)
                most = min(most, time * (1 + FEWER_PARTS))
                found.append((time, parts, cut, f"{axis} reduced in {parts} parts"))
    if found:
        least = min(time for time, *_ in found)
        equal = [entry for entry in found if entry[0] <= least * (1 + FEWER_PARTS)]
        _, _, cut, why = min(equal, key=lambda entry: (entry[1], entry[0]))
        yield cut, why


def _renamed(problem: Problem, name: str, buffers: dict[str, str]) -> Problem:
    """Return the problem under its final name, its buffers under theirs."""
    tensors = tuple(replace(t, name=buffers.get(t.name, t.name)) for t in problem.tensors)
    return replace(problem, name=name, tensors=tensors, body=tuple(_statement(s, buffers) for s in problem.body))


def _statement(s: Statement, buffers: dict[str, str]) -> Statement:
    match s:
        case Load() | Gather() | Store():
            return replace(s, access=_access(s.access, buffers))
        case _:
            return s


def _access(access: Access, buffers: dict[str, str]) -> Access:
    return replace(access, tensor=buffers.get(access.tensor, access.tensor))
