"""The solver against brute force, explanations, edges of rules, and rules specialised into a kernel."""

import itertools
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgen.errors.rules import NoLegalCandidateError, OutsideDomainError, UnknownAxisError
from kgen.rules.diagnose import no_legal_candidate
from kgen.rules.edges import edge_points
from kgen.rules.evaluate import Evaluator
from kgen.rules.explain import Verdict, complete, explain
from kgen.rules.model import Value
from kgen.rules.parse import parse_rules
from kgen.rules.ruleset import Fact, Vocabulary, compile_rules
from kgen.rules.solve import BoundRules, bind, solve
from kgen.rules.specialise import kernel_rules

TOY = """
axis path in {bulk, plain}
axis tile in 8..64 step 8
axis stages in 1..4
let bytes = 0 when path == plain
let bytes = tile * stages * width
let rows = ceil_div(tile, 3) + gcd(tile, 12) + floor(tile / 5) - tile % 7
rule room: bytes <= limit because "room"
rule wide: tile in {8, 24} or 16 divides tile when kind == narrow because "narrow types"
rule bulk_only: path == bulk or not (stages > 1 and kind == broad) because "plain has no stages"
rule power: pow2(tile / 8) when path == bulk because "bulk tiles are powers of two"
rule shape: max(rows, 20) < min(40, limit) because "rows"
"""
VOCABULARY = Vocabulary("toy", (Fact("width"), Fact("limit"), Fact("kind", ("narrow", "broad"))))
RULES = compile_rules((parse_rules(TOY, "toy.rules"),), VOCABULARY)


def toy(width: int = 4, limit: int = 256, kind: str = "narrow") -> BoundRules:
    return bind(RULES, {"width": width, "limit": limit, "kind": kind})


def is_legal(path: str, tile: int, stages: int, width: int, limit: int, kind: str) -> bool:
    """The toy rules again, by hand."""
    size = 0 if path == "plain" else tile * stages * width
    rows = math.ceil(tile / 3) + math.gcd(tile, 12) + tile // 5 - tile % 7
    return (
        size <= limit
        and (kind != "narrow" or tile in (8, 24) or tile % 16 == 0)
        and (path == "bulk" or not (stages > 1 and kind == "broad"))
        and (path != "bulk" or tile // 8 in (1, 2, 4, 8))
        and max(rows, 20) < min(40, limit)
    )


@given(st.integers(1, 8), st.integers(0, 600), st.sampled_from(["narrow", "broad"]))
@settings(max_examples=60, deadline=None)
def test_the_solver_finds_exactly_the_legal_points_in_order(width: int, limit: int, kind: str) -> None:
    grid = itertools.product(["bulk", "plain"], range(8, 65, 8), range(1, 5))
    expected = [point for point in grid if is_legal(*point, width, limit, kind)]
    legal = solve(toy(width, limit, kind))
    assert [tuple(v for _, v in legal.point(row)) for row in range(legal.count)] == expected
    assert legal.total - legal.count == sum(r.removed for r in legal.rejections)


@given(st.sampled_from(["bulk", "plain"]), st.integers(1, 8), st.integers(1, 4), st.integers(0, 300))
@settings(max_examples=60, deadline=None)
def test_compiled_formulas_agree_with_plain_evaluation(path: str, eighths: int, stages: int, limit: int) -> None:
    bound = toy(limit=limit)
    point: dict[str, Value] = {"path": path, "tile": 8 * eighths, "stages": stages}
    at = Evaluator(RULES, bound.facts, point)
    found = explain(bound, point)
    assert found.legal is (solve(bound, point).count == 1)
    assert found.legal is is_legal(path, 8 * eighths, stages, 4, limit, "narrow")
    if found.legal:
        assert dict(solve(bound, point).derived(0)) == {let.name: at.values[let.name] for let in RULES.lets}


def test_rejections_show_neighbours_on_both_sides_of_the_edge() -> None:
    (room,) = [r for r in solve(toy(limit=64)).rejections if r.rule == "room"]
    assert dict(room.removed_point) == {"path": "bulk", "tile": 8, "stages": 3}
    assert room.kept_point is not None
    assert dict(room.kept_point) == {"path": "bulk", "tile": 8, "stages": 2}


def test_explanation_gives_both_sides_and_the_nearest_value() -> None:
    found = explain(toy(), {"path": "bulk", "tile": 64, "stages": 4})
    checks = {c.rule: c for c in found.checks}
    assert not found.legal and [c.rule for c in found.broken] == ["room"]
    assert (checks["room"].sides[0].left, checks["room"].sides[0].right) == ("1024", "256")
    assert [(n.axis, n.value, n.legal) for n in checks["room"].nearest] == [
        ("stages", 1, True),
        ("tile", 16, True),
        ("path", "plain", True),
    ]
    assert checks["wide"].verdict is Verdict.MET
    legal = explain(toy(kind="broad"), {"path": "bulk", "tile": 32, "stages": 2})
    assert legal.legal and {c.rule: c.verdict for c in legal.checks}["wide"] is Verdict.NOT_APPLICABLE


def test_nearest_legal_value_meets_every_rule() -> None:
    found = explain(toy(), {"path": "bulk", "tile": 32, "stages": 3})
    (near, *_) = found.broken[0].nearest
    assert (near.axis, near.value, near.legal) == ("stages", 2, True)
    assert str(found).splitlines()[1:] == [
        "room: broken  bytes <= limit  (room; toy.rules:8)",
        "    bytes <= limit: 384 against 256",
        "    nearest legal: stages = 2",
    ]


def test_completion_breaks_as_few_rules_as_it_can() -> None:
    assert complete(toy(), {"tile": 16}) == {"path": "bulk", "tile": 16, "stages": 1}
    assert len(explain(toy(), complete(toy(), {"tile": 40})).broken) == 1


def test_no_legal_candidate_lists_rules_and_what_would_help() -> None:
    fixed = {"tile": 40}
    error = no_legal_candidate(solve(toy(), fixed), fixed)
    assert isinstance(error, NoLegalCandidateError) and error.exit_code == 3
    assert str(error) == (
        "no legal toy candidate: 8 points, all rejected\n"
        "             8 by wide (toy.rules:9)  <- removes all by itself\n"
        "                  tile in {8, 24} or 16 divides tile when kind == narrow: narrow types\n"
        "  = nearest legal: tile = 32 instead of 40; kind = broad instead of narrow"
    )
    payload: Any = error.to_json()
    assert [(r["rule"], r["removed"], r["removes_all_alone"]) for r in payload["rules"]] == [("wide", 8, True)]


def test_another_value_of_a_fact_brings_what_it_decides_of_the_others() -> None:
    def of_kind(kind: Value) -> dict[str, Value]:
        return {"width": 64 if kind == "narrow" else 1}

    facts = tuple(replace(fact, implied=of_kind) if fact.name == "kind" else fact for fact in VOCABULARY.facts)
    rules = compile_rules((parse_rules(TOY, "toy.rules"),), replace(VOCABULARY, facts=facts))
    bound, fixed = bind(rules, {"width": 64, "limit": 64, "kind": "narrow"}), {"path": "bulk", "tile": 32}
    assert "kind = broad instead of narrow" in str(no_legal_candidate(solve(bound, fixed), fixed))


def test_points_outside_of_the_axes_are_refused() -> None:
    with pytest.raises(UnknownAxisError, match="nearest known: tile;"):
        solve(toy(), {"tiles": 8})
    with pytest.raises(OutsideDomainError, match=r"tile = 60 is outside of 8\.\.64 step 8\n  = nearest value: 56"):
        solve(toy(), {"tile": 60})


def test_edge_points_lie_on_both_sides_of_one_rule() -> None:
    edge = edge_points(toy(), "room")
    assert [dict(p)["tile"] * dict(p)["stages"] * 4 for p in edge.inside] == [256, 256]  # type: ignore[operator]
    for point in edge.outside:
        assert [c.rule for c in explain(toy(), dict(point)).broken] == ["room"]


def test_specialised_rules_are_python_that_agrees_with_the_solver() -> None:
    bound = toy()
    rules = kernel_rules(bound, {"path": "bulk", "tile": 16, "stages": 2}, ("tile", "stages"), str.upper)
    assert [c.rule for c in rules.checks] == ["room", "wide", "power", "shape"]
    assert dict(rules.derived)["bytes"] == "TILE * STAGES * 4"
    assert rules.checks[1].condition == "TILE in (8, 24) or TILE % 16 == 0"
    assert rules.checks[1].text == "tile in {8, 24} or 16 divides tile when kind == narrow"
    for tile, stages in itertools.product(range(8, 65, 8), range(1, 5)):
        names: dict[str, Any] = {"TILE": tile, "STAGES": stages, "math": math, "gcd": math.gcd}
        for name, text in rules.derived:
            names[name.upper()] = eval(text, names)
        held = all(eval(check.condition, names) for check in rules.checks)
        assert held is is_legal("bulk", tile, stages, 4, 256, "narrow")
