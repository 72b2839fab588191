"""Candidates of a GEMM: every legal choice counted, the best ones listed in order with the terms of their time.

The public results of `kgen solve` and the input of the plan.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kgen.families.gemm.rules import bind_gemm, gemm_rules
from kgen.families.gemm.rules_facts import GemmFacts
from kgen.planning import TOP
from kgen.planning.rank import Ranking, rank_gemm
from kgen.rules.diagnose import no_legal_candidate
from kgen.rules.explain import Explanation, complete, explain
from kgen.rules.model import Value
from kgen.rules.solve import LegalSet, RuleRejection, check_point, solve
from kgen.spec.model import FixedAxis
from kgen.target import Device

RESOURCES = ("mma", "smem", "l2", "memory", "latency", "staged")


@dataclass(frozen=True, slots=True)
class Size:
    """A tile: what one CTA computes in one mainloop step."""

    m: int
    n: int
    k: int

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}"


@dataclass(frozen=True, slots=True)
class Candidate:
    """One legal choice of every axis, with the lets that follow from it."""

    choices: tuple[tuple[str, Value], ...]
    derived: tuple[tuple[str, int | float], ...]

    @property
    def size(self) -> Size:
        """The tile."""
        return Size(self.number("tile_m"), self.number("tile_n"), self.number("tile_k"))

    def value(self, name: str) -> Value:
        """Return the choice on an axis."""
        return dict(self.choices)[name]

    def number(self, name: str) -> int:
        """Return a choice, or a let, that is a whole number."""
        found = {**dict(self.derived), **dict(self.choices)}[name]
        assert not isinstance(found, str) and int(found) == found, f"{name} = {found}"
        return int(found)

    def __str__(self) -> str:
        cluster = f"{self.value('cluster_m')}x{self.value('cluster_n')}"
        groups = f"{self.value('wg_m')}x{self.value('wg_n')}"
        paths = f"{self.value('load_path')} loads, {self.value('store_path')} stores"
        return (
            f"{self.size}, {self.value('stages')} stages, cluster {cluster}, {groups} warp groups "
            f"{self.value('schedule')}, {paths}"
        )

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        return {"choices": dict(self.choices), "derived": dict(self.derived)}


@dataclass(frozen=True, slots=True)
class RasterOrder:
    """Order of the tiles: bands of `group` clusters across, each band walked along the axis `along` (m or n).

    Inside a band the index across the band runs fastest, so `group` clusters share their rows (or columns) in L2.
    """

    along: str
    group: int

    @property
    def group_along(self) -> str:
        """The other axis: the one that the clusters of a group lie side by side on."""
        return "n" if self.along == "m" else "m"

    def __str__(self) -> str:
        return f"along {self.along}, groups of {self.group}"


@dataclass(frozen=True, slots=True)
class RankedCandidate:
    """A candidate with its predicted time. `terms` are in microseconds: of one tile, then once per launch."""

    candidate: Candidate
    time_us: float
    terms: tuple[tuple[str, float], ...]
    bound_by: str
    ctas: int  # tiles of the whole grid
    waves: int
    wave_efficiency: float
    padding_efficiency: float
    raster: RasterOrder

    def term(self, name: str) -> float:
        """Return one term."""
        return dict(self.terms)[name]

    def __str__(self) -> str:
        return (
            f"{self.time_us:.1f} us  {self.candidate}, {self.waves} grid waves {self.wave_efficiency:.0%} full, "
            f"bound by {self.bound_by}, tiles {self.raster}"
        )

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        return {
            **self.candidate.to_json(),
            "time_us": self.time_us,
            "terms_us": dict(self.terms),
            "bound_by": self.bound_by,
            "ctas": self.ctas,
            "waves": self.waves,
            "wave_efficiency": self.wave_efficiency,
            "padding_efficiency": self.padding_efficiency,
            "raster": {"along": self.raster.along, "group": self.raster.group},
        }


@dataclass(frozen=True, slots=True)
class Candidates:
    """The ranked head of the legal set, and what the rules removed from the whole grid."""

    ranked: tuple[RankedCandidate, ...]
    total_points: int
    legal_count: int
    rejections: tuple[RuleRejection, ...]

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        return {
            "ranked": [r.to_json() for r in self.ranked],
            "total_points": self.total_points,
            "legal_count": self.legal_count,
            "rejections": [r.to_json() for r in self.rejections],
        }


def solve_gemm(
    facts: GemmFacts, device: Device, *, fixed: Mapping[str, Value] | None = None, top: int | None = TOP
) -> Candidates:
    """Return the best legal candidates of a product on a device.

    `fixed` gives axes their value beforehand; `top` of None lists the whole legal set. Raises `NoLegalCandidateError`.
    """
    legal = legal_set(facts, device, fixed=fixed)
    ranking = rank_gemm(legal.columns, facts, device)
    rows = ranking.order if top is None else ranking.order[:top]
    ranked = tuple(_ranked(legal, ranking, int(row)) for row in rows)
    return Candidates(ranked, legal.total, legal.count, legal.rejections)


def legal_set(facts: GemmFacts, device: Device, *, fixed: Mapping[str, Value] | None = None) -> LegalSet:
    """Return every legal point in solver order. Raises `NoLegalCandidateError`."""
    legal = solve(bind_gemm(facts, device), fixed)
    if not legal.count:
        raise no_legal_candidate(legal, fixed or {})
    return legal


def fixed_axes(fixed: tuple[FixedAxis, ...], device: Device) -> dict[str, Value]:
    """Return the axis values that a spec decides; raise at its place in the spec for one that no candidate has."""
    rules = gemm_rules(device.arch)
    values: dict[str, Value] = {}
    for axis in fixed:
        value: Any = axis.value  # a list of numbers, too: `check_point` refuses it, for it is in no domain
        check_point(rules, {axis.axis: value}, axis.where)
        values[axis.axis] = value
    return values


def candidate_at(legal: LegalSet, row: int) -> Candidate:
    """Return one row of the legal set as a candidate."""
    return Candidate(legal.point(row), legal.derived(row))


def explain_gemm(facts: GemmFacts, device: Device, point: Mapping[str, Value]) -> Explanation:
    """Explain a point, which may leave axes open: the best legal completion, else the one that breaks fewest rules."""
    bound = bind_gemm(facts, device)
    legal = solve(bound, point)
    if not legal.count:
        return explain(bound, complete(bound, point))
    best = int(rank_gemm(legal.columns, facts, device).order[0])
    return explain(bound, dict(legal.point(best)))


def _ranked(legal: LegalSet, ranking: Ranking, row: int) -> RankedCandidate:
    tile, raster = ranking.tile, ranking.raster
    resources = {name: _us(getattr(tile, name)[row]) for name in RESOURCES}
    once = {"fill": _us(tile.fill[row]), "launch": _us(tile.launch)}
    per_tile = {"mainloop": _us(tile.mainloop[row]), "epilogue": _us(tile.epilogue[row])}
    return RankedCandidate(
        candidate=candidate_at(legal, row),
        time_us=_us(ranking.total[row]),
        terms=tuple({**resources, **per_tile, **once}.items()),
        bound_by=max(resources, key=lambda name: resources[name]),
        ctas=int(ranking.ctas[row]),
        waves=int(ranking.waves.waves[row]),
        wave_efficiency=round(float(ranking.waves.efficiency[row]), 4),
        padding_efficiency=round(float(ranking.padding[row]), 4),
        raster=RasterOrder("m" if raster.along_m[row] else "n", int(raster.group[row])),
    )


def _us(time: float) -> float:
    return round(float(time), 3)
