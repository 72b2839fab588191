"""What `kgen solve` answers: the ranked candidates of each kernel on one device, and why one choice is not the first.

Between the planning and the command line: it turns a spec's case, or three extents, into questions about kernels, and
compares candidates by where their predicted time goes.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import gcd

from kgen.errors.base import UnsupportedError
from kgen.errors.cli import (
    ChoiceError,
    ExtentsError,
    KernelNotNamedError,
    NoKernelError,
    NoTargetError,
    PointError,
    TileError,
)
from kgen.families.classify import classify
from kgen.families.gemm.rules_facts import IN_DTYPES, OUT_DTYPES, GemmFacts, copies_of
from kgen.families.rules_files import has_rules
from kgen.ir.attention import holds_two_products
from kgen.ir.dtype import DType
from kgen.ir.program import Program
from kgen.planning.candidates import RESOURCES, RankedGemm
from kgen.planning.choice import Candidates, RankedCandidate
from kgen.planning.fixed import fixed_axes
from kgen.planning.solver import Solver, gemm_solver, solver_of
from kgen.request import as_case, as_devices
from kgen.rules.explain import Explanation
from kgen.rules.model import Value
from kgen.rules.nearest import nearest_name
from kgen.spec.model import Spec
from kgen.target import Device, list_devices, load_device

# Letter of --layout -> the contiguous axis of A and of B. The letters are those of BLAS, whose matrices are stored by
# columns: "tn" is what torch.nn.Linear multiplies, and two row-major tensors are "tt".
_A_MAJOR = {"t": "k", "n": "mn"}
_B_MAJOR = {"n": "k", "t": "mn"}
LAYOUTS = ("tn", "nn", "nt", "tt")
_ALIGN_BYTES = 16
_NATURAL = re.compile("[0-9]+")
_MAX_EXTENT, _MAX_ELEMENTS = 10**12, 10**18  # far beyond every memory, and counts of tiles fit 64 bits
ONCE = ("fill", "launch")  # terms of a candidate that pass once per launch
_TILE_AXES = ("tile_m", "tile_n", "tile_k")


@dataclass(frozen=True, slots=True)
class Product:
    """A product as the command line describes it."""

    extents: str
    batch: int = 1
    dtype: str = "bf16"
    out_dtype: str | None = None
    layout: str = "tn"


@dataclass(frozen=True, slots=True)
class Question:
    """One kernel on one device, with the axes that are decided beforehand; `cut` says why the kernels are these."""

    title: str
    kernel: str
    device: Device
    solver: Solver
    fixed: Mapping[str, Value]
    cut: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Why:
    """One point explained. `rank` (from 1) and `ranked` are None when it is not legal."""

    explanation: Explanation
    rank: int | None
    ranked: RankedCandidate | None
    behind: tuple[tuple[str, float], ...]

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        return {
            **self.explanation.to_json(),
            "rank": self.rank,
            "ranked": None if self.ranked is None else self.ranked.to_json(),
            "behind_first_us": {name: round(time, 3) for name, time in self.behind},
        }


@dataclass(frozen=True, slots=True)
class Solution:
    """The answer for one kernel on one device."""

    question: Question
    candidates: Candidates
    why: Why | None

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        asked = self.question
        return {
            "title": asked.title,
            "kernel": asked.kernel,
            "family": asked.solver.family,
            "device": asked.device.name,
            "cut": list(asked.cut),
            "facts": asked.solver.facts.as_mapping(),
            **self.candidates.to_json(),
            "shares_us": [{n: round(t, 3) for n, t in shares(r).items()} for r in self.candidates.ranked],
            "why": None if self.why is None else self.why.to_json(),
        }


def solve_question(question: Question, top: int, why: str | None = None) -> Solution:
    """Return the ranked candidates, and the explanation of the point `why` if one is asked for."""
    found = question.solver.solve(question.fixed, top)
    point = None if why is None else point_of(why, question.solver.family)
    explained = None if point is None else explain_point(question.solver, question.fixed, point)
    return Solution(question, found, explained)


def product_questions(product: Product, targets: Sequence[str]) -> tuple[Question, ...]:
    """Return a question per device for three extents; imports no torch."""
    facts = product_facts(product)
    if not targets:
        raise NoTargetError(name="--gemm", known=", ".join(list_devices()))
    batch = f"{facts.batch} x " if facts.batch != 1 else ""
    title = f"{batch}{facts.m} x {facts.n} x {facts.k} {facts.in_dtype} {product.layout} -> {facts.out_dtype}"
    operands = (facts.m + facts.n) * facts.k * facts.in_bytes
    least_bytes = facts.batch * (operands + facts.m * facts.n * facts.out_bytes)
    devices = [load_device(target) for target in targets]
    return tuple(Question(title, "gemm", device, gemm_solver(facts, device, least_bytes), {}) for device in devices)


def spec_questions(
    spec: Spec, targets: Sequence[str], case: str | None, kernel: str | None = None
) -> tuple[Question, ...]:
    """Return a question per device and kernel for one case of a spec (default: the first); imports torch.

    `kernel` keeps one kernel. Raises `NoKernelError` where the program has none of that name.
    """
    as_case(spec, case)
    found: list[Question] = []
    for device in as_devices(spec, targets):
        asked = kernel_questions(spec, device, case)
        found += asked if kernel is None else [question_of(spec, asked, kernel)]
    return tuple(found)


def question_of(spec: Spec, questions: Sequence[Question], kernel: str | None) -> Question:
    """Return the question about a kernel; it may be left out where there is one. Raises `NoKernelError`."""
    names = [question.kernel for question in questions]
    if kernel is None and len(names) > 1:
        raise KernelNotNamedError(name=spec.name, known=", ".join(names), first=names[0])
    if kernel is not None and kernel not in names:
        raise NoKernelError(name=spec.name, kernel=kernel, known=", ".join(names))
    return questions[0 if kernel is None else names.index(kernel)]


def kernel_questions(spec: Spec, device: Device, case: str | None) -> tuple[Question, ...]:
    """Return a question per kernel of one case (default: the first), in launch order; imports torch."""
    from kgen.pipeline import run

    chosen = as_case(spec, case)
    made = run(replace(spec, cases=(chosen,)), device, stop_after="classify").made
    problems, forms = made["partition"][chosen.id].problems, made["classify"][chosen.id]
    fixed = fixed_axes(spec.fixed_for(chosen.id), tuple(dict.fromkeys(form.family for form in forms)), device)
    title = f"{spec.name}, case {chosen.id}"
    asked = tuple(
        Question(
            title=title if len(problems) == 1 else f"{title}, kernel {problem.name}",
            kernel=problem.name,
            device=device,
            solver=solver_of(form, device),
            fixed=fixed[form.family],
            cut=made["partition"].reasons,
        )
        for problem, form in zip(problems, forms, strict=True)
    )
    return (*asked, *_unprinted(made["lower"][chosen.id], device, asked, title))


def _unprinted(program: Program, device: Device, asked: Sequence[Question], title: str) -> list[Question]:
    """Return a question per attention for which the hardware has rules, and which runs in kernels of several families.

    It is about what one kernel could be: none of these candidates is emitted.
    """
    found: list[Question] = []
    for problem in program.problems if program.plain and has_rules("attention", device.arch) else ():
        if not holds_two_products(problem) or any(q.solver.family == "attention" for q in asked):
            continue
        with suppress(UnsupportedError):
            solver = solver_of(classify(problem, device), device)
            solver.solve({}, 1)
            name = f"{problem.name}_attention"
            found.append(
                Question(f"{title}, {name}: as one kernel, which no template prints", name, device, solver, {})
            )
    return found


def explain_point(solver: Solver, fixed: Mapping[str, Value], point: Mapping[str, Value]) -> Why:
    """Explain a point, which may leave axes open; a legal one is ranked among all candidates with the fixed axes."""
    explanation = solver.explain({**fixed, **point})
    if not explanation.legal:
        return Why(explanation, None, None, ())
    chosen = dict(explanation.point)
    open_fixed = {axis: value for axis, value in fixed.items() if point.get(axis, value) == value}
    (first,) = solver.solve(open_fixed, 1).ranked
    (ranked,) = solver.solve(chosen, 1).ranked
    return Why(explanation, solver.rank(open_fixed, chosen), ranked, behind(ranked, first))


def shares(ranked: RankedCandidate) -> dict[str, float]:
    """Return where the time of a candidate goes, in microseconds: the shares add up to it."""
    if isinstance(ranked, RankedGemm):
        return _shares_of_product(ranked)
    once = {name: ranked.term(name) for name in ONCE}
    rest = ranked.time_us - sum(once.values())
    return {name: rest if name == ranked.bound_by else 0.0 for name in resources_of(ranked)} | once


def resources_of(ranked: RankedCandidate) -> tuple[str, ...]:
    """Return the resources that a candidate's time is predicted for, each as if it alone bound the kernel."""
    return RESOURCES if isinstance(ranked, RankedGemm) else tuple(n for n, _ in ranked.terms if n not in ONCE)


def _shares_of_product(ranked: RankedGemm) -> dict[str, float]:
    busy = ranked.waves * ranked.term("mma")
    return {
        "products": busy * ranked.wave_efficiency * ranked.padding_efficiency,  # on elements of D, all units busy
        "padding": busy * ranked.wave_efficiency * (1 - ranked.padding_efficiency),  # on elements outside of D
        "part-filled waves": busy * (1 - ranked.wave_efficiency),  # while the last grid wave leaves units idle
        "stalls": ranked.waves * ranked.term("mainloop") - busy,  # the mainloop beyond the tensor cores' time
        "exchange": ranked.waves * dict(ranked.terms).get("exchange", 0.0),  # of what a cluster's CTAs hold of a tile
        "epilogue": ranked.waves * ranked.term("epilogue"),
        "fill": ranked.term("fill"),
        "cut": dict(ranked.terms).get("cut", 0.0),  # of fp32 operands into planes
        "launch": ranked.term("launch"),
    }


def behind(ranked: RankedCandidate, first: RankedCandidate) -> tuple[tuple[str, float], ...]:
    """Return the differences in time from the first candidate by share, the largest loss first, none below 1 ns."""
    pairs = zip(shares(ranked).items(), shares(first).items(), strict=True)
    differences = [(name, mine - other) for (name, mine), (_, other) in pairs]
    return tuple(sorted(((n, d) for n, d in differences if abs(d) >= 1e-3), key=lambda item: -item[1]))


def product_facts(product: Product) -> GemmFacts:
    """Return the facts of dense operands of the given extents."""
    m, n, k = _extents(product.extents)
    if max(m * n, m * k, n * k) * product.batch > _MAX_ELEMENTS:
        raise ExtentsError(text=product.extents, reason="matrices of more than 10^18 elements")
    _require("--dtype", product.dtype, IN_DTYPES)
    out_dtype = product.out_dtype or ("fp32" if product.dtype == "tf32" else product.dtype)
    _require("--out-dtype", out_dtype, OUT_DTYPES)
    _require("--layout", product.layout, LAYOUTS)
    in_dtype = DType("fp32" if product.dtype == "tf32" else product.dtype)
    in_bytes = in_dtype.bytes
    out_bytes = DType(out_dtype).bytes
    a_major, b_major = _A_MAJOR[product.layout[0]], _B_MAJOR[product.layout[1]]
    return GemmFacts(
        m=m,
        n=n,
        k=k,
        batch=product.batch,
        in_dtype=product.dtype,
        out_dtype=out_dtype,
        in_bytes=in_bytes,
        out_bytes=out_bytes,
        a_major=a_major,
        b_major=b_major,
        a_align=gcd(_ALIGN_BYTES, (k if a_major == "k" else m) * in_bytes),
        b_align=gcd(_ALIGN_BYTES, (k if b_major == "k" else n) * in_bytes),
        d_align=gcd(_ALIGN_BYTES, n * out_bytes),
        promo=copies_of(in_dtype),
    )


def point_of(text: str, family: str = "gemm") -> dict[str, Value]:
    """Return the axis values of `--why`: other axes by name, those of a product's tile by their place, too."""
    by_place = _TILE_AXES if family == "gemm" else ()
    point: dict[str, Value] = {}
    for position, part in enumerate(piece.strip() for piece in text.split(",")):
        if _NATURAL.fullmatch(part) and position < len(by_place):
            axis, value = by_place[position], part
        elif found := re.fullmatch(r"(\w+)\s*=\s*(\w+)", part):
            axis, value = found[1], found[2]
        elif _NATURAL.fullmatch(part) and not by_place:
            raise PointError(text=text, family=family, reason=f"{part!r} names no axis")
        else:
            fourth = "a number after tile_k" if _NATURAL.fullmatch(part) else "neither a number nor axis=value"
            raise TileError(text=text, reason=f"{part!r} is {fourth}")
        if axis in point:
            raise TileError(text=text, reason=f"{part!r} gives {axis} a second value")
        point[axis] = int(value) if _NATURAL.fullmatch(value) else value
    return point


def _extents(text: str) -> tuple[int, int, int]:
    parts = [part.strip() for part in text.replace("x", ",").split(",")]
    if len(parts) != 3:
        raise ExtentsError(text=text, reason=f"{len(parts)} extents")
    for part in parts:
        if not _NATURAL.fullmatch(part) or int(part) > _MAX_EXTENT:
            raise ExtentsError(text=text, reason=f"{part!r} is no extent")
    m, n, k = map(int, parts)
    return m, n, k


def _require(option: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ChoiceError(option=option, value=value, known=", ".join(known), nearest=nearest_name(value, known))
