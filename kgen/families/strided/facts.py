"""LoopForm -> LoopFacts: the problem facts that the rules and the cost model of the loop families read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from math import gcd

from kgen.families.strided.form import Access, Layout, LoopForm, row_values
from kgen.ir.problem import Combine, Map, Reduce, Scan
from kgen.rules.model import Value
from kgen.rules.ruleset import Fact, Vocabulary

MAX_ACCESS_BYTES = 16
SHARED_BY = 8  # elements that read one element of a tensor, where it counts as shared
STATES = {Combine.M2: 3, Combine.SUMEXP: 2, Combine.ARGMAX: 2, Combine.ARGMIN: 2}  # values kept; one elsewhere
# Operations that take an element in; one elsewhere. An index costs comparisons: NaN first, then value, then place.
TAKING_IN = {Combine.M2: 2, Combine.SUMEXP: 2, Combine.ARGMAX: 6, Combine.ARGMIN: 6}
LAYOUTS = tuple(str(layout) for layout in Layout)
VECTORS = (1, 2, 4, 8, 16)
CHOICES: Mapping[str, tuple[Value, ...]] = {
    "layout": LAYOUTS,
    "vec_align": VECTORS,
    "scans": (0, 1),
    "writes_elements": (0, 1),
}
# Lets that every ISA's rules of the family define: what the cost model and the checks read besides the axes.
REQUIRED_LETS = (
    "ctas",  # of the grid
    "ctas_per_unit",
    "access_bytes",  # of the widest global access
    "regs",  # of a thread, estimated
)
DEVICE_FIELDS = (
    "warp_size",
    "warps_per_unit",
    "max_ctas_per_unit",
    "threads_per_cta",
    "registers_per_thread",
    "registers_per_unit",
    "register_granule",
    "simds_per_unit",
    "smem_bytes_per_cta",
    "smem_bytes_per_unit",
    "cluster_portable",
    "compute_units",
)


@dataclass(frozen=True, slots=True)
class LoopFacts:
    """One loop kernel as the rules and the cost model see it.

    `vec_align` is the longest vector, in elements, that extents, strides and base addresses of the large tensors allow.
    `load_bytes` and `store_bytes` are what an element moves through memory, `held_bytes` what of it a thread loads
    ahead and `shared_bytes` what many rows share, which is loaded in the last pass, `stage_bytes` the smallest element
    type that is loaded ahead, 0 where some of that does not come in accesses of 16 bytes, `phases` the combinations
    that wait for one another, `ops` the pointwise operations and combinations of an element, `states` the values that a
    row's threads exchange.
    """

    layout: str
    rows: int
    cols: int
    vector_extent: int
    vec_align: int
    wide_bytes: int
    narrow_bytes: int
    load_bytes: int
    store_bytes: int
    held_bytes: int
    shared_bytes: int
    stage_bytes: int
    phases: int
    states: int
    ops: int
    scans: int
    writes_elements: int

    def as_mapping(self) -> dict[str, Value | float]:
        """Return the facts by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def vocabulary(family: str) -> Vocabulary:
    """Return what the rules of a loop family may name."""
    names = (*(f.name for f in fields(LoopFacts)), *DEVICE_FIELDS)
    return Vocabulary(family, tuple(Fact(n, CHOICES.get(n, ())) for n in names), REQUIRED_LETS)


def facts_of(form: LoopForm, base_align: int) -> LoopFacts:
    """Return the facts of a loop kernel whose tensors' base addresses are aligned to `base_align` bytes."""
    rows = frozenset[str]() if form.layout is Layout.FLAT else row_values(form)
    element_loads = [a for a in form.loads if a.value not in rows]
    element_stores = [a for a in form.stores if form.layout is Layout.FLAT or not a.walk.is_row]
    large, heavy = large_accesses(form), heavy_accesses((*form.loads, *form.stores), form)
    widths = [width_of(a, form, max(VECTORS), base_align) for a in large]
    reduces = [s for s in form.body if isinstance(s, Reduce | Scan)]
    return LoopFacts(
        layout=str(form.layout),
        rows=form.rows,
        cols=form.cols,
        vector_extent=form.vector_extent,
        vec_align=gcd(max(VECTORS), *widths) if widths else 1,
        wide_bytes=max((a.dtype.bytes for a in large), default=4),
        narrow_bytes=min((a.dtype.bytes for a in large), default=4),
        load_bytes=sum({(a.tensor, a.walk): a.dtype.bytes for a in element_loads if a in heavy}.values()),
        held_bytes=sum({(a.tensor, a.walk): a.dtype.bytes for a in element_loads if is_early(a, form)}.values()),
        store_bytes=sum(a.dtype.bytes for a in element_stores),
        shared_bytes=sum(
            {
                (a.tensor, a.walk): a.dtype.bytes for a in element_loads if not is_early(a, form) and step_of(a, form)
            }.values()
        ),
        stage_bytes=_stage_bytes(element_loads, form, base_align),
        phases=form.phases,
        states=sum(STATES.get(s.combine, 1) for s in reduces),
        ops=sum(isinstance(s, Map | Reduce | Scan) and s.result not in rows for s in form.body)
        + sum(TAKING_IN.get(s.combine, 1) for s in reduces),
        scans=int(any(isinstance(s, Scan) for s in form.body)),
        writes_elements=int(bool(element_stores)),
    )


def _stage_bytes(loads: list[Access], form: LoopForm, base_align: int) -> int:
    """Return the bytes of the smallest element that is loaded ahead, or 0 if some are not by 16 bytes at once."""
    early = [a for a in loads if is_early(a, form)]
    widest = [width_of(a, form, max(VECTORS), base_align) * a.dtype.bytes for a in early if a.gathered is None]
    if len(widest) < len(early) or min(widest, default=0) < MAX_ACCESS_BYTES:
        return 0
    return min(a.dtype.bytes for a in early)


def large_accesses(form: LoopForm) -> tuple[Access, ...]:
    """Return the accesses that are consecutive along the vector fold and move a good share of the bytes of such."""
    return heavy_accesses([a for a in (*form.loads, *form.stores) if step_of(a, form) == 1 and not a.guards], form)


def heavy_accesses(accesses: Sequence[Access], form: LoopForm) -> tuple[Access, ...]:
    """Return those of some accesses that move a good share of their bytes."""
    moved = {a: form.points_of(a.walk) * a.dtype.bytes for a in accesses}
    return tuple(a for a in accesses if 4 * moved[a] >= max(moved.values()))


def reach_of(access: Access, form: LoopForm) -> int:
    """Return how many elements a tensor has up to the last one that is accessed, gathered ones included."""
    walk = access.walk
    pairs = (*zip(form.kept, walk.kept, strict=True), *zip(form.reduced, walk.reduced, strict=True))
    gathered = access.gathered[1] * access.gathered[2] if access.gathered else 0
    return abs(walk.base) + sum(max(extent - 1, 0) * abs(stride) for extent, stride in pairs) + gathered + 1


def is_early(access: Access, form: LoopForm) -> bool:
    """Return whether a vector is loaded before anything is computed.

    What many elements share, and only the last pass needs, is loaded there: it lies in a cache, and would fill
    registers.
    """
    is_shared = form.points_of(access.walk) * SHARED_BY <= form.rows * form.cols
    return not form.phases or not is_shared or access.value in form.entering


def step_of(access: Access, form: LoopForm) -> int:
    """Return the stride between neighbouring elements of a vector."""
    side = access.walk.reduced if form.layout is Layout.ROWS else access.walk.kept
    return side[-1] if side else 0


def width_of(access: Access, form: LoopForm, vec: int, base_align: int) -> int:
    """Return how many elements one access can move at once: as many as are consecutive and aligned, up to `vec`."""
    if step_of(access, form) != 1 or access.guards:
        return 1
    walk = access.walk
    strides = [*walk.kept, *walk.reduced]
    strides.pop(len(strides) - 1 if form.layout is Layout.ROWS else len(walk.kept) - 1)
    if access.gathered is not None:
        strides.append(access.gathered[1])
    aligned = max(base_align // access.dtype.bytes, 1)
    return gcd(vec, form.vector_extent, walk.base, aligned if base_align < MAX_ACCESS_BYTES else vec, *strides)
