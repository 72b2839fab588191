"""GemmForms -> variants: solve once per case and alignment class, so that each has its own legal and ranked choice.

The host tries the variants of a case in order; the last one takes any base address that the spec accepts. All variants
of a kernel write D in one way, rows along rows or along columns, since they share the text of the epilogue.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from kgen.errors.backend import CasesDifferError
from kgen.errors.rules import NoLegalCandidateError
from kgen.families.gemm.facts import MAX_ALIGN_BYTES, facts_of
from kgen.families.gemm.form import GemmForm
from kgen.families.gemm.rules_facts import GemmFacts
from kgen.ir.dtype import DType
from kgen.ir.tensor import TensorType
from kgen.planning.candidates import GemmCandidates, RankedGemm, solve_gemm
from kgen.planning.plan import RUNNERS_UP, Guard, Plan, Variant
from kgen.planning.planes import cut_operands, row_words
from kgen.rules.model import Value
from kgen.target import Device

_OF_BULK_LOADS = ("cluster_m", "cluster_n", "cluster_k", "resident")  # axes that no other load path has a choice of
_OF_THE_STORE = ("store_path", "swap")  # axes that all variants of a kernel have alike


@dataclass(frozen=True, slots=True)
class GemmVariant(Variant):
    """A variant of a GEMM kernel.

    `form` is what the kernel computes: where the choice exchanges operands, that of the transposed result. `facts` are
    those of the product as it was written, which the rules read.
    """

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

    @property
    def is_exchanged(self) -> bool:
        """Whether A and B have changed places, so that rows of the kernel's D are columns of the result."""
        return _swap_of(self.choice) == 1

    @property
    def cluster_k(self) -> int:
        """How many CTAs of a cluster share a tile and sum a part of k each."""
        return int(dict(self.choice.candidate.choices).get("cluster_k", 1))

    @property
    def split_k(self) -> int:
        """How many CTAs share a tile and write the sums over a part of k each, for a second kernel."""
        return int(dict(self.choice.candidate.choices).get("split_k", 1))

    @property
    def resident(self) -> int:
        """How many CTAs one unit runs at once by choice."""
        return int(dict(self.choice.candidate.choices).get("resident", 1))

    @property
    def cuts(self) -> bool:
        """Whether a kernel before cuts the fp32 operands into planes of 16 bits."""
        return _cuts(self.choice)

    @property
    def overlaps(self) -> bool:
        """Whether its kernels start while the kernel before them in the stream ends, and wait for its results."""
        return self.choice.overlap_us > 0

    @property
    def workspace(self) -> dict[str, TensorType]:
        """The tensors that its launch writes and reads beside D, by name.

        `planes` of both operands; what holds of their `rows`; `parts` of sums, where the rules of an arch say
        how many bytes a CTA writes of them.
        """
        found: dict[str, TensorType] = {}
        if self.cuts:
            operands = cut_operands(self.form, self.facts)
            found["planes"] = TensorType(DType.FP16, (sum(o.plane_elements for o in operands),), (1,))
            found["rows"] = TensorType(DType.FP32, (row_words(operands),), (1,))
        if part_bytes := int(dict(self.choice.candidate.derived).get("part_bytes", 0)):
            sums = self.form.mma_dtype.accumulator
            elements = self.choice.candidate.number("parts_at_once") * part_bytes // sums.bytes
            found["parts"] = TensorType(sums, (elements,), (1,))
        return found


def _cuts(choice: RankedGemm) -> bool:
    return dict(choice.candidate.derived).get("planes", 0) > 0


def _swap_of(choice: RankedGemm) -> Value:
    """Return the choice of exchanged operands; 0 on an arch that has none."""
    return dict(choice.candidate.choices).get("swap", 0)


@dataclass(frozen=True, slots=True)
class GemmPlan(Plan):
    """The GEMM variants of a plan."""

    variants: tuple[GemmVariant, ...]


def gemm_plan(plan: Plan) -> GemmPlan:
    """Return a plan with its GEMM variants alone."""
    variants = tuple(v for v in plan.variants if isinstance(v, GemmVariant))
    return GemmPlan(plan.name, plan.device, variants, plan.cut, plan.dynamic)


@dataclass(frozen=True, slots=True)
class GemmRequest:
    """What the solves of one kernel have in common, in one case.

    `base_align` is what the spec promises for every tensor, in bytes; those that the host function makes (`made`) are
    as well aligned as anything asks for. `dynamic`: an extent is known at run time only.
    """

    kernel: str
    device: Device
    base_align: int
    fixed: Mapping[str, Value]
    made: frozenset[str]
    dynamic: bool = False

    def facts(self, form: GemmForm, base_align: int) -> GemmFacts:
        """Return the facts where operands of the caller's are aligned to `base_align` bytes."""
        inputs = MAX_ALIGN_BYTES if self.made.issuperset(o.tensor for o in form.operands) else base_align
        facts = facts_of(form, inputs, MAX_ALIGN_BYTES if form.d.tensor in self.made else self.base_align)
        return replace(facts, dynamic=int(self.dynamic))

    def guard(self, form: GemmForm, store_path: Value) -> Guard:
        """Return the base alignments that wide accesses need beyond what an element's type gives.

        Where several columns of D are stored at once, what the epilogue reads along n is read as widely.
        """
        wide = [load.source.tensor for load in form.epilogue_loads if store_path == "vector" and load.source.n == 1]
        given = (t for t in dict.fromkeys((*(o.tensor for o in form.operands), *wide)) if t not in self.made)
        return Guard(tuple((tensor, MAX_ALIGN_BYTES) for tensor in given))

    def with_axes(self, **axes: Value) -> "GemmRequest":
        return replace(self, fixed={**self.fixed, **axes})

    def without_bulk_loads(self) -> "GemmRequest":
        """Return the request for a variant of other loads: an axis fixed for bulk loads does not bind it."""
        fixed = {axis: value for axis, value in self.fixed.items() if axis not in _OF_BULK_LOADS}
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
    requests = {case: GemmRequest(kernel, device, base_align, fixed.get(case, {}), made) for case in forms}
    variants = _variants(forms, requests)
    if len({v.is_exchanged for v in variants}) > 1:
        requests = _with_one(requests, "swap", 0)
        variants = _variants(forms, requests)
    if len({v.cuts for v in variants}) > 1:
        requests, variants = _of_one_engine(forms, requests)
    if len({v.store_path for v in variants}) > 1:
        variants = _variants(forms, _with_one(requests, "store_path", "direct"))
    return variants


def _with_one(requests: Mapping[str, GemmRequest], axis: str, value: Value) -> dict[str, GemmRequest]:
    """Return the requests with one value of an axis in all cases: the one that the spec fixes in some, else `value`.

    Raises `CasesDifferError` where it fixes several.
    """
    fixed = {case: request.fixed[axis] for case, request in requests.items() if axis in request.fixed}
    (first, decided), *others = fixed.items() or [("", value)]
    for case, other in others:
        if other != decided:
            kernel, one, another = requests[case].kernel, f"{axis} = {decided}", f"{axis} = {other}"
            raise CasesDifferError(spec=kernel, first=first, second=case, one=one, other=another)
    return {case: request.with_axes(**{axis: decided}) for case, request in requests.items()}


def _of_one_engine(
    forms: Mapping[str, GemmForm], requests: Mapping[str, GemmRequest]
) -> tuple[dict[str, GemmRequest], tuple[GemmVariant, ...]]:
    """Return requests and variants that all cut their operands, or where one cannot, that all do not."""
    for load_path in ("tma", "simt"):
        decided = _with_one(requests, "load_path", load_path)
        with suppress(NoLegalCandidateError):
            return decided, _variants(forms, decided)
    return dict(requests), _variants(forms, requests)


def _variants(forms: Mapping[str, GemmForm], requests: Mapping[str, GemmRequest]) -> tuple[GemmVariant, ...]:
    return tuple(v for case, form in forms.items() for v in _case(case, form, requests[case]))


def _case(case: str, form: GemmForm, request: GemmRequest) -> tuple[GemmVariant, ...]:
    if request.facts(form, request.base_align) == request.facts(form, MAX_ALIGN_BYTES):
        return (_variant(case, form, request.base_align, request),)  # an aligned base would change nothing
    aligned = _variant(case, form, MAX_ALIGN_BYTES, request)
    if request.base_align >= MAX_ALIGN_BYTES or aligned.load_path == "simt" or form.groups:
        return (aligned,)
    kept = (*_OF_THE_STORE, "load_path") if aligned.cuts else _OF_THE_STORE
    shared = {axis: value for axis, value in aligned.choice.candidate.choices if axis in kept}
    return (aligned, _fallback(case, form, request.with_axes(**shared)))


def _fallback(case: str, form: GemmForm, request: GemmRequest) -> GemmVariant:
    """Return the variant for any base: with the fixed axes where it can have them, else right in its own way."""
    try:
        return _variant(case, form, request.base_align, request.without_bulk_loads())
    except NoLegalCandidateError:
        store_only = {axis: value for axis, value in request.fixed.items() if axis in _OF_THE_STORE}
        return _variant(case, form, request.base_align, replace(request, fixed=store_only))


def _variant(case: str, form: GemmForm, base_align: int, request: GemmRequest) -> GemmVariant:
    facts = request.facts(form, base_align)
    candidates = solve_gemm(facts, request.device, fixed=request.fixed, top=RUNNERS_UP + 1)
    choice, *others = candidates.ranked
    aligned = base_align >= MAX_ALIGN_BYTES and choice.candidate.value("load_path") != "simt"
    return GemmVariant(
        name=f"{case}_{choice.candidate.value('load_path')}{'' if aligned else '_any'}",
        case=case,
        kernel=request.kernel,
        guard=request.guard(form, choice.candidate.value("store_path")) if aligned else Guard(()),
        form=form.exchanged if _swap_of(choice) == 1 else form,
        facts=facts,
        choice=choice,
        runners_up=tuple(others),
        candidates=candidates,
        fixed=tuple(request.fixed.items()),
    )
