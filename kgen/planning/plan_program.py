"""Programs in kernels -> Plan: the variants of every kernel, each planned by its family, in the order of launch."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from kgen.errors.rules import NoLegalCandidateError
from kgen.families.attention.form import AttentionForm
from kgen.families.classify import Form
from kgen.families.gemm.form import GemmForm
from kgen.families.strided.form import LoopForm
from kgen.ir.problem import Contract, TensorRole
from kgen.ir.program import Program
from kgen.planning.fixed import fixed_axes
from kgen.planning.fused import with_fused
from kgen.planning.partition import partition
from kgen.planning.plan import Plan, Variant
from kgen.planning.plan_attention import plan_attentions
from kgen.planning.plan_gemm import plan_gemm
from kgen.planning.plan_loops import plan_loop
from kgen.rules.model import Value
from kgen.spec.model import FixedAxis
from kgen.target import Device

Fixed = Mapping[str, Mapping[str, Mapping[str, Value]]]  # case -> family -> axis -> value


@dataclass(frozen=True, slots=True)
class Partition(Mapping[str, Program]):
    """The program of each case in the kernels that the device runs, and the reasons, a line each."""

    programs: Mapping[str, Program]
    reasons: tuple[str, ...]

    def __getitem__(self, case: str) -> Program:
        return self.programs[case]

    def __iter__(self) -> Iterator[str]:
        return iter(self.programs)

    def __len__(self) -> int:
        return len(self.programs)


def partition_all(programs: Mapping[str, Program], device: Device, *, may_loop: bool = True) -> Partition:
    """Partition the programs of all cases; a reason that not all cases share names its case.

    One file has the same kernels in all cases: where cuts would make them differ, every kernel stays whole, if it can,
    and a product is a loop in all cases or in none.
    """
    programs, unfused = with_fused(programs, device)
    made = {case: partition(program, device, may_loop=may_loop) for case, program in programs.items()}
    if may_loop and len({_products(program) for program, _ in made.values()}) > 1:
        made = {case: partition(program, device, may_loop=False) for case, program in programs.items()}
    if len({_kernels(program) for program, _ in made.values()}) > 1:
        with suppress(NoLegalCandidateError):
            made = {case: partition(program, device, may_cut=False) for case, program in programs.items()}
    found = {case: reasons for case, (_, reasons) in made.items()}
    shared = next(iter(found.values()), ())
    if any(reasons != shared for reasons in found.values()):
        shared = tuple(f"case {case}: {reason}" for case, reasons in found.items() for reason in reasons)
    return Partition({case: program for case, (program, _) in made.items()}, (*unfused, *shared))


def _kernels(program: Program) -> tuple[tuple[str, ...], ...]:
    """Return the kernels of a program, each as the tensors that it takes."""
    return tuple(tuple(f"{t.role} {t.name}" for t in problem.tensors) for problem in program.problems)


def _products(program: Program) -> int:
    return sum(isinstance(s, Contract) for problem in program.problems for s in problem.body)


def plan_program(
    name: str,
    forms: Mapping[str, tuple[Form, ...]],
    programs: Mapping[str, Program],
    device: Device,
    fixed: Mapping[str, tuple[FixedAxis, ...]],
    base_align: int,
    cut: tuple[str, ...] = (),
) -> Plan:
    """Return the plan of all kernels in all cases on one device.

    `forms` has the form of each problem of `programs`; `fixed` holds the axes that the spec decides, by case.
    `base_align` is what the spec promises of every base address, in bytes. Raises `UnsupportedError` where no candidate
    of a kernel is legal, with the rules that reject them.
    """
    kernels: dict[str, dict[str, Form]] = {}
    for case, program in programs.items():
        for problem, form in zip(program.problems, forms[case], strict=True):
            kernels.setdefault(problem.name, {})[case] = form
    axes = {
        case: fixed_axes(fixed.get(case, ()), tuple(dict.fromkeys(f.family for f in forms[case])), device)
        for case in programs
    }
    made = frozenset(
        t.name for p in programs.values() for k in p.problems for t in k.tensors if t.role is TensorRole.OUTPUT
    )
    later = _read_later(programs.values())
    found = {
        kernel: _kernel(kernel, by_case, device, axes, base_align, made, later[kernel])
        for kernel, by_case in kernels.items()
    }
    variants = [
        _named(v, name, program)
        for case, program in programs.items()
        for problem in program.problems
        for v in found[problem.name]
        if v.case == case
    ]
    return Plan(name, device, tuple(variants), cut)


def _read_later(programs: Iterable[Program]) -> dict[str, frozenset[str]]:
    """Return, for each kernel, the tensors that kernels after it read."""
    found: dict[str, frozenset[str]] = {}
    for program in programs:
        later: frozenset[str] = frozenset()
        for problem in reversed(program.problems):
            found[problem.name] = found.get(problem.name, frozenset()) | later
            later |= {t.name for t in problem.tensors if t.role is not TensorRole.OUTPUT}
    return found


def _kernel(
    kernel: str,
    forms: Mapping[str, Form],
    device: Device,
    fixed: Fixed,
    base_align: int,
    made: frozenset[str],
    later: frozenset[str],
) -> tuple[Variant, ...]:
    """Return the variants of one kernel in all its cases; a kernel may be a product in some and a loop in others."""
    products = {case: form for case, form in forms.items() if isinstance(form, GemmForm)}
    gemm = {case: fixed[case]["gemm"] for case in products}
    variants: list[Variant] = [*plan_gemm(kernel, products, device, gemm, base_align, made)] if products else []
    attentions = {case: form for case, form in forms.items() if isinstance(form, AttentionForm)}
    if attentions:
        variants += plan_attentions(kernel, attentions, device, {c: fixed[c]["attention"] for c in attentions}, made)
    for case, form in forms.items():
        if isinstance(form, LoopForm):
            variants += plan_loop(case, kernel, form, device, fixed[case][form.family], base_align, made, later)
    return tuple(variants)


def _named(variant: Variant, name: str, program: Program) -> Variant:
    """Return a variant with the number of its kernel in its name, where the program has several."""
    if len(program.problems) == 1:
        return variant
    number, rest = variant.kernel.removeprefix(f"{name}_"), variant.name.removeprefix(variant.case)
    return replace(variant, name=f"{variant.case}_{number}{rest}")
