"""Source lines of bracketed lists, broken as ruff format breaks them, so that emitted files are clean as printed."""

from collections.abc import Sequence

LINE = 120


def bracketed(head: str, items: Sequence[str], tail: str, indent: int = 0) -> tuple[str, ...]:
    """Return `head item, item tail` on one line, else the items on a line of their own, else one item a line.

    `head` ends in the opening bracket, `tail` starts with the closing one; `indent` is where the template puts them.
    """
    joined = ", ".join(items)
    if indent + len(head) + len(joined) + len(tail) <= LINE:
        return (f"{head}{joined}{tail}",)
    if indent + 4 + len(joined) <= LINE:
        return (head, f"    {joined}", tail)
    return (head, *(f"    {item}," for item in items), tail)


def listed(head: str, items: Sequence[str], tail: str) -> tuple[str, ...]:
    """Return a list with one item a line; an empty one on one line."""
    return (head, *(f"    {item}," for item in items), tail) if items else (f"{head}{tail}",)


def fitted(line: str, indent: int) -> tuple[str, ...]:
    """Return a statement that ends in a call, or that unpacks names, in lines that fit where it is printed.

    A statement of another shape stays as it is.
    """
    if indent + len(line) <= LINE:
        return (line,)
    inner = " " * (len(line) - len(line.lstrip()))
    targets, assigned, value = line.strip().partition(" = ")
    if assigned and "(" not in value:
        return tuple(inner + part for part in bracketed("(", targets.split(", "), f") = {value}", indent + len(inner)))
    start = _last_call(line)
    if start is None:
        return (line,)
    tail = line[_closing(line, start) :]
    found = bracketed(line[: start + 1], _split(line[start + 1 : len(line) - len(tail)]), tail, indent)
    return (found[0], *(inner + part for part in found[1:]))


def _last_call(line: str) -> int | None:
    """Return where the bracket opens that closes last."""
    depth = 0
    end = line.rstrip().rstrip(":")
    if not end.endswith(")"):
        return None
    for at in range(len(end) - 1, -1, -1):
        depth += (end[at] in ")]}") - (end[at] in "([{")
        if depth == 0:
            return at if at and (end[at - 1].isalnum() or end[at - 1] in "_]") else None
    return None


def _closing(line: str, start: int) -> int:
    depth = 0
    for at in range(start, len(line)):
        depth += (line[at] in "([{") - (line[at] in ")]}")
        if depth == 0:
            return at
    return len(line)


def _split(text: str) -> list[str]:
    """Return the parts between commas that stand in no bracket."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return [*parts, text[start:].strip()]
