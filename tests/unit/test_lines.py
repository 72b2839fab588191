"""Emitted statements in lines that fit, and the statements of emitted text: as `ruff format` would leave them."""

import subprocess
import sys
from pathlib import Path

import pytest

from kgen.backends.source import statements
from kgen.backends.source.lines import LINE, bracketed, fitted, tuple_text
from kgen.backends.source.statements import Statement, joined, numbered, statements_of
from kgen.backends.source.tokens import items_of, terms_of

LONG = "a_name_that_is_long_enough_to_make_lines_long"
# Statements of every shape that kernels have, too long for a line at some indentation.
STATEMENTS = {
    "names": f"{LONG}_1, {LONG}_2, {LONG}_3 = v.accesses",
    "call": f"total = combine_row(v, ({LONG},), {LONG}, {LONG}_parts)",
    "call_of_many": f"total = combine({LONG}_1, {LONG}_2, {LONG}_3, {LONG}_4)",
    "expression": f"write(v, {LONG}_1, {LONG}_2, offset({LONG}_1, at_row, at_col), inside)",
    "conversion": f"x4 = element_where({LONG}, offset({LONG}, at) + 3, {LONG} & inside, 0.0).to(cutlass.Float32)",
    "condition": f"x4 = element_where(x, ({LONG} >= 0) & ({LONG} < 1000) & (offset({LONG}_at, 1) >= 0) & inside, 0.0)",
    "nested": f"x = f(g({LONG}_1, {LONG}_2), [{LONG}_3, 1])",
    "string": f'x = f("a, (b", {LONG}_1, {LONG}_2, {LONG}_3)',
}


def formatted(text: str, folder: Path) -> str:
    """Return the text as ruff formats it."""
    file = folder / "text.py"
    file.write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "ruff", "format", "--no-cache", "--line-length", str(LINE), str(file)]
    subprocess.run(command, capture_output=True, check=True)
    return file.read_text(encoding="utf-8")


@pytest.mark.parametrize("depth", [0, 1, 3, 5])
def test_statements_fit_as_ruff_formats_them(depth: int, tmp_path: Path) -> None:
    heads = [f"{'    ' * i}if c{i}:" for i in range(depth)]
    pad = "    " * depth
    lines = [f"{pad}{part}" for statement in STATEMENTS.values() for part in fitted(statement, len(pad))]
    text = "\n".join((*heads, *lines)) + "\n"
    assert formatted(text, tmp_path) == text
    assert all(len(line) <= LINE for line in lines)


def test_what_fits_stays_as_it_is() -> None:
    for statement in STATEMENTS.values():
        if len(statement) <= LINE:
            assert fitted(statement, 0) == (statement,)
    line = f"x = {'y' * (LINE - 4)}"
    assert fitted(line, 0) == fitted(line, 40) == (line,)


def test_the_indentation_of_a_statement_counts() -> None:
    statement = f"f({LONG}, {'x' * (LINE - 13 - len(LONG))})"
    assert len(statement) == LINE - 8
    assert fitted(f"    {statement}", 4) == (f"    {statement}",)
    first, second = items_of(statement[2:-1])
    assert fitted(f"    {statement}", 5) == ("    f(", f"        {first},", f"        {second},", "    )")


def test_a_condition_breaks_where_its_terms_are_joined() -> None:
    assert fitted(STATEMENTS["condition"], 8)[2:6] == (
        f"    ({LONG} >= 0)",
        f"    & ({LONG} < 1000)",
        f"    & (offset({LONG}_at, 1) >= 0)",
        "    & inside,",
    )


def test_a_conversion_stays_behind_the_call_that_is_broken() -> None:
    first, *_, last = fitted(STATEMENTS["conversion"], 4)
    assert (first, last) == ("x4 = element_where(", ").to(cutlass.Float32)")


def test_items_and_terms() -> None:
    assert items_of('a, f(b, c), [d, (e, 1)], "g, h", i[1, 2]') == ("a", "f(b, c)", "[d, (e, 1)]", '"g, h"', "i[1, 2]")
    assert items_of("a, b,") == ("a", "b") and items_of("") == ()
    assert terms_of("(a & b) & c") == ("(a & b)", "c") and terms_of("a") == ("a",)


def test_tuples() -> None:
    assert [tuple_text(t) for t in ((), (1,), (1, 2), ["x"])] == ["()", "(1,)", "(1, 2)", "(x,)"]
    assert bracketed("f(", (), ")") == ("f()",)


# Statements of a text.

TEXT = '''"""Doc."""

import torch

# why
LIMIT = 3
TABLE = (
    1,  # one
)


@cute.jit
def f(x, limit=LIMIT):
    """Doc."""
    return g(x, LIMIT=limit).LIMIT


class Row:
    LIMIT = 2
'''


def test_statements_come_with_their_comments_and_decorators() -> None:
    found = statements_of(TEXT)
    assert [(s.name, s.is_block) for s in found] == [("LIMIT", False), ("TABLE", False), ("f", True), ("Row", True)]
    assert found[0].text == "# why\nLIMIT = 3"
    assert found[2].text.startswith("@cute.jit\ndef f(")
    assert joined(found) == TEXT[TEXT.index("# why") :].rstrip("\n")


def test_numbered_names_are_new_everywhere_but_behind_dots_and_as_keywords() -> None:
    found = numbered(statements_of(TEXT), 2)
    assert list(found) == ["LIMIT", "TABLE", "f", "Row"]
    assert found["LIMIT"].text == "# why\nLIMIT_2 = 3"
    assert found["f"].text.splitlines()[1] == "def f_2(x, limit=LIMIT_2):"
    assert found["f"].text.splitlines()[-1] == "    return g(x, LIMIT=limit).LIMIT"


def test_a_number_that_is_a_name_already_gets_an_underscore() -> None:
    (one, two) = numbered([Statement("a", "a = 1", False), Statement("b", "b = a + a_0", False)], 0).values()
    assert (one.text, two.text) == ("a_0_ = 1", "b_0_ = a_0_ + a_0")


def test_lines_that_names_made_too_long_are_broken_anew() -> None:
    items = ", ".join(f"value_{i}" for i in range(11))
    (one,) = numbered([Statement("table", f"table = table_of({items})", False)], 0).values()
    assert one.text == f"table_0 = table_of({items})"
    (one,) = numbered([Statement("table", f"table = table_of({items}, {items})", False)], 0).values()
    assert one.text.splitlines()[0] == "table_0 = table_of("
    assert all(len(line) <= LINE for line in one.text.splitlines())


def test_a_comma_behind_the_last_item_of_a_line_goes() -> None:
    assert statements.fitted("x = f(a, b,)") == "x = f(a, b)"
    assert statements.fitted("x = (a,)") == "x = (a,)"
