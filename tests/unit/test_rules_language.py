"""The rules language: grammar, printing, name resolution, and the text of every refusal."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgen.errors.base import KgenError
from kgen.rules.model import (
    Arithmetic,
    Axis,
    Call,
    ChoiceDomain,
    Compare,
    Divides,
    Either,
    Every,
    Expr,
    Invert,
    Let,
    Literal,
    Member,
    Name,
    Negate,
    RangeDomain,
    Rule,
    RulesFile,
)
from kgen.rules.parse import parse_rules
from kgen.rules.printer import print_file, print_statement
from kgen.rules.ruleset import Fact, RuleSet, Vocabulary, compile_rules

VOCABULARY = Vocabulary(
    family="toy", facts=(Fact("in_bytes"), Fact("limit"), Fact("in_dtype", ("bf16", "int8"))), required_lets=()
)

names = st.sampled_from(["tile_m", "tile_n", "stages", "limit", "inner", "andy", "in_bytes"])
numbers = st.recursive(
    st.one_of(st.integers(0, 999).map(Literal), names.map(Name)),
    lambda inner: st.one_of(
        inner.map(Negate),
        st.builds(Arithmetic, st.sampled_from("+-*/%"), inner, inner),
        st.builds(lambda a, b: Call("max", (a, b)), inner, inner),
    ),
    max_leaves=8,
)
comparisons = st.one_of(
    st.builds(Compare, st.sampled_from(["<=", "<", ">=", ">", "==", "!="]), numbers, numbers),
    st.builds(lambda a, bs: Member(a, tuple(bs)), numbers, st.lists(numbers, min_size=1, max_size=3)),
    st.builds(Divides, numbers, numbers),
    numbers.map(lambda a: Call("pow2", (a,))),
)
conditions = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        inner.map(Invert),
        st.builds(lambda a: Every(tuple(a)), st.lists(inner, min_size=2, max_size=3)),
        st.builds(lambda a: Either(tuple(a)), st.lists(inner, min_size=2, max_size=3)),
    ),
    max_leaves=6,
)
reasons = st.text(st.characters(codec="ascii", exclude_characters='"\n\r\x0b\x0c\x1c\x1d\x1e'), min_size=1, max_size=20)
domains = st.one_of(
    st.builds(RangeDomain, st.integers(0, 9), st.integers(10, 99), st.integers(1, 9)),
    st.lists(st.integers(0, 99), min_size=1, max_size=4).map(lambda v: ChoiceDomain(tuple(v))),
    st.lists(names, min_size=1, max_size=3).map(lambda v: ChoiceDomain(tuple(v))),
)
statements = st.one_of(
    st.builds(Rule, names, conditions, reasons, st.none() | conditions, st.sampled_from(["", "ptx"])),
    st.builds(Let, names, numbers, st.none() | conditions, st.just("") | reasons),
    st.builds(Axis, names, domains, st.just("") | reasons, st.sampled_from(["", "ptx"])),
)


@given(st.lists(statements, max_size=4))
@settings(max_examples=150, deadline=None)
def test_printing_and_parsing_are_inverse(written: list[Rule | Let | Axis]) -> None:
    file = RulesFile("x.rules", tuple(written))
    assert parse_rules(print_file(file), "x.rules") == file


def parsed(text: str) -> Expr:
    (rule,) = parse_rules(f'rule r: {text} because "x"\n', "x.rules").statements
    assert isinstance(rule, Rule)
    return rule.condition


def test_binding_strength() -> None:
    assert parsed("a + b * c <= d") == parsed("(a + (b * c)) <= d")
    assert parsed("a - b - c == 0") == parsed("(a - b) - c == 0")
    assert parsed("not a == 1 and b == 1 or c == 1") == parsed("((not (a == 1)) and b == 1) or c == 1")
    assert parsed("a - (b - c) == 0") != parsed("a - b - c == 0")


def test_printed_text_keeps_words_and_order() -> None:
    text = 'rule int8_n: tile_n in {8, 24} or 16 divides tile_n when in_dtype == int8 because "N" source ptx_wgmma'
    (rule,) = parse_rules(text, "x.rules").statements
    assert print_statement(rule) == text


def test_statements_know_their_place() -> None:
    file = parse_rules("# comment\n\naxis a in {1}\n  let b = a\n", "x.rules")
    assert [(s.span.line, s.span.column) for s in file.statements] == [(3, 1), (4, 3)]


def compiled(text: str) -> RuleSet:
    return compile_rules((parse_rules(text, "x.rules"),), VOCABULARY)


BAD = {
    'rule a: tile_n <= 3 because "x"': """\
x.rules:1:9: unknown name 'tile_n'
  = nearest known: tile_m
    rule a: tile_n <= 3 because "x"
            ^""",
    'rule a: in_dtype == in8 because "x"': """\
x.rules:1:21: unknown name 'in8'
  = nearest known: int8
    rule a: in_dtype == in8 because "x"
                        ^""",
    'rule a: tile_m because "x"': """\
x.rules:1:9: 'tile_m' is a number, and a condition is needed here
    rule a: tile_m because "x"
            ^""",
    'rule a: in_dtype == 3 because "x"': """\
x.rules:1:21: '3' is a number, and one of {bf16, int8} is needed here
    rule a: in_dtype == 3 because "x"
                        ^""",
    "let x = in_dtype": """\
x.rules:1:9: 'in_dtype' is one of {bf16, int8}, and a number is needed here
    let x = in_dtype
            ^""",
    "let x = min(1)": """\
x.rules:1:9: 'min(1)' is a call with 1 arguments, and 2 to 9 is needed here
    let x = min(1)
            ^""",
    "let x = clamp(1, 2)": """\
x.rules:1:9: unknown name 'clamp'
  = nearest known: ceil_div, floor, gcd, max, min, pow2
    let x = clamp(1, 2)
            ^""",
    "let x = 1 when limit > 2": """\
x.rules:1:1: 'x' is a let whose last case has a `when`, and a case without is needed here
    let x = 1 when limit > 2
    ^""",
    "let limit = 3": """\
x.rules:1:1: 'limit' is already defined at the vocabulary
  = rename one of them; a `let` may repeat only with a `when`, the last one without
    let limit = 3
    ^""",
    "axis tile_m in {1, 2}": """\
x.rules:1:1: 'tile_m' is already defined at first.rules:1
  = rename one of them; a `let` may repeat only with a `when`, the last one without
    axis tile_m in {1, 2}
    ^""",
    "axis when in {1, 2}": """\
x.rules:1:1: 'when' is a word of the language, and a name is needed here
    axis when in {1, 2}
    ^""",
    "axis a in {1, 1}": """\
x.rules:1:1: 'a' is an empty, repeating or mixed domain, and distinct values is needed here
    axis a in {1, 1}
    ^""",
    "rule a: tile_m <= 3": """\
x.rules:1:20: this is not a statement of the rules language: unexpected end of line
  = expected because, when
    rule a: tile_m <= 3
                       ^""",
    "rule a: tile_m <= $": """\
x.rules:1:19: this is not a statement of the rules language: unexpected '$'
  = expected (, -, a name, a number
    rule a: tile_m <= $
                      ^""",
    "pick a": """\
x.rules:1:1: this is not a statement of the rules language: unexpected 'pick'
  = expected axis, let, rule, the end of the line
    pick a
    ^""",
}


@pytest.mark.parametrize("text", BAD)
def test_refusals_have_place_text_and_remedy(text: str) -> None:
    first = parse_rules("axis tile_m in 8..64 step 8\n", "first.rules")
    with pytest.raises(KgenError) as caught:
        compile_rules((first, parse_rules(text, "x.rules")), VOCABULARY)
    assert str(caught.value) == BAD[text]


def test_missing_let_names_what_reads_it() -> None:
    needs = Vocabulary("toy", (), required_lets=("threads", "smem_bytes"))
    with pytest.raises(KgenError, match="toy must define `let smem_bytes`"):
        compile_rules((parse_rules("let threads = 1\n", "x.rules"),), needs)
