"""Candidates of a GEMM: every legal choice counted, the best ones listed in order with the terms of their time.

The public results of `kgen solve` and the input of the plan.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kgen.families.gemm.cost import CUT_LAUNCHES
from kgen.families.gemm.rules import bind_gemm
from kgen.families.gemm.rules_facts import GemmFacts
from kgen.planning import TOP
from kgen.planning.choice import Candidate, Candidates, RankedCandidate
from kgen.planning.rank import Ranking, rank_gemm
from kgen.rules.diagnose import no_legal_candidate
from kgen.rules.explain import Explanation, explain_best
from kgen.rules.model import Value
from kgen.rules.solve import LegalSet, solve
from kgen.target import Device

RESOURCES = ("mma", "smem", "l2", "memory", "latency", "staged")


@dataclass(frozen=True, slots=True)
class Size:
    """A tile: what one CTA computes in one mainloop step; its `m` lies along n where operands are exchanged."""

    m: int
    n: int
    k: int

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}"


@dataclass(frozen=True, slots=True)
class GemmCandidate(Candidate):
    """One legal choice of every axis of a GEMM, with the lets that follow from it."""

    @property
    def size(self) -> Size:
        """The tile."""
        return Size(self.number("tile_m"), self.number("tile_n"), self.number("tile_k"))

    def __str__(self) -> str:
        chosen = dict(self.choices)
        parts = [str(self.size), f"{chosen['stages']} stages"]
        if "cluster_m" in chosen:
            parts.append(f"cluster {chosen['cluster_m']}x{chosen['cluster_n']}")
        if "wg_m" in chosen:
            parts.append(f"{chosen['wg_m']}x{chosen['wg_n']} warp groups {chosen['schedule']}")
        if "warps_m" in chosen:
            parts.append(f"{chosen['warps_m']}x{chosen['warps_n']} warps of {chosen['mma']}x{chosen['mma']} MFMAs")
        if chosen.get("split_k", 1) != 1:
            parts.append(f"k in {chosen['split_k']} parts")
        if chosen.get("cluster_k", 1) != 1:
            parts.append(f"k over {chosen['cluster_k']} CTAs of a cluster")
        if chosen.get("resident", 1) != 1:
            parts.append(f"{chosen['resident']} CTAs on an SM")
        if chosen.get("swap"):
            parts.append("operands exchanged")
        return ", ".join((*parts, f"{chosen['load_path']} loads", f"{chosen['store_path']} stores"))


@dataclass(frozen=True, slots=True)
class RasterOrder:
    """Order of the tiles: bands of `group` clusters across, each band walked along the axis `along` (m or n).

    Inside a band the index across the band runs fastest, so `group` clusters share their rows (or columns) in L2. With
    several `dies`, each has an L2 of its own and gets a contiguous share of the tiles.
    """

    along: str
    group: int
    dies: int = 1

    @property
    def group_along(self) -> str:
        """The other axis: the one that the clusters of a group lie side by side on."""
        return "n" if self.along == "m" else "m"

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        shares = {"dies": self.dies} if self.dies > 1 else {}
        return {"along": self.along, "group": self.group, **shares}

    def __str__(self) -> str:
        shares = f", a share for each of {self.dies} dies" if self.dies > 1 else ""
        return f"along {self.along}, groups of {self.group}{shares}"


@dataclass(frozen=True, slots=True)
class RankedGemm(RankedCandidate):
    """A GEMM candidate with its predicted time. `terms` are of one tile, then once per launch; `ctas` are the tiles."""

    candidate: GemmCandidate
    padding_efficiency: float
    raster: RasterOrder
    overlap_us: float = 0.0  # that each of its kernels saves by starting while the one before it ends

    def __str__(self) -> str:
        return f"{RankedCandidate.__str__(self)}, tiles {self.raster}{self.start_words}"

    @property
    def start_words(self) -> str:
        """Return how its kernels start, after a comma; nothing where they start when all before them have ended."""
        return f", starts while the kernel before ends, {self.overlap_us:g} us earlier" if self.overlap_us else ""

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        return {
            **RankedCandidate.to_json(self),
            "padding_efficiency": self.padding_efficiency,
            "raster": self.raster.to_json(),
            **({"overlap_us": self.overlap_us} if self.overlap_us else {}),
        }


@dataclass(frozen=True, slots=True)
class GemmCandidates(Candidates):
    """The ranked head of a GEMM's legal set."""

    ranked: tuple[RankedGemm, ...]


def solve_gemm(
    facts: GemmFacts, device: Device, *, fixed: Mapping[str, Value] | None = None, top: int | None = TOP
) -> GemmCandidates:
    """Return the best legal candidates of a product on a device.

    `fixed` gives axes their value beforehand; `top` of None lists the whole legal set. Raises `NoLegalCandidateError`.
    """
    legal = legal_set(facts, device, fixed=fixed)
    ranking = rank_gemm(legal.columns, facts, device)
    rows = ranking.order if top is None else ranking.order[:top]
    dies = int(device.value("quantities.dies"))
    best = legal.at(rows)
    ranked = tuple(_ranked(candidate_at(best, place), ranking, int(row), dies) for place, row in enumerate(rows))
    return GemmCandidates(ranked, legal.total, legal.count, legal.rejections)


def legal_set(facts: GemmFacts, device: Device, *, fixed: Mapping[str, Value] | None = None) -> LegalSet:
    """Return every legal point in solver order. Raises `NoLegalCandidateError`."""
    legal = solve(bind_gemm(facts, device), fixed)
    if not legal.count:
        raise no_legal_candidate(legal, fixed or {})
    return legal


def candidate_at(legal: LegalSet, row: int) -> GemmCandidate:
    """Return one row of the legal set as a candidate."""
    return GemmCandidate(legal.point(row), legal.derived(row))


def explain_gemm(facts: GemmFacts, device: Device, point: Mapping[str, Value]) -> Explanation:
    """Explain a point, which may leave axes open."""
    return explain_best(bind_gemm(facts, device), point, lambda legal: rank_gemm(legal.columns, facts, device).order)


def _ranked(candidate: GemmCandidate, ranking: Ranking, row: int, dies: int) -> RankedGemm:
    tile, raster = ranking.tile, ranking.raster
    resources = {name: _us(getattr(tile, name)[row]) for name in RESOURCES}
    overlap = ranking.overlap[row]
    others = {"sum_parts": tile.sum_parts[row], "cut": tile.cut[row] and tile.cut[row] - CUT_LAUNCHES * overlap}
    parts = {name: _us(time) for name, time in others.items() if time}
    starts = int(ranking.starts[row])
    once = {"fill": _us(starts * tile.fill[row]), **parts, "launch": _us(tile.launch - overlap)}
    exchange = {"exchange": _us(tile.exchange[row])} if tile.exchange[row] else {}
    per_tile = {"mainloop": _us(tile.mainloop[row]), **exchange, "epilogue": _us(tile.epilogue[row])}
    return RankedGemm(
        candidate=candidate,
        time_us=_us(ranking.total[row]),
        terms=tuple({**resources, **per_tile, **once}.items()),
        bound_by=max(resources, key=lambda name: resources[name]),
        ctas=int(ranking.ctas[row]),
        waves=int(ranking.waves.waves[row]),
        wave_efficiency=round(float(ranking.waves.efficiency[row]), 4),
        padding_efficiency=round(float(ranking.padding[row]), 4),
        raster=RasterOrder("m" if raster.along_m[row] else "n", int(raster.group[row]), dies),
        overlap_us=_us(overlap),
    )


def _us(time: float) -> float:
    return round(float(time), 3)
