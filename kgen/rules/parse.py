"""Text of a rules file to its parse tree; every error has file, line, column and the offending line."""

from functools import cache
from pathlib import Path
from typing import Any

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken
from lark.tree import Meta

from kgen.errors.base import Where
from kgen.errors.rules import RulesSyntaxError
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
    Span,
    Value,
)

_TERMINALS = {
    "NAME": "a name",
    "INT": "a number",
    "STRING": 'a reason in "quotes"',
    "COMPARE": "a comparison",
    "ADD": "+ or -",
    "MUL": "* / or %",
    "MINUS": "-",
    "_NL": "the end of the line",
    "LPAR": "(",
    "RPAR": ")",
    "LBRACE": "{",
    "RBRACE": "}",
    "COMMA": ",",
    "COLON": ":",
    "EQUAL": "=",
    "__ANON_0": "..",
    "$END": "the end of the file",
}


def parse_rules(text: str, file: str) -> RulesFile:
    """Parse a rules file; `file` is the name that errors show."""
    lines = tuple(text.splitlines())
    try:
        tree = _grammar().parse(text if text.endswith("\n") else text + "\n")
    except UnexpectedInput as error:
        raise _syntax_error(error, file, lines) from None
    return RulesFile(file, tuple(_Build().transform(tree)), lines)


@cache
def _grammar() -> Lark:
    text = (Path(__file__).parent / "grammar.lark").read_text(encoding="utf-8")
    return Lark(text, parser="lalr", propagate_positions=True, maybe_placeholders=True)


def _syntax_error(error: UnexpectedInput, file: str, lines: tuple[str, ...]) -> RulesSyntaxError:
    expected: set[str] = set()
    match error:
        case UnexpectedToken(token=token):
            found, expected = repr(str(token)), set(error.expected)
            if token.type == "_NL":
                found = "end of line"
            if token.type == "$END":
                found = "end of file"
        case UnexpectedCharacters(char=char):
            found, expected = repr(char), set(error.allowed or ())
        case UnexpectedEOF():
            found = "end of file"
        case _:
            found = "text"
    line = min(max(error.line, 1), max(len(lines), 1))
    shown = sorted(_TERMINALS.get(name, name.lower()) for name in expected - {"COMMENT", "WS"})
    where = Where(file, line, max(error.column, 1), lines[line - 1] if lines else "")
    return RulesSyntaxError(where=where, found=found, expected=", ".join(shown) or "a statement")


def _at(meta: Meta) -> Span:
    return Span(meta.line, meta.column)


@v_args(meta=True)
class _Build(Transformer[Token, Any]):
    """Lark's tree to the model, bottom up."""

    def start(self, meta: Meta, statements: list[Any]) -> list[Any]:
        return statements

    def axis(self, meta: Meta, parts: list[Any]) -> Axis:
        name, domain, because, source = parts
        return Axis(str(name), domain, because or "", source or "", _at(meta))

    def let(self, meta: Meta, parts: list[Any]) -> Let:
        name, value, when, because, source = parts
        return Let(str(name), value, when, because or "", source or "", _at(meta))

    def rule(self, meta: Meta, parts: list[Any]) -> Rule:
        name, condition, when, because, source = parts
        return Rule(str(name), condition, because, when, source or "", _at(meta))

    def range(self, meta: Meta, parts: list[Any]) -> RangeDomain:
        lo, hi, step = parts
        return RangeDomain(int(lo), int(hi), int(step or 1))

    def choice(self, meta: Meta, parts: list[Any]) -> ChoiceDomain:
        values: tuple[Value, ...] = tuple(p.value if isinstance(p, Literal) else p.name for p in parts)
        return ChoiceDomain(values)

    def when(self, meta: Meta, parts: list[Any]) -> Expr:
        condition: Expr = parts[0]
        return condition

    def because(self, meta: Meta, parts: list[Any]) -> str:
        return str(parts[0])[1:-1]

    def source(self, meta: Meta, parts: list[Any]) -> str:
        return str(parts[0])

    def number(self, meta: Meta, parts: list[Any]) -> Literal:
        return Literal(int(parts[0]), _at(meta))

    def name(self, meta: Meta, parts: list[Any]) -> Name:
        return Name(str(parts[0]), _at(meta))

    def call(self, meta: Meta, parts: list[Any]) -> Call:
        return Call(str(parts[0]), tuple(parts[1:]), _at(meta))

    def negate(self, meta: Meta, parts: list[Any]) -> Negate:
        return Negate(parts[0], _at(meta))

    def arithmetic(self, meta: Meta, parts: list[Any]) -> Arithmetic:
        left, op, right = parts
        return Arithmetic(str(op), left, right, _at(meta))

    def compare(self, meta: Meta, parts: list[Any]) -> Compare:
        left, op, right = parts
        return Compare(str(op), left, right, _at(meta))

    def member(self, meta: Meta, parts: list[Any]) -> Member:
        return Member(parts[0], tuple(parts[1:]), _at(meta))

    def divides(self, meta: Meta, parts: list[Any]) -> Divides:
        return Divides(parts[0], parts[1], _at(meta))

    def every(self, meta: Meta, parts: list[Any]) -> Every:
        return Every(tuple(parts), _at(meta))

    def either(self, meta: Meta, parts: list[Any]) -> Either:
        return Either(tuple(parts), _at(meta))

    def invert(self, meta: Meta, parts: list[Any]) -> Invert:
        return Invert(parts[0], _at(meta))
