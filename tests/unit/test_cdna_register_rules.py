"""The register rules of CDNA against kernels that were compiled near the edge (`tests/cdna/frontier.csv`)."""

import csv
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gpu"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cdna"))

from frontier import AXES, FRONTIER
from sets import sets

from kgen.planning.candidates import candidate_at
from kgen.rules.model import Value
from kgen.rules.solve import BoundRules, solve

TARGETS = ("mi300x", "mi355x")


@cache
def rows(target: str) -> tuple[dict[str, str], ...]:
    with FRONTIER.open(encoding="utf-8", newline="") as file:
        return tuple(row for row in csv.DictReader(file) if row["target"] == target)


@cache
def rules(target: str, name: str) -> BoundRules:
    return sets()[name](target).bound


def point(row: dict[str, str]) -> dict[str, Value]:
    return {axis: int(row[axis]) if row[axis].isdigit() else row[axis] for axis in AXES} | {"warps_k": 1}


def spills(row: dict[str, str]) -> bool:
    return int(row["vgpr_spills"]) + int(row["sgpr_spills"]) > 0


def is_legal(row: dict[str, str]) -> bool:
    return solve(rules(row["target"], row["set"]), point(row)).count > 0


@pytest.mark.parametrize("target", TARGETS)
def test_what_spilled_is_outside(target: str) -> None:
    spilled = [row for row in rows(target) if spills(row)]
    assert len(spilled) > 40
    assert [row for row in spilled if is_legal(row)] == []


@pytest.mark.parametrize("target", TARGETS)
def test_most_of_what_fits_near_the_edge_is_inside(target: str) -> None:
    """But for operands that are computed, where a rule about scalar registers leaves out what the compiler may do."""
    found = Counter(is_legal(row) for row in rows(target) if not spills(row) and not row["set"].startswith("ops"))
    assert found[True] > found[False]


@pytest.mark.parametrize("target", TARGETS)
def test_a_lane_has_what_the_rules_count(target: str) -> None:
    """No kernel has more registers than `thread_regs`: the compiler spills instead."""
    for row in rows(target):
        if is_legal(row):
            candidate = candidate_at(solve(rules(target, row["set"]), point(row)), 0)
            assert int(row["registers"]) <= candidate.number("thread_regs")
