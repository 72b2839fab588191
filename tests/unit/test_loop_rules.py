"""Rules, candidates and order of the loop families: every candidate meets every rule, no kernel is left without one."""

from dataclasses import replace
from functools import cache

import lower_cases
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from random_loops import drawn
from test_classify_loops import program_of
from test_loop_facts import facts

from kgen.errors.rules import NoLegalCandidateError
from kgen.families.strided.classify import classify_loop
from kgen.families.strided.cost import loop_time
from kgen.families.strided.facts import LoopFacts, facts_of
from kgen.families.strided.rules import bind_loop, loop_rules
from kgen.ir.problem import Contract, Scan
from kgen.planning.loops import (
    CLUSTER_GAIN,
    RESOLUTION,
    STAGED_GAIN,
    explain_loop,
    legal_loops,
    loop_order,
    solve_loop,
)
from kgen.resources import targets_dir
from kgen.rules.edges import edge_points
from kgen.rules.evaluate import Evaluator
from kgen.rules.explain import explain
from kgen.rules.model import Value
from kgen.rules.parse import parse_rules
from kgen.rules.printer import print_file
from kgen.rules.solve import LegalSet, solve
from kgen.target import load_device

H200 = load_device("h200")
FAMILIES = ("reduction", "pointwise")


def e(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype)


@cache
def known() -> dict[str, LoopFacts]:
    x = e(4096, 4096)
    return {
        "softmax": facts(lambda x: x.softmax(-1), x),
        "long_rows": facts(lambda x: x.softmax(-1), e(256, 2**20)),
        "columns": facts(lambda x: x.sum(0), x),
        "column_softmax": facts(lambda x: x.softmax(0), x),
        "moments": facts(lambda x: (x.mean(-1), x.var(-1)), e(64, 99, dtype=torch.float32)),
        "scan": facts(lambda x: x.cumsum(-1), x),
        "scan_down": facts(lambda x: x.cumsum(0), x),
        "argmax": facts(lambda x: x.argmax(-1), x),
        "pointwise": facts(lambda x: x.relu(), x),
        "pointwise_ragged": facts(lambda x: x[:, :99].relu(), x),
        "bytes": facts(lambda x: (x * 2).to(torch.int8), e(64, 4096, dtype=torch.int8)),
        "few_bytes": facts(lambda x: x.amax(-1), e(64, 4096, dtype=torch.uint8)),
        "weighted": facts(lambda x, w: torch.rms_norm(x, (4096,), w), x, e(4096)),
    }


def family_of(found: LoopFacts) -> str:
    return "pointwise" if found.layout == "flat" else "reduction"


def legal(found: LoopFacts) -> LegalSet:
    return legal_loops(family_of(found), found, H200)


def meets_every_rule(legal: LegalSet, pick: int) -> None:
    point = dict(legal.point(pick % legal.count))
    at = Evaluator(legal.bound.rules, legal.bound.facts, point)
    for rule in legal.bound.rules.rules:
        assert (rule.rule.when is not None and not at.holds(rule.rule.when)) or at.holds(rule.rule.condition), rule.name


@given(st.sampled_from(sorted(known())), st.integers(0, 10**9))
@settings(max_examples=80, deadline=None)
def test_every_legal_candidate_meets_every_rule(name: str, pick: int) -> None:
    meets_every_rule(legal(known()[name]), pick)


@pytest.mark.parametrize("seed", range(60))
def test_random_kernels_have_candidates_which_meet_every_rule(seed: int) -> None:
    form = classify_loop(drawn(seed))
    for base_align in (1, 16):
        meets_every_rule(legal(facts_of(form, base_align)), seed * 7919)


@pytest.mark.parametrize("name", lower_cases.ALL)
def test_no_known_operation_is_left_without_a_candidate(name: str) -> None:
    for problem in program_of(name).problems:
        if not any(isinstance(s, Contract) for s in problem.body):
            form = classify_loop(problem)
            for base_align in (1, 16):
                found = solve_loop(form.family, facts_of(form, base_align), H200, top=1)
                schedule = dict(found.ranked[0].candidate.choices).get("schedule")
                assert (schedule == "scan") == any(isinstance(s, Scan) for s in problem.body)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_axis_value_is_reachable_on_the_hardware(family: str) -> None:
    reached: dict[str, set[Value]] = {}
    kinds = [f for f in known().values() if family_of(f) == family]
    if family == "reduction":
        kinds += [replace(known()["softmax"], cols=128 * steps, vector_extent=128 * steps) for steps in range(1, 33)]
    for found in kinds:
        points = solve(bind_loop(family, found, H200, lowered=False))
        for axis in points.bound.rules.axes:
            rows = np.unique(points.columns[axis.name], return_index=True)[1]
            reached.setdefault(axis.name, set()).update(dict(points.point(int(r)))[axis.name] for r in rows)
    assert {a.name: set(a.domain.values) for a in loop_rules(family, H200.arch).axes} == reached


@pytest.mark.parametrize("name", known())
def test_counts_add_up(name: str) -> None:
    found = legal(known()[name])
    assert found.total - found.count == sum(r.removed for r in found.rejections)


@pytest.mark.parametrize("name", known())
def test_the_order_is_the_same_each_time_and_goes_by_time(name: str) -> None:
    found = known()[name]
    family = family_of(found)
    everything = solve_loop(family, found, H200, top=None)
    assert everything == solve_loop(family, found, H200, top=None)
    assert solve_loop(family, found, H200, top=4).ranked == everything.ranked[:4]
    points = legal(found)
    time = loop_time(points.named, found, H200)
    order = loop_order(points.named, time)
    assert sorted(order) == list(range(points.count)) and len(everything.ranked) == points.count

    columns = points.named
    clusters = columns.get("cluster", np.ones_like(columns["vec"]))
    staged = columns.get("schedule", np.full(points.count, "flat", dtype=object)) == "staged"
    total = time.total * np.where(clusters > 1, 1 + CLUSTER_GAIN, 1) * np.where(staged, 1 + STAGED_GAIN, 1)

    def key(row: int) -> tuple[float, ...]:
        resolved = np.floor(np.log(total[row] / total.min()) / RESOLUTION)
        return (
            float(resolved),
            -int(columns["vec"][row]),
            bool(time.rereads[row]),
            int(clusters[row]),
            -float(time.run[row]),
            bool(time.staged[row]),
            int(time.steps[row]),
        )

    keys = [key(int(row)) for row in order]
    assert keys == sorted(keys)
    assert total[order[0]] <= total.min() * np.exp(RESOLUTION)
    assert all(np.isfinite(time.total)) and time.total.min() > 0


def test_a_resident_row_is_read_once() -> None:
    points = legal(known()["softmax"])
    schedule, time = points.named["schedule"], loop_time(points.named, known()["softmax"], H200)
    assert set(schedule) == {"resident", "staged", "streamed"}
    whole, chunks = time.l2[schedule == "resident"], time.l2[schedule == "streamed"]
    assert whole.max() < chunks.min(), "a streamed row goes through the caches once for every phase"


def test_the_schedule_follows_from_the_rows() -> None:
    def schedules(name: str) -> set[Value]:
        points = legal(known()[name])
        return {dict(points.point(row))["schedule"] for row in range(0, points.count, 5)}

    assert schedules("scan") == schedules("scan_down") == {"scan"}
    assert "scan" not in schedules("softmax") | schedules("columns")
    assert schedules("long_rows") == {"streamed"}, "2^20 elements are more than eight CTAs hold"


def test_clusters_share_rows_only() -> None:
    for name in ("columns", "column_softmax", "scan", "scan_down"):
        assert set(legal(known()[name]).columns["cluster"]) == {1}, name
    assert set(legal(known()["softmax"]).columns["cluster"]) > {1}


def test_a_fixed_axis_that_excludes_everything_names_the_nearest_value() -> None:
    with pytest.raises(NoLegalCandidateError, match="nearest legal"):
        legal_loops(
            "reduction", known()["softmax"], H200, fixed={"cluster": 8, "threads": 1024, "schedule": "streamed"}
        )


def test_an_open_point_is_completed_by_the_best_candidate() -> None:
    found = known()["softmax"]
    best = solve_loop("reduction", found, H200, top=1).ranked[0].candidate
    completed = explain_loop("reduction", found, H200, {"vec": best.value("vec")})
    assert completed.legal
    broken = explain_loop("reduction", found, H200, {"schedule": "scan"})
    assert [check.rule for check in broken.broken] == ["no_scan"]


@pytest.mark.parametrize("name", ["registers", "covered", "idle"])
def test_edges_break_one_rule_only(name: str) -> None:
    bound = bind_loop("reduction", known()["softmax"], H200, lowered=False)
    edge = edge_points(bound, name)
    assert edge.inside and edge.outside
    assert all([c.rule for c in explain(bound, dict(point)).broken] == [name] for point in edge.outside)
    assert all(explain(bound, dict(point)).legal for point in edge.inside)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_rules_files_print_back_to_themselves(family: str) -> None:
    text = (targets_dir() / "sm90a" / f"{family}.rules").read_text(encoding="utf-8")
    file = parse_rules(text, f"{family}.rules")
    assert parse_rules(print_file(file), f"{family}.rules") == file
    assert all(rule.rule.because for rule in loop_rules(family, H200.arch).rules)
