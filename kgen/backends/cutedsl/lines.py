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
