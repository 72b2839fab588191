"""GemmForms -> variants: solve once per case and alignment class, so that each has its own legal and ranked choice.

The host tries the variants of a case in order; the last one takes any base address that the spec accepts. All variants
of a kernel write D in one way, since they share the text of the epilogue.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kgen.errors.rules import NoLegalCandidateError
from kgen.families.gemm.facts import MAX_ALIGN_BYTES, facts_of
from kgen.families.gemm.form import GemmForm
from kgen.families.gemm.rules_facts import GemmFacts
from kgen.planning.candidates import GemmCandidates, RankedGemm, solve_gemm
from kgen.planning.plan import RUNNERS_UP, Guard, Plan, Variant
from kgen.rules.model import Value
from kgen.target import Device


@dataclass(frozen=True, slots=True)
class GemmVariant(Variant):
    """A variant of a GEMM kernel."""

    form: GemmForm
    facts: GemmFacts
    choice: RankedGemm
    runners_up: tuple[RankedGemm, ...]
    candidates: GemmCandidates

    @property
    def load_path(self) -> str:
        """How operands reach shared memory, as the arch's rules name it: `tma`, `async`, `staged` or `simt`."""
        return str(self.choice.candidate.value("load_path"))

    @property
    def store_path(self) -> str:
        """How D is written: `tma`, `vector` or `direct`, element by element."""
        return str(self.choice.candidate.value("store_path"))


@dataclass(frozen=True, slots=True)
class GemmPlan(Plan):
    """The GEMM variants of a plan."""

    variants: tuple[GemmVariant, ...]


def gemm_plan(plan: Plan) -> GemmPlan:
    """Return a plan with its GEMM variants alone."""
    return GemmPlan(plan.name, plan.device, tuple(v for v in plan.variants if isinstance(v, GemmVariant)), plan.cut)


@dataclass(frozen=True, slots=True)
class _Request:
    """What the solves of one case have in common.

    `base_align` is what the spec promises for every tensor, in bytes; those that the host function makes (`made`) are
    as well aligned as anything asks for.
    """

    kernel: str
    device: Device
    base_align: int
    fixed: Mapping[str, Value]
    made: frozenset[str]

    def facts(self, form: GemmForm, base_align: int) -> GemmFacts:
        """Return the facts where operands of the caller's are aligned to `base_align` bytes."""
        inputs = MAX_ALIGN_BYTES if self.made.issuperset((form.a.tensor, form.b.tensor)) else base_align
        return facts_of(form, inputs, MAX_ALIGN_BYTES if form.d.tensor in self.made else self.base_align)

    def guard(self, form: GemmForm, store_path: Value) -> Guard:
        """Return the base alignments that wide accesses need beyond what an element's type gives.

        Where several columns of D are stored at once, what the epilogue reads along n is read as widely.
        """
        wide = [load.source.tensor for load in form.epilogue_loads if store_path == "vector" and load.source.n == 1]
        given = (t for t in dict.fromkeys((form.a.tensor, form.b.tensor, *wide)) if t not in self.made)
        return Guard(tuple((tensor, MAX_ALIGN_BYTES) for tensor in given))

    def with_axis(self, axis: str, value: Value) -> "_Request":
        return replace(self, fixed={**self.fixed, axis: value})

    def without_cluster(self) -> "_Request":
        """Return the request for a variant that cannot multicast: an axis fixed for the others does not bind it."""
        fixed = {axis: value for axis, value in self.fixed.items() if axis not in ("cluster_m", "cluster_n")}
        return replace(self, fixed=fixed)


def plan_gemm(
    kernel: str,
    forms: Mapping[str, GemmForm],
    device: Device,
    fixed: Mapping[str, Mapping[str, Value]],
    base_align: int,
    made: frozenset[str],
) -> tuple[GemmVariant, ...]:
    """Return the variants of one kernel in all its cases; `fixed` holds the axes that the spec decides, by case.

    `made` names the tensors that the host function allocates. Raises `UnsupportedError` when no candidate is legal,
    with the rules that reject them.
    """
    requests = {case: _Request(kernel, device, base_align, fixed.get(case, {}), made) for case in forms}
    variants = _variants(forms, requests)
    if len({_on_tensor_cores(v) for v in variants}) > 1 and all(form.k for form in forms.values()):
        requests = {case: request.with_axis("load_path", "simt") for case, request in requests.items()}
        variants = _variants(forms, requests)
    if len({v.store_path for v in variants}) > 1:
        variants = _variants(
            forms, {case: request.with_axis("store_path", "direct") for case, request in requests.items()}
        )
    return variants


def _on_tensor_cores(variant: GemmVariant) -> bool:
    return variant.load_path != "simt"


def _variants(forms: Mapping[str, GemmForm], requests: Mapping[str, _Request]) -> tuple[GemmVariant, ...]:
    return tuple(v for case, form in forms.items() for v in _case(case, form, requests[case]))


def _case(case: str, form: GemmForm, request: _Request) -> tuple[GemmVariant, ...]:
    if request.facts(form, request.base_align) == request.facts(form, MAX_ALIGN_BYTES):
        return (_variant(case, form, request.base_align, request),)  # an aligned base would change nothing
    aligned = _variant(case, form, MAX_ALIGN_BYTES, request)
    if request.base_align >= MAX_ALIGN_BYTES or not _on_tensor_cores(aligned):
        return (aligned,)
    stored = request.with_axis("store_path", aligned.store_path)
    fallback = _fallback(case, form, stored, ("store_path",))
    if not _on_tensor_cores(fallback):  # one file, one engine
        fallback = _fallback(case, form, stored.with_axis("load_path", "staged"), ("store_path", "load_path"))
    return (aligned, fallback)


def _fallback(case: str, form: GemmForm, request: _Request, kept: tuple[str, ...]) -> GemmVariant:
    """Return the variant for any base: with the fixed axes where it can have them, else with `kept` of them alone."""
    try:
        return _variant(case, form, request.base_align, request.without_cluster())
    except NoLegalCandidateError:
        fewest = replace(request, fixed={axis: request.fixed[axis] for axis in kept})
        return _variant(case, form, request.base_align, fewest)


def _variant(case: str, form: GemmForm, base_align: int, request: _Request) -> GemmVariant:
    facts = request.facts(form, base_align)
    candidates = solve_gemm(facts, request.device, fixed=request.fixed, top=RUNNERS_UP + 1)
    choice, *others = candidates.ranked
    aligned = base_align >= MAX_ALIGN_BYTES and choice.candidate.value("load_path") != "simt"
    return GemmVariant(
        name=f"{case}_{choice.candidate.value('load_path')}{'' if aligned else '_any'}",
        case=case,
        kernel=request.kernel,
        guard=request.guard(form, choice.candidate.value("store_path")) if aligned else Guard(()),
        form=form,
        facts=facts,
        choice=choice,
        runners_up=tuple(others),
        candidates=candidates,
    )
