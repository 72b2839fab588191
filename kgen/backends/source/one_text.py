"""One text for all variants of a kernel: what their rows do not hold has to be alike."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from typing import Any, ClassVar, Protocol, TypeVar

from kgen.errors.backend import CasesDifferError


class Fields(Protocol):
    """A dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


View = TypeVar("View", bound=Fields)


def one_view(
    spec: str, variants: Iterable[tuple[str, View, tuple[object, ...]]], shown: Callable[[object], str] = str
) -> View:
    """Return the view of all variants: each is given with its case, and what else of it is printed once.

    Raises `CasesDifferError` where two differ, which shows the first parts that do.
    """
    others = iter(variants)
    first, view, more = next(others)
    for case, found, also in others:
        for one, other in (*_parts(view, found), (more, also)):
            if one != other:
                raise CasesDifferError(spec=spec, first=first, second=case, one=shown(one), other=shown(other))
    return view


def _parts(view: View, other: View) -> Iterator[tuple[object, object]]:
    return ((getattr(view, f.name), getattr(other, f.name)) for f in fields(view))
