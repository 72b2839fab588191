"""Candidates of an attention: every legal choice counted, the best ones listed with where their time goes."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kgen.errors.base import UnsupportedError
from kgen.errors.rules import NoLegalCandidateError
from kgen.families.attention.classify import classify_attention
from kgen.families.attention.cost import RESOURCES, AttentionTime, attention_time
from kgen.families.attention.facts import MAX_ALIGN_BYTES, facts_of
from kgen.families.attention.rules import bind_attention
from kgen.families.attention.rules_facts import AttentionFacts
from kgen.families.rules_files import has_rules, is_lowered
from kgen.ir.problem import Problem
from kgen.planning import TOP
from kgen.planning.choice import Candidate, Candidates, Preference, Preferences, RankedCandidate, order_of
from kgen.rules.diagnose import no_legal_candidate
from kgen.rules.explain import Explanation, explain_best
from kgen.rules.model import Value
from kgen.rules.solve import LegalSet, solve
from kgen.target import Device

OUTPUT_WORDS = {"own": "smem of its own", "over_q": "the smem of Q"}


@dataclass(frozen=True, slots=True)
class AttentionCandidate(Candidate):
    """One legal choice for an attention."""

    def __str__(self) -> str:
        chosen = dict(self.choices)
        if "warps" in chosen:
            held = f"{chosen['buffers']} {'tile' if chosen['buffers'] == 1 else 'tiles'} of keys in LDS"
            return f"{self.number('tile_m')}x{chosen['tile_n']}, {chosen['warps']} warps, {held}"
        groups = f"{self.number('tile_m') // 64} warp groups"
        parts = [f"{chosen['tile_m']}x{chosen['tile_n']}", f"{chosen['stages']} stages", groups]
        parts += ["pingpong"] if chosen["pingpong"] else []
        parts += ["overlapped softmax"] if chosen["overlap"] else []
        outputs = f"O in {OUTPUT_WORDS[str(chosen['o_path'])]}"
        staged = [outputs] if chosen["store_path"] == "tma" else []  # else it is stored from registers
        parts += [f"Q in {chosen['q_path']}", *staged, f"weights in {chosen['p_path']}"]
        parts += [f"{ctas} CTAs a unit"] if (ctas := self.number("ctas_per_unit")) > 1 else []
        parts += ["heads packed"] if chosen["pack_gqa"] else []
        parts += [f"keys in {chosen['splits']} parts"] if chosen["splits"] != 1 else []
        return ", ".join((*parts, f"{chosen['load_path']} loads", f"{chosen['store_path']} stores"))


@dataclass(frozen=True, slots=True)
class RankedAttention(RankedCandidate):
    """An attention candidate with its predicted time; `terms` are of the launch, each resource alone."""


def solve_attention(
    facts: AttentionFacts, device: Device, *, fixed: Mapping[str, Value] | None = None, top: int | None = TOP
) -> Candidates:
    """Return the best legal candidates of an attention on a device. Raises `NoLegalCandidateError`."""
    legal = legal_attentions(facts, device, fixed=fixed)
    time, order = ordered_attentions(legal, facts, device)
    rows = order if top is None else order[:top]
    best = legal.at(rows)
    ranked = tuple(_ranked(best, place, time, int(row)) for place, row in enumerate(rows))
    return Candidates(ranked, legal.total, legal.count, legal.rejections)


def legal_attentions(facts: AttentionFacts, device: Device, *, fixed: Mapping[str, Value] | None = None) -> LegalSet:
    """Return every legal point in solver order. Raises `NoLegalCandidateError`."""
    legal = solve(bind_attention(facts, device), fixed)
    if not legal.count:
        raise no_legal_candidate(legal, fixed or {})
    return legal


def ordered_attentions(legal: LegalSet, facts: AttentionFacts, device: Device) -> tuple[AttentionTime, np.ndarray]:
    """Return the predicted times of legal points, and their rows best first."""
    time = attention_time(legal.columns, facts, device)
    return time, order_of(attention_preferences(legal.columns, time))


def attention_preferences(columns: Mapping[str, np.ndarray], time: AttentionTime) -> Preferences:
    """Return what orders candidates: the time, then fewer splits, less padding, more stages, larger tiles.

    Of tiles with all rows that share keys, those that have the most keys in flight come first, in the largest steps.
    """
    area, few_rows = columns["tile_m"] * columns["tile_n"], columns["few_rows"]
    in_flight = few_rows * columns["stages"] * columns["tile_n"]
    return (
        Preference("predicted time in nanoseconds", np.asarray(np.round(time.total, 3))),
        Preference("all rows that share keys in one tile", 1 - few_rows, few_rows),
        Preference("parts of the keys", columns["splits"]),
        Preference("rows of padding", -columns["packed_rows"] % columns["tile_m"]),
        Preference("head dims to a multiple of", columns["pad"]),
        Preference("keys in flight", -in_flight, in_flight),
        Preference("keys of a step", -few_rows * columns["tile_n"], columns["tile_n"]),
        Preference("stages", -columns["stages"], columns["stages"]),
        Preference("scores of a tile", -area, area),
    )


def explain_attention(facts: AttentionFacts, device: Device, point: Mapping[str, Value]) -> Explanation:
    """Explain a point, which may leave axes open."""
    return explain_best(bind_attention(facts, device), point, lambda legal: ordered_attentions(legal, facts, device)[1])


def why_not_fused(problem: Problem, device: Device) -> str | None:
    """Return why an attention is no single kernel on a device, or None if it is one."""
    arch = device.arch
    if not (has_rules("attention", arch) and is_lowered("attention", arch)):
        return f"no template prints an attention for {arch.title}"
    try:
        facts = facts_of(classify_attention(problem), MAX_ALIGN_BYTES)
        legal_attentions(facts, device)
    except NoLegalCandidateError as error:
        alone = [f"{r['rule']} ({r['text']}: {r['because']})" for r in error.rules if r["removes_all_alone"]]
        return f"no candidate keeps to {alone[0]}" if alone else str(error).splitlines()[0]
    except UnsupportedError as error:
        return str(error).splitlines()[0]
    return None


def _ranked(best: LegalSet, place: int, time: AttentionTime, row: int) -> RankedAttention:
    resources = {name: _us(getattr(time, name)[row]) for name in RESOURCES}
    parts = {"parts": _us(time.parts[row])} if time.parts[row] else {}
    once = {"fill": _us(time.fill[row]), "launch": _us(time.launch)}
    return RankedAttention(
        candidate=AttentionCandidate(best.point(place), best.derived(place)),
        time_us=_us(time.total[row]),
        terms=tuple({**resources, **parts, **once}.items()),
        bound_by=max(resources, key=lambda name: resources[name]),
        ctas=int(time.tiles[row]),
        waves=int(np.ceil(time.waves[row])),
        wave_efficiency=round(float(time.efficiency[row]), 4),
    )


def _us(time: float) -> float:
    return round(float(time), 3)
