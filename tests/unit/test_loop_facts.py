"""The facts of loop kernels: vectors that are consecutive and aligned, by brute force, and what an element moves."""

from itertools import product

import pytest
import torch
import torch.nn.functional as F
from random_loops import drawn
from test_classify_loops import coordinates, walked

from kgen.families.strided.classify import classify_loop
from kgen.families.strided.facts import VECTORS, LoopFacts, facts_of, large_accesses, width_of
from kgen.families.strided.form import Access, Layout, LoopForm
from kgen.frontend.importers import spec_from_callable
from kgen.frontend.lower import lower
from kgen.frontend.trace import trace


def form_of(fn, *inputs: torch.Tensor) -> LoopForm:
    spec = spec_from_callable(fn, inputs, name="case")
    (problem,) = lower(trace(spec, spec.cases[0]), spec).problems
    return classify_loop(problem)


def facts(fn, *inputs: torch.Tensor, base_align: int = 16) -> LoopFacts:
    return facts_of(form_of(fn, *inputs), base_align)


def starts(access: Access, form: LoopForm, width: int) -> list[int]:
    """Return the element at which each vector of `width` elements starts, of every row that a gather may pick."""
    picked = range(access.gathered[2]) if access.gathered else (0,)
    found = []
    for (kept, reduced), row in product(coordinates(form), picked):
        if (reduced if form.layout is Layout.ROWS else kept)[-1] % width == 0:
            found.append(walked(access.walk, kept, reduced) + row * (access.gathered[1] if access.gathered else 0))
    return found


def brute_width(access: Access, form: LoopForm, limit: int, base_align: int) -> int:
    side = access.walk.reduced if form.layout is Layout.ROWS else access.walk.kept
    if not side or side[-1] != 1 or access.guards:
        return 1
    bytes_ = access.dtype.bytes
    fits = [
        width
        for width in VECTORS
        if width <= limit
        and form.vector_extent % width == 0
        and all(start % width == 0 for start in starts(access, form, width))
        and (base_align >= 16 or width * bytes_ <= base_align)
    ]
    return max(fits, default=1)


@pytest.mark.parametrize("seed", range(150))
def test_widths_are_the_longest_aligned_runs(seed: int) -> None:
    form = classify_loop(drawn(seed))
    if form.is_empty:
        return
    for access in (*form.loads, *form.stores):
        for limit, base_align in product(VECTORS, (1, 4, 16)):
            found, longest = (f(access, form, limit, base_align) for f in (width_of, brute_width))
            if 1 in (*form.kept, *form.reduced):  # the stride of an axis with one element counts, too
                assert longest % found == 0
            else:
                assert found == longest


@pytest.mark.parametrize("seed", range(150))
def test_large_accesses_can_all_move_the_longest_vector(seed: int) -> None:
    form = classify_loop(drawn(seed))
    for base_align in (1, 2, 8, 16):
        found = facts_of(form, base_align)
        large = large_accesses(form)
        assert all(width_of(a, form, found.vec_align, base_align) == found.vec_align for a in large)
        assert found.vec_align in VECTORS and (form.is_empty or form.vector_extent % found.vec_align == 0)
        if large:
            sizes = [a.dtype.bytes for a in large]
            assert (found.wide_bytes, found.narrow_bytes) == (max(sizes), min(sizes))


def e(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype)


@pytest.mark.parametrize(
    ("x", "base_align", "vec_align"),
    [
        (e(64, 96), 16, 16),
        (e(64, 100), 16, 4),
        (e(64, 99), 16, 1),
        (e(64, 104)[:, :96], 16, 8),
        (e(64, 104)[:, 4:100], 16, 8),  # where the caller's view starts is a matter of its base address
        (e(64, 96), 8, 4),
        (e(64, 96), 1, 1),
        (e(96, 64).t(), 16, 16),
        (e(64, 96, dtype=torch.float32), 4, 1),
    ],
)
def test_vectors_follow_extents_strides_and_bases(x: torch.Tensor, base_align: int, vec_align: int) -> None:
    assert facts(lambda x: x.amax(-1) if x.is_contiguous() else x * 2, x, base_align=base_align).vec_align == vec_align


def test_a_slice_that_the_reference_takes_moves_the_vectors() -> None:
    assert facts(lambda x: x[:, 4:100] * 2, e(64, 104)).vec_align == 4
    assert facts(lambda x: x[:, 3:99] * 2, e(64, 104)).vec_align == 1


def test_facts_of_a_softmax() -> None:
    found = facts(lambda x: x.softmax(-1), e(64, 96))
    assert (found.rows, found.cols, found.layout) == (64, 96, "rows")
    assert (found.phases, found.states, found.scans, found.writes_elements) == (2, 2, 0, 1)
    assert (found.load_bytes, found.store_bytes, found.wide_bytes, found.narrow_bytes) == (2, 2, 2, 2)


def test_states_are_what_threads_exchange() -> None:
    assert facts(lambda x: x.var(-1), e(64, 96)).states == 3
    assert facts(lambda x: x.argmax(-1), e(64, 96)).states == 2
    assert facts(lambda x: (x.sum(-1), x.amax(-1)), e(64, 96)).states == 2
    assert facts(lambda x: x.cumsum(-1), e(64, 96)).scans == 1


def test_what_rows_share_is_not_moved_for_each_element() -> None:
    alone = facts(lambda x: F.layer_norm(x, (4096,)), e(4096, 4096))
    scaled = facts(lambda x, w: F.layer_norm(x, (4096,), w), e(4096, 4096), e(4096))
    assert alone.load_bytes == scaled.load_bytes == 2
    assert scaled.store_bytes == 2 and scaled.ops > alone.ops


def test_what_lies_the_other_way_or_is_guarded_is_moved_too() -> None:
    x, y = torch.empty(512, 1024, dtype=torch.bfloat16), torch.empty(1024, 512, dtype=torch.bfloat16)
    found = facts(lambda x, y: x + y.t(), x, y)
    assert (found.load_bytes, found.store_bytes) == (4, 2)
    form = form_of(lambda x, y: x + y.t(), x, y)
    assert found.rows * (found.load_bytes + found.store_bytes) == form.bytes
    padded = facts(lambda x: F.pad(x, (8, 0)), x)
    assert padded.load_bytes == 2, "a load that is not valid everywhere"
