"""The nearest known name or value, for error messages."""

from collections.abc import Iterable
from difflib import get_close_matches

from kgen.rules.model import Value


def nearest_name(name: str, known: Iterable[str]) -> str:
    """Return the known name that looks most like `name`, or all of them when none does."""
    names = sorted(set(known))
    close = get_close_matches(name, names, n=1, cutoff=0.5)
    return close[0] if close else ", ".join(names)


def nearest_first(value: Value, domain: Iterable[Value]) -> tuple[Value, ...]:
    """Return the other members of a domain, nearest first (smaller before larger; names in domain order)."""
    others = [v for v in domain if v != value]
    if isinstance(value, int):
        return tuple(sorted(others, key=lambda v: (abs(int(v) - value), int(v))))
    return tuple(others)
