"""The top-level statements of emitted text: cut apart, their names made distinct, too long lines broken anew."""

import ast
import re
import tokenize
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kgen.backends.source.lines import LINE, bracketed
from kgen.backends.source.tokens import CLOSING, OPENING, clauses_of, depth_step, items_of, tokens_of

_Span = tuple[int, int, str]  # columns from, to, and a name
_LINE_STARTS = (tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT)


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement that binds one name, with the comments above it; a block is a function or a class."""

    name: str
    text: str
    is_block: bool


def statements_of(text: str) -> tuple[Statement, ...]:
    """Return the assignments, functions and classes of a module; imports and the rest are left out."""
    lines, found, end = text.splitlines(), list[Statement](), 0
    for node in ast.parse(text).body:
        body = lines[end : node.end_lineno]
        end = node.end_lineno or end
        while not body[0].strip():
            del body[0]
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found.append(Statement(name, "\n".join(body), is_block=True))
            case ast.Assign(targets=[ast.Name(id=name)]):
                found.append(Statement(name, "\n".join(body), is_block=False))
            case _:
                pass
    return tuple(found)


def joined(statements: Iterable[Statement]) -> str:
    """Return statements as one text, with two blank lines around blocks."""
    text, after = "", None
    for statement in statements:
        if after is not None:
            text += "\n\n\n" if after.is_block or statement.is_block else "\n"
        text, after = text + statement.text, statement
    return text


def numbered(statements: Sequence[Statement], number: int) -> dict[str, Statement]:
    """Return the statements under their old names, with the number at the end of every name that they bind.

    Names behind a dot, keywords of calls and fields of classes are other names. A name that the text has already gets
    underscores, too.
    """
    suffix, texts = f"_{number}", [s.text for s in statements]
    used = {token.string for text in texts for token in tokens_of(text) if token.type == tokenize.NAME}
    while any(s.name + suffix in used for s in statements):
        suffix += "_"
    names = {s.name: s.name + suffix for s in statements}
    return {s.name: Statement(names[s.name], renamed(s.text, names), s.is_block) for s in statements}


def renamed(text: str, names: Mapping[str, str]) -> str:
    """Return a text with other names for what it binds and reads, and its lines broken anew."""
    return fitted(_renamed(text, names))


def fitted(text: str) -> str:
    """Return a text with its too long lines broken as ruff format breaks them, where a bracket lets them.

    A comma after the last of several items on one line goes: ruff format takes it for a wish to have them apart.
    """
    lines, rest = list[str](), [_without_last_comma(line) for line in reversed(text.splitlines())]
    while rest:
        line = rest.pop()
        indent, code = len(line) - len(line.lstrip()), line.strip()
        is_inside = bool(lines) and lines[-1].endswith(tuple(OPENING)) and not code.endswith(",")
        parts: tuple[str, ...] = (code,)
        if len(line) > LINE:
            parts = _listed(code) if is_inside else _broken(code, indent)
        if len(parts) == 1:
            lines.append(line)
        else:
            rest += [" " * indent + part for part in reversed(parts)]
    return "\n".join(lines)


def _without_last_comma(line: str) -> str:
    if not re.search(r",[)\]}]", line):
        return line
    commas, dropped = list[list[int]](), list[int]()
    for token in tokens_of(line.strip()):
        if token.type != tokenize.OP:
            continue
        if token.string in OPENING:
            commas.append([])
        elif token.string == "," and commas:
            commas[-1].append(token.start[1])
        elif token.string in CLOSING and commas:
            inside = commas.pop()
            dropped += inside[-1:] if len(inside) > 1 and inside[-1] == token.start[1] - 1 else []
    indent = len(line) - len(line.lstrip())
    return "".join(c for i, c in enumerate(line) if i - indent not in dropped)


def _listed(code: str) -> tuple[str, ...]:
    """Return the inside of brackets broken: the clauses of a comprehension, or the items of a list."""
    clauses = clauses_of(code)
    return clauses if len(clauses) > 1 else tuple(f"{item}," for item in items_of(code))


def _broken(code: str, indent: int) -> tuple[str, ...]:
    """Return a statement broken at its last brackets; as it is where it does not end in them."""
    depth, start, end = 0, 0, 0
    for token in tokens_of(code):
        if token.string in CLOSING and token.type == tokenize.OP:
            depth, end = depth - 1, token.start[1]
        if token.string in OPENING and token.type == tokenize.OP:
            depth, start = depth + 1, start if depth else token.end[1]
    if code[end:].rstrip(":,") not in CLOSING or not end:
        return (code,)
    inside = code[start:end]
    if len(clauses_of(inside)) > 1:
        return (code[:start], f"    {inside}", code[end:])
    return bracketed(code[:start], items_of(inside), code[end:], indent)


def _renamed(text: str, names: Mapping[str, str]) -> str:
    lines = text.splitlines()
    for row, spans in _spans(text, names).items():
        for start, end, name in reversed(spans):
            lines[row - 1] = lines[row - 1][:start] + names[name] + lines[row - 1][end:]
    return "\n".join(lines)


def _spans(text: str, names: Mapping[str, str]) -> dict[int, list[_Span]]:
    """Return where the names stand, by line."""
    found: dict[int, list[_Span]] = {}
    tokens, depth = list(tokens_of(text)), 0
    for before, token, after in zip([None, *tokens], tokens, tokens[1:], strict=False):
        depth += depth_step(token)
        if token.type != tokenize.NAME or token.string not in names:
            continue
        is_attribute = before is not None and before.string == "."
        is_keyword = depth > 0 and after.string == "="
        is_field = depth == 0 and after.string == ":" and before is not None and before.type in _LINE_STARTS
        if not is_attribute and not is_keyword and not is_field:
            found.setdefault(token.start[0], []).append((token.start[1], token.end[1], token.string))
    return found
