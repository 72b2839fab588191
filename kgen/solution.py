"""What `kgen solve` answers: the ranked candidates of one product on one device, and why one tile is not the first.

Between the planning and the command line: it turns a spec's case, or three extents, into the facts of a product, and
compares candidates by where their predicted time goes.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd

from kgen.errors.cli import ChoiceError, ExtentsError, NoTargetError, TileError
from kgen.families.gemm.rules_facts import IN_DTYPES, OUT_DTYPES, GemmFacts
from kgen.ir.dtype import DType
from kgen.planning.candidates import Candidates, RankedCandidate, explain_gemm, fixed_axes, legal_set, solve_gemm
from kgen.planning.rank import rank_gemm
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
    """One product on one device, with the axes that are decided beforehand."""

    title: str
    facts: GemmFacts
    device: Device
    fixed: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Shares:
    """Where the predicted time of a candidate goes, in microseconds; they add up to it."""

    products: float  # the tensor cores on elements of D, all compute units busy
    padding: float  # the tensor cores on elements outside of D
    quantization: float  # the tensor cores while the last grid wave leaves units idle
    stalls: float  # the mainloop beyond the tensor cores' time
    epilogue: float
    fill: float
    launch: float

    def items(self) -> tuple[tuple[str, float], ...]:
        """Return the shares by the name they are shown with."""
        return (
            ("products", self.products),
            ("padding", self.padding),
            ("part-filled waves", self.quantization),
            ("stalls", self.stalls),
            ("epilogue", self.epilogue),
            ("fill", self.fill),
            ("launch", self.launch),
        )


@dataclass(frozen=True, slots=True)
class Why:
    """One tile explained. `rank` (from 1) and `ranked` are None when it is not legal."""

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
    """The answer for one product on one device."""

    title: str
    device: Device
    facts: GemmFacts
    candidates: Candidates
    why: Why | None

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        return {
            "title": self.title,
            "device": self.device.name,
            "facts": self.facts.as_mapping(),
            **self.candidates.to_json(),
            "shares_us": [{n: round(t, 3) for n, t in shares(r).items()} for r in self.candidates.ranked],
            "why": None if self.why is None else self.why.to_json(),
        }


def solve_question(question: Question, top: int, why: str | None = None) -> Solution:
    """Return the ranked candidates, and the explanation of the tile `why` if one is asked for."""
    q = question
    found = solve_gemm(q.facts, q.device, fixed=q.fixed, top=top)
    explained = None if why is None else explain_tile(q.facts, q.device, q.fixed, tile_point(why))
    return Solution(q.title, q.device, q.facts, found, explained)


def product_questions(product: Product, targets: Sequence[str]) -> tuple[Question, ...]:
    """Return a question per device for three extents; imports no torch."""
    facts = product_facts(product)
    if not targets:
        raise NoTargetError(name="--gemm", known=", ".join(list_devices()))
    batch = f"{facts.batch} x " if facts.batch != 1 else ""
    title = f"{batch}{facts.m} x {facts.n} x {facts.k} {facts.in_dtype} {product.layout} -> {facts.out_dtype}"
    return tuple(Question(title, facts, load_device(target), {}) for target in targets)


def spec_questions(spec: Spec, targets: Sequence[str], case: str | None) -> tuple[Question, ...]:
    """Return a question per device for one case of a spec (default: the first); imports torch."""
    title = f"{spec.name}, case {as_case(spec, case).id}"
    questions = []
    for device in as_devices(spec, targets):
        facts, fixed = case_facts(spec, device, case)
        questions.append(Question(title, facts, device, fixed))
    return tuple(questions)


def explain_tile(facts: GemmFacts, device: Device, fixed: Mapping[str, Value], point: Mapping[str, Value]) -> Why:
    """Explain a point, which may leave axes open; a legal one is ranked among all candidates with the fixed axes."""
    explanation = explain_gemm(facts, device, {**fixed, **point})
    if not explanation.legal:
        return Why(explanation, None, None, ())
    chosen = dict(explanation.point)
    open_fixed = {axis: value for axis, value in fixed.items() if point.get(axis, value) == value}
    legal = legal_set(facts, device, fixed=open_fixed)
    order = rank_gemm(legal.columns, facts, device).order
    rank = next(i for i, row in enumerate(order) if _is_row(legal.point(int(row)), chosen))
    first = solve_gemm(facts, device, fixed=open_fixed, top=1).ranked[0]
    ranked = solve_gemm(facts, device, fixed=chosen, top=1).ranked[0]
    return Why(explanation, rank + 1, ranked, behind(ranked, first))


def _is_row(row: tuple[tuple[str, Value], ...], point: Mapping[str, Value]) -> bool:
    return all(point[axis] == value for axis, value in row)


def shares(ranked: RankedCandidate) -> Shares:
    """Return where the time of a candidate goes."""
    busy = ranked.waves * ranked.term("mma")
    return Shares(
        products=busy * ranked.wave_efficiency * ranked.padding_efficiency,
        padding=busy * ranked.wave_efficiency * (1 - ranked.padding_efficiency),
        quantization=busy * (1 - ranked.wave_efficiency),
        stalls=ranked.waves * ranked.term("mainloop") - busy,
        epilogue=ranked.waves * ranked.term("epilogue"),
        fill=ranked.term("fill"),
        launch=ranked.term("launch"),
    )


def behind(ranked: RankedCandidate, first: RankedCandidate) -> tuple[tuple[str, float], ...]:
    """Return the differences in time from the first candidate by share, the largest loss first, none below 1 ns."""
    pairs = zip(shares(ranked).items(), shares(first).items(), strict=True)
    differences = [(name, mine - other) for (name, mine), (_, other) in pairs]
    return tuple(sorted(((n, d) for n, d in differences if abs(d) >= 1e-3), key=lambda item: -item[1]))


def case_facts(spec: Spec, device: Device, case: str | None) -> tuple[GemmFacts, dict[str, Value]]:
    """Return the facts of one case with aligned bases, and the axes that the spec fixes; imports torch."""
    from kgen.families.gemm.facts import MAX_ALIGN_BYTES, facts_of
    from kgen.pipeline import run

    chosen = as_case(spec, case)
    forms = run(replace(spec, cases=(chosen,)), device, stop_after="classify").made["classify"]
    return facts_of(forms[chosen.id], MAX_ALIGN_BYTES), fixed_axes(spec.fixed_for(chosen.id), device)


def product_facts(product: Product) -> GemmFacts:
    """Return the facts of dense operands of the given extents."""
    m, n, k = _extents(product.extents)
    if max(m * n, m * k, n * k) * product.batch > _MAX_ELEMENTS:
        raise ExtentsError(text=product.extents, reason="matrices of more than 10^18 elements")
    _require("--dtype", product.dtype, IN_DTYPES)
    out_dtype = product.out_dtype or ("fp32" if product.dtype == "tf32" else product.dtype)
    _require("--out-dtype", out_dtype, OUT_DTYPES)
    _require("--layout", product.layout, LAYOUTS)
    in_bytes = DType("fp32" if product.dtype == "tf32" else product.dtype).bytes
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
    )


def tile_point(text: str) -> dict[str, Value]:
    """Return the axis values of `--why`: three numbers for the tile, and other axes by name."""
    point: dict[str, Value] = {}
    for position, part in enumerate(piece.strip() for piece in text.split(",")):
        if _NATURAL.fullmatch(part) and position < len(_TILE_AXES):
            axis, value = _TILE_AXES[position], part
        elif found := re.fullmatch(r"(\w+)\s*=\s*(\w+)", part):
            axis, value = found[1], found[2]
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
