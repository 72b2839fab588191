"""Candidates of a loop kernel: every legal choice counted, the best ones listed with where their time goes."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kgen.families.strided.cost import RESOURCES, LoopTime, loop_time
from kgen.families.strided.facts import LoopFacts
from kgen.families.strided.rules import bind_loop
from kgen.planning import TOP
from kgen.planning.choice import Candidate, Candidates, Preference, Preferences, RankedCandidate, order_of
from kgen.rules.diagnose import no_legal_candidate
from kgen.rules.explain import Explanation, explain_best
from kgen.rules.model import Value
from kgen.rules.solve import LegalSet, solve
from kgen.target import Device

RESOLUTION = 0.01  # relative: candidates whose predictions differ by less count as equal
TYPICAL_THREADS = 256
CLUSTER_GAIN = 0.04  # relative: what a cluster has to gain by its prediction, which is the least certain one
FINE = 0.004  # relative: what vectors ahead have to gain among candidates that are equal otherwise
STAGED_GAIN = 0.03  # relative: what staging in smem has to gain beside registers, whose text is shorter


@dataclass(frozen=True, slots=True)
class LoopCandidate(Candidate):
    """One legal choice for a loop kernel."""

    def __str__(self) -> str:
        chosen = dict(self.choices)
        vectors = f"{chosen['steps']} x {chosen['vec']} elements a thread, {chosen['threads']} threads"
        if "schedule" not in chosen:
            return vectors
        cluster = f", cluster {chosen['cluster']}" if chosen.get("cluster", 1) != 1 else ""
        ahead = f", {chosen['ahead']} ahead" if chosen.get("ahead", 0) else ""
        return f"{chosen['schedule']}, {vectors}, {chosen['row_threads']} of them a row{cluster}{ahead}"


def solve_loop(
    family: str, facts: LoopFacts, device: Device, *, fixed: Mapping[str, Value] | None = None, top: int | None = TOP
) -> Candidates:
    """Return the best legal candidates of a loop kernel on a device. Raises `NoLegalCandidateError`."""
    legal = legal_loops(family, facts, device, fixed=fixed)
    time, order = ordered_loops(legal, facts, device)
    rows = order if top is None else order[:top]
    best = legal.at(rows)
    ranked = tuple(_ranked(best, place, time, int(row)) for place, row in enumerate(rows))
    return Candidates(ranked, legal.total, legal.count, legal.rejections)


def legal_loops(family: str, facts: LoopFacts, device: Device, *, fixed: Mapping[str, Value] | None = None) -> LegalSet:
    """Return every legal point in solver order. Raises `NoLegalCandidateError`."""
    legal = solve(bind_loop(family, facts, device), fixed)
    if not legal.count:
        raise no_legal_candidate(legal, fixed or {})
    return legal


def ordered_loops(legal: LegalSet, facts: LoopFacts, device: Device) -> tuple[LoopTime, np.ndarray]:
    """Return the predicted times of legal points, and their rows best first."""
    columns = legal.named
    time = loop_time(columns, facts, device)
    return time, loop_order(columns, time)


def loop_order(columns: Mapping[str, np.ndarray], time: LoopTime) -> np.ndarray:
    """Return the rows of candidates best first."""
    return order_of(loop_preferences(columns, time))


def loop_preferences(columns: Mapping[str, np.ndarray], time: LoopTime) -> Preferences:
    """Return what orders candidates: the time over the best, in steps of what the model resolves.

    Among equals, longer vectors, rows read once, smaller clusters and long runs down columns come first, then elements
    in registers, then few vectors a thread, then CTAs of about 256 threads, then few threads of a row, then the time in
    finer steps, then few vectors ahead, then the time itself in nanoseconds.
    """
    cluster = columns.get("cluster", np.ones_like(columns["vec"]))
    size = np.abs(np.log2(columns["threads"] / TYPICAL_THREADS))
    total = time.total * np.where(cluster > 1, 1 + CLUSTER_GAIN, 1.0) * np.where(time.staged, 1 + STAGED_GAIN, 1.0)
    resolved: np.ndarray = np.floor(np.log(total / total.min()) / RESOLUTION)
    return (
        Preference("predicted time", resolved, total),
        Preference("elements of a vector", -columns["vec"], columns["vec"]),
        Preference("second reads of rows", time.rereads),
        Preference("CTAs of a cluster", cluster),
        Preference("runs down columns", -time.run, time.run),
        Preference("elements in smem", time.staged),
        Preference("vectors of a thread", time.steps),
        Preference(f"threads, about {TYPICAL_THREADS},", size, columns["threads"]),
        Preference("threads along a row", time.sharing),
        Preference("predicted time, finer", np.floor(np.log(total / total.min()) / FINE), total),
        Preference("vectors ahead", columns.get("ahead", np.zeros_like(columns["vec"]))),
        Preference("predicted time in nanoseconds", np.asarray(np.round(time.total, 3))),
    )


def explain_loop(family: str, facts: LoopFacts, device: Device, point: Mapping[str, Value]) -> Explanation:
    """Explain a point, which may leave axes open."""
    return explain_best(bind_loop(family, facts, device), point, lambda legal: ordered_loops(legal, facts, device)[1])


def _ranked(best: LegalSet, place: int, time: LoopTime, row: int) -> RankedCandidate:
    resources = {name: _us(getattr(time, name)[row]) for name in RESOURCES}
    once = {"fill": _us(time.fill), "launch": _us(time.launch)}
    return RankedCandidate(
        candidate=LoopCandidate(best.point(place), best.derived(place)),
        time_us=_us(time.total[row]),
        terms=tuple({**resources, **once}.items()),
        bound_by=max(resources, key=lambda name: resources[name]),
        ctas=int(best.columns["ctas"][place]),
        waves=int(time.waves[row]),
        wave_efficiency=round(float(time.efficiency[row]), 4),
    )


def _us(time: float) -> float:
    return round(float(time), 3)
