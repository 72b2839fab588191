"""Source lines of bracketed lists, broken as ruff format breaks them, so that emitted files are clean as printed."""

from collections.abc import Sequence

from kgen.backends.source.tokens import items_of, last_brackets, terms_of

Lines = tuple[str, ...]
LINE = 120


def tuple_text(items: Sequence[object]) -> str:
    """Return a tuple as Python source."""
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(map(str, items))})"


def bracketed(head: str, items: Sequence[str], tail: str, indent: int = 0) -> Lines:
    """Return `head item, item tail` on one line, else the items on a line of their own, else one item a line.

    `head` ends in the opening bracket, `tail` starts with the closing one; `indent` is where the template puts them.
    """
    joined = ", ".join(items)
    if indent + len(head) + len(joined) + len(tail) <= LINE:
        return (f"{head}{joined}{tail}",)
    if indent + 4 + len(joined) <= LINE:
        return (head, f"    {joined}", tail)
    return (head, *(f"    {part}" for item in items for part in _item_lines(item, indent + 4)), tail)


def listed(head: str, items: Sequence[str], tail: str) -> Lines:
    """Return a list with one item a line; an empty one on one line."""
    return (head, *(f"    {item}," for item in items), tail) if items else (f"{head}{tail}",)


def fitted(line: str, indent: int) -> Lines:
    """Return a statement that ends in a call, or that unpacks names, in lines that fit where it is printed.

    A statement of another shape stays as it is.
    """
    if indent + len(line) <= LINE:
        return (line,)
    statement = line.strip()
    inner = line[: len(line) - len(line.lstrip())]
    return tuple(inner + part for part in _broken(statement, indent + len(inner)))


def _broken(statement: str, indent: int) -> Lines:
    targets, assigned, value = statement.partition(" = ")
    if assigned and ", " in targets and "(" not in value:
        return bracketed("(", targets.split(", "), f") = {value}", indent)
    call = _last_call(statement)
    if call is None:
        return (statement,)
    called, dot, _ = statement[: call[0]].rpartition(".")
    if dot and indent + call[0] >= LINE:
        call = _last_call(called) or call  # up to the last bracket is too long: the call whose result has the method
    start, end = call
    return bracketed(statement[: start + 1], items_of(statement[start + 1 : end]), statement[end:], indent)


def _item_lines(item: str, indent: int) -> Lines:
    """Return an item of a list with its comma, of one that is too long each term of a condition on a line."""
    if indent + len(item) < LINE:
        return (f"{item},",)
    first, *others = terms_of(item)
    if not others:
        return _broken(f"{item},", indent)
    *lines, last = (first, *(f"& {other}" for other in others))
    return (*lines, f"{last},")


def _last_call(code: str) -> tuple[int, int] | None:
    """Return where the brackets of the call open and close in which some code ends."""
    found = last_brackets(code)
    if found is None or code[found[1] :].rstrip(":,") != ")":
        return None
    before = code[: found[0]][-1:]
    return found if before.isalnum() or before in ("_", "]") else None
