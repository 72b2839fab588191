"""Which rule removes all candidates alone: without its points, and as over all of them where these can be counted."""

from dataclasses import replace
from math import prod

import numpy as np
import pytest

from kgen.families.gemm.rules import bind_gemm
from kgen.families.gemm.rules_facts import GemmFacts
from kgen.rules.diagnose import _removes_all
from kgen.rules.model import Value
from kgen.rules.ruleset import CompiledRule
from kgen.rules.solve import BoundRules, Grid
from kgen.target import load_device

H200 = load_device("h200")
FACTS = {
    "ragged": GemmFacts(200, 328, 264),
    "ieee": replace(GemmFacts(64, 64, 64), in_dtype="fp32", in_bytes=4, ieee=1),
    "unaligned": GemmFacts(16, 4096, 16384, a_align=2, b_align=4, d_align=2),
}
COUNTED = 300_000


def points(bound: BoundRules, rule: CompiledRule, fixed: dict[str, Value]) -> int:
    axes = (bound.rules.axis(name) for name in rule.axes if name not in fixed)
    return prod(len(axis.domain.values) for axis in axes if axis is not None)


@pytest.mark.parametrize("fixed", [{}, {"load_path": "tma", "tile_m": 320}, {"stages": 12, "tile_n": 8}], ids=str)
@pytest.mark.parametrize("facts", FACTS.values(), ids=FACTS)
def test_a_rule_removes_all_where_it_is_met_at_no_point(facts: GemmFacts, fixed: dict[str, Value]) -> None:
    bound = bind_gemm(facts, H200)
    found = {}
    for rule in bound.rules.rules:
        if points(bound, rule, fixed) <= COUNTED:
            grid = Grid(bound, fixed, only=rule.axes)
            with np.errstate(divide="ignore", invalid="ignore"):
                for _ in grid.steps():
                    pass
                found[rule.name] = not np.any(rule.holds(grid.columns))
    assert len(found) > 80
    for name, expected in found.items():
        rule = bound.rules.rule(name)
        assert rule is not None and _removes_all(bound, rule, fixed) == expected, name


def test_a_rule_of_a_hundred_million_points_that_none_meets() -> None:
    bound = bind_gemm(GemmFacts(200, 328, 264), H200)
    stored = {**bound.stored, "smem_bytes_per_cta": np.int64(1000)}
    rule = bound.rules.rule("smem")
    assert rule is not None and points(bound, rule, {}) > 10**8
    assert not _removes_all(bound, rule, {})
    assert _removes_all(replace(bound, stored=stored), rule, {})
