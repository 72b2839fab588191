"""K and V in pages: which axes walk inside of a page, and which along the table that says where pages lie."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from kgen.errors.family import NotOneAttentionError
from kgen.ir.access import Access, Affine
from kgen.ir.attention import AttentionBody, PagedLoad, paged_load
from kgen.ir.problem import Problem


@dataclass(frozen=True, slots=True)
class Pages:
    """K and V, gathered by one table: the axis of its entries, "" for one entry, and how many keys a page has."""

    key: PagedLoad
    value: PagedLoad
    entries: str
    size: int

    @property
    def table(self) -> Access:
        """How the table is read."""
        return self.key.table.access


def pages_of(problem: Problem, body: AttentionBody, extents: Mapping[str, int]) -> Pages | None:
    """Return the pages of an attention's K and V, None without. Raises `NotOneAttentionError` for other gathers."""
    key, value = paged_load(problem, body.key), paged_load(problem, body.value)
    if key is None and value is None:
        return None
    if key is None or value is None or (key.table, key.wraps) != (value.table, value.wraps):
        raise NotOneAttentionError(problem=problem.name, found="K and V are not gathered by one table")
    keys = {axis for axis in body.output.axes if extents[axis] != 1}
    inside = keys.intersection((*key.gather.access.axes, *value.gather.access.axes))
    entries = keys.intersection(key.table.access.axes)
    if not inside or inside & entries or len(entries) > 1 or {_pages(problem, p) for p in (key, value)} & {None}:
        found = "its table does not have one entry for each page of several keys"
        raise NotOneAttentionError(problem=problem.name, found=found)
    if _pages(problem, key) != _pages(problem, value):
        raise NotOneAttentionError(problem=problem.name, found="K and V do not have equally many pages")
    return Pages(key, value, next(iter(entries), ""), prod(extents[axis] for axis in inside))


def _pages(problem: Problem, paged: PagedLoad) -> int | None:
    """Return how many pages a gathered tensor has, or None if the table counts something else."""
    gather = paged.gather
    extent = problem.tensor(gather.access.tensor).type.static_shape[gather.position]
    return extent if gather.access.indices[gather.position] == Affine() else None
