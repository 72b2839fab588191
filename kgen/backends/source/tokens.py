"""Python source as tokens: where brackets open and close, what stands between the commas of a list, global names."""

import io
import symtable
import tokenize
from collections.abc import Iterator

OPENING, CLOSING = "([{", ")]}"


def tokens_of(text: str) -> Iterator[tokenize.TokenInfo]:
    """Yield the tokens of a text, of a part of a statement as far as it goes."""
    try:
        yield from tokenize.generate_tokens(io.StringIO(text).readline)
    except (tokenize.TokenError, IndentationError):
        return


def depth_step(token: tokenize.TokenInfo) -> int:
    """Return 1 for an opening bracket, -1 for a closing one, else 0."""
    if token.type != tokenize.OP:
        return 0
    return (token.string in OPENING) - (token.string in CLOSING)


def last_brackets(code: str) -> tuple[int, int] | None:
    """Return the columns of the brackets that close last, the opening and the closing one."""
    openings, last = list[int](), None
    for token in tokens_of(code):
        step = depth_step(token)
        if step > 0:
            openings.append(token.start[1])
        elif step < 0 and openings:
            last = (openings.pop(), token.start[1])
    return last


def items_of(code: str) -> tuple[str, ...]:
    """Return the items of a list with commas, of which some may stand in brackets."""
    return tuple(item for item in _between(code, ",") if item)


def terms_of(code: str) -> tuple[str, ...]:
    """Return the terms that `&` joins."""
    return _between(code, "&")


def _between(code: str, separator: str) -> tuple[str, ...]:
    """Return what stands between the separators that no bracket encloses."""
    depth, cuts = 0, [-1]
    for token in tokens_of(code):
        depth += depth_step(token)
        if token.string == separator and not depth:
            cuts.append(token.start[1])
    return tuple(code[a + 1 : b].strip() for a, b in zip(cuts, [*cuts[1:], len(code)], strict=True))


def clauses_of(code: str) -> tuple[str, ...]:
    """Return the element of a comprehension, then each of its clauses; a list with commas is one part."""
    depth, cuts = 0, [0]
    for token in tokens_of(code):
        depth += depth_step(token)
        if not depth and (token.string == "for" or (token.string == "if" and len(cuts) > 1)):
            cuts.append(token.start[1])
    return tuple(code[a:b].strip() for a, b in zip(cuts, [*cuts[1:], len(code)], strict=True))


def global_names(text: str) -> tuple[str, ...]:
    """Return the names that some code takes from its module, not from a function around it, in their order."""
    found: dict[str, None] = {}
    tables = [symtable.symtable(text, "text", "exec")]
    while tables:
        table = tables.pop()
        found |= dict.fromkeys(s.get_name() for s in table.get_symbols() if s.is_global() and s.is_referenced())
        tables += reversed(table.get_children())
    return tuple(found)
