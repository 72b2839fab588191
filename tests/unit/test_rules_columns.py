"""The solver's table gathers a column when it is read: the same numbers as a table that moves every column at once."""

import numpy as np
import pytest

from kgen.families.gemm.rules import bind_gemm
from kgen.families.gemm.rules_facts import GemmFacts
from kgen.rules.columns import Columns, PointColumns
from kgen.rules.solve import Grid, solve
from kgen.target import load_device

BOUND = bind_gemm(GemmFacts(m=512, n=512, k=512), load_device("h200"))


def test_a_column_follows_the_moves_that_came_after_it():
    table = Columns({"fact": np.int64(7)})
    table.add("a", np.array([10, 20, 30]))
    table.move(np.array([0, 0, 1, 2, 2]))
    table.add("b", np.array([1, 2, 3, 4, 5]))
    assert table["a"].tolist() == [10, 10, 20, 30, 30]
    table.move(np.array([4, 1]))
    table.move(np.array([1, 1, 0]))
    assert (table["a"].tolist(), table["b"].tolist()) == ([10, 10, 30], [2, 2, 5])
    assert table["fact"] == 7 and set(table) == {"fact", "a", "b"}


def test_some_rows_of_a_table_leave_it_as_it_was():
    table = Columns({})
    table.add("a", np.array([1, 2, 3]))
    assert table.taken(np.array([2, 0]))["a"].tolist() == [3, 1]
    assert table["a"].tolist() == [1, 2, 3]


def test_a_let_of_chosen_points_is_that_of_all_points():
    legal = solve(BOUND)
    rows = np.array([legal.count - 1, 3, 0])
    chosen = legal.at(rows)
    for name in BOUND.rules.columns:
        assert np.array_equal(chosen.columns[name], legal.columns[name][rows]), name
    assert [chosen.point(i) for i in range(3)] == [legal.point(int(row)) for row in rows]


def test_a_rank_is_the_point_of_its_columns():
    legal = solve(BOUND)
    for row in range(0, legal.count, legal.count // 20):
        assert legal.point(row) == tuple((a.name, a.domain.values[_place(legal, a, row)]) for a in BOUND.rules.axes)


def _place(legal, axis, row):
    return axis.codes.tolist().index(int(legal.columns[axis.name][row]))


def test_every_let_and_rule_has_one_turn():
    turns = BOUND.rules.turns
    assert [t.axis.name for t in turns if t.axis is not None] == [a.name for a in BOUND.rules.axes]
    assert sorted(r.name for t in turns for r in t.rules) == sorted(r.name for r in BOUND.rules.rules)
    assert sorted(let.name for t in turns for let in t.lets) == sorted(let.name for let in BOUND.rules.lets)


def test_a_fixed_axis_joins_with_one_value():
    grid = Grid(BOUND, {"tile_m": 128})
    assert len(grid.domains["tile_m"][0]) == 1 and len(grid.domains["tile_n"][0]) > 1


def test_points_have_no_facts():
    legal = solve(BOUND)
    assert isinstance(legal.columns, PointColumns) and "m" not in legal.columns
    with pytest.raises(KeyError):
        legal.columns["m"]
