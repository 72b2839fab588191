"""A LoopForm walks what its Problem accesses: random Problems by brute force, and the layouts of known operations."""

from collections import Counter
from itertools import product

import lower_cases
import pytest
import torch
import torch.nn.functional as F
from random_loops import drawn, points

from kgen.errors.family import RangedExtentError, UnfoldedAccessError
from kgen.families.strided import interleave
from kgen.families.strided.classify import classify_loop
from kgen.families.strided.cuts import varies
from kgen.families.strided.form import Access, Layout, LoopForm, Walk, row_values
from kgen.families.strided.interleave import PIECE
from kgen.frontend.importers import spec_from_callable
from kgen.frontend.lower import lower
from kgen.frontend.trace import trace
from kgen.ir.access import Access as TensorAccess
from kgen.ir.access import Affine
from kgen.ir.dtype import DType
from kgen.ir.problem import (
    Axis,
    Combine,
    Contract,
    Gather,
    Index,
    Load,
    Problem,
    ProblemTensor,
    Reduce,
    Scan,
    Store,
    TensorRole,
)
from kgen.ir.program import Program
from kgen.ir.tensor import ExtentRange, TensorType, row_major_strides
from kgen.ir.verify_problem import verify_problem

SEEDS = range(300)


def program_of(name: str) -> Program:
    fn, *inputs = lower_cases.ALL[name]
    spec = spec_from_callable(fn, inputs, name="case")
    return lower(trace(spec, spec.cases[0]), spec)


def at(index: Affine, point: dict[str, int]) -> int:
    return sum(c * point[a] for a, c in index.terms) + index.offset


def element(problem: Problem, access: TensorAccess, point: dict[str, int]) -> int | None:
    """Return the offset of what an access reads or writes, or None where it is not valid."""
    if any(not at(b.lo, point) <= at(b.index, point) < at(b.hi, point) for b in access.valid):
        return None
    strides = problem.tensor(access.tensor).type.strides
    return sum(at(i, point) * s for i, s in zip(access.indices, strides, strict=True))


def seen_by_problem(problem: Problem) -> Counter[tuple[int | None, ...]]:
    """Return what all accesses and coordinates are at each point, without saying at which."""
    extents = {a.name: a.extent for a in problem.axes}
    found: Counter[tuple[int | None, ...]] = Counter()
    read = [s.access for s in problem.body if isinstance(s, Load | Gather)]
    written = [s.access for s in problem.body if isinstance(s, Store)]
    for point in points(extents):
        row = [element(problem, access, point) for access in (*read, *written)]
        for s in problem.body:
            if isinstance(s, Index):
                row.append(point[s.axis])
            elif isinstance(s, Reduce) and s.combine in (Combine.ARGMAX, Combine.ARGMIN):
                strides = row_major_strides(tuple(extents[a] for a in s.axes))
                row.append(sum(point[a] * stride for a, stride in zip(s.axes, strides, strict=True)))
        found[tuple(row)] += 1
    return found


def walked(walk: Walk, kept: tuple[int, ...], reduced: tuple[int, ...]) -> int:
    strides = (*walk.kept, *walk.reduced)
    return walk.base + sum(c * s for c, s in zip((*kept, *reduced), strides, strict=True))


def reached(access: Access, kept: tuple[int, ...], reduced: tuple[int, ...]) -> int | None:
    if any(walked(guard, kept, reduced) < 0 for guard in access.guards):
        return None
    return walked(access.walk, kept, reduced)


def coordinates(form: LoopForm) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    rows = list(product(*map(range, form.kept)))
    return [(row, column) for row in rows for column in product(*map(range, form.reduced))]


def seen_by_form(form: LoopForm) -> Counter[tuple[int | None, ...]]:
    found: Counter[tuple[int | None, ...]] = Counter()
    for at_point in coordinates(form):
        row = [reached(a, *at_point) for a in (*form.loads, *form.stores)]
        found[(*row, *(walked(walk, *at_point) for _, walk in form.coordinates))] += 1
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_folds_meet_the_elements_that_the_axes_meet(seed: int) -> None:
    problem = drawn(seed)
    verify_problem(problem)
    form = classify_loop(problem)
    assert seen_by_form(form) == seen_by_problem(problem)
    assert form.is_empty == (0 in (a.extent for a in problem.axes))


def test_interleaved_axes_meet_the_same_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = {seed: classify_loop(drawn(seed)) for seed in SEEDS}
    for name, value in (("LOST_BYTES", 0), ("SHARED_BYTES", 1), ("PIECE", 4), ("LEAST_PIECE", 2)):
        monkeypatch.setattr(interleave, name, value)
    changed = 0
    for seed, before in plain.items():
        form = classify_loop(drawn(seed))
        changed += form != before
        assert seen_by_form(form) == seen_by_form(before) and form.reduced == before.reduced
    assert changed >= 10


@pytest.mark.parametrize("seed", SEEDS)
def test_neighbouring_folds_could_not_be_one(seed: int) -> None:
    form = classify_loop(drawn(seed))
    walks = [w for a in (*form.loads, *form.stores) for w in (a.walk, *a.guards)]
    walks += [walk for _, walk in form.coordinates]
    for extents, sides in ((form.kept, [w.kept for w in walks]), (form.reduced, [w.reduced for w in walks])):
        for inner in range(1, len(extents)):
            assert any(s[inner - 1] != s[inner] * extents[inner] for s in sides)


@pytest.mark.parametrize("seed", SEEDS)
def test_sizes_count_distinct_elements(seed: int) -> None:
    form = classify_loop(drawn(seed))
    assert form.rows * form.cols == len(coordinates(form))
    for access in (*form.loads, *form.stores):
        found = [reached(access, *p) for p in coordinates(form)]
        distinct = len({element for element in found if element is not None})
        if not form.is_empty and not access.guards:
            assert distinct == form.points_of(access.walk)
        assert distinct <= form.points_of(access.walk)


@pytest.mark.parametrize("name", lower_cases.ALL)
def test_row_values_are_those_that_vary_along_no_reduced_axis(name: str) -> None:
    for problem in program_of(name).problems:
        if any(isinstance(s, Contract) for s in problem.body):
            continue
        reduced = {a for s in problem.body if isinstance(s, Reduce) for a in s.axes}
        reduced |= {s.axis for s in problem.body if isinstance(s, Scan)}
        live = {a for a in reduced if problem.axis(a).extent != 1}
        wanted = {value for value, axes in varies(problem).items() if not axes & live}
        wanted -= {s.result for s in problem.body if isinstance(s, Scan)}
        form = classify_loop(problem)
        found = row_values(form)
        assert found <= wanted | {s.result for s in problem.body if isinstance(s, Reduce)}
        assert wanted - found <= {value for value in wanted if live != reduced}, problem


X = torch.empty(64, 128, 96)


@pytest.mark.parametrize(
    ("fn", "inputs", "layout", "kept", "reduced"),
    [
        (lambda x: x.relu(), [X], Layout.FLAT, (64 * 128 * 96,), ()),
        (lambda x: x.mT.relu(), [X], Layout.FLAT, (64 * 128 * 96,), ()),
        (lambda x, y: x + y, [X, X[0, 0]], Layout.FLAT, (64 * 128, 96), ()),
        (lambda x, y: x + y, [X, X[0, :, :1]], Layout.FLAT, (64, 128, 96), ()),
        (lambda x: x.sum(-1), [X], Layout.ROWS, (64 * 128,), (96,)),
        (lambda x: x.softmax(-1), [X], Layout.ROWS, (64 * 128,), (96,)),
        (lambda x: x.sum((1, 2)), [X], Layout.ROWS, (64,), (128 * 96,)),
        (lambda x: x.sum(), [X], Layout.ROWS, (1,), (64 * 128 * 96,)),
        (lambda x: x.sum(0), [X], Layout.COLUMNS, (128 * 96,), (64,)),
        (lambda x: x.softmax(1), [X], Layout.COLUMNS, (64, 96), (128,)),
        (lambda x: x.mT.sum(-1), [X], Layout.COLUMNS, (64, 96), (128,)),
        (lambda x: x.sum((0, 2)), [X], Layout.ROWS, (128,), (64, 96)),
        (lambda x: x.cumsum(-1), [X], Layout.ROWS, (64 * 128,), (96,)),
        (lambda x: x.cumsum(1), [X], Layout.COLUMNS, (64, 96), (128,)),
        (lambda x: F.group_norm(x, 8), [X], Layout.ROWS, (64 * 8,), (16 * 96,)),
        (lambda x: x[:, :, :1].sum(-1), [X], Layout.FLAT, (64 * 128,), ()),
    ],
)
def test_layouts_and_folds_of_operations(fn, inputs, layout, kept, reduced) -> None:
    spec = spec_from_callable(fn, inputs, name="case")
    (problem,) = lower(trace(spec, spec.cases[0]), spec).problems
    form = classify_loop(problem)
    assert (form.layout, form.kept, form.reduced) == (layout, kept, reduced)
    assert form.family == ("pointwise" if layout is Layout.FLAT else "reduction")


@pytest.mark.parametrize(
    ("batch", "weights", "kept"),
    [
        (16, 2**22, (2**22 // PIECE, 16, PIECE)),
        (16, 2**22 + 2**13, ((2**22 + 2**13) // 2**13, 16, 2**13)),
        (2**14, 2**12, (2**14, 2**12)),  # what has passed before a repetition is in the cache
        (16, 2**22 + 1, (16, 2**22 + 1)),  # has no equal pieces
    ],
)
def test_a_large_tensor_is_repeated_piece_by_piece(batch: int, weights: int, kept: tuple[int, ...]) -> None:
    x, weight = torch.empty(batch, weights, device="meta"), torch.empty(weights, device="meta")
    spec = spec_from_callable(lambda x, weight: x * weight, [x, weight], name="case")
    (problem,) = lower(trace(spec, spec.cases[0]), spec).problems
    form = classify_loop(problem)
    assert form.kept == kept
    if len(kept) == 3:
        (x_walk, weight_walk), (out,) = (a.walk for a in form.loads), (a.walk for a in form.stores)
        assert x_walk.kept == out.kept == (kept[2], weights, 1) and weight_walk.kept == (kept[2], 0, 1)
        assert form.vector_extent == kept[2]


def test_half_rows_of_a_transpose_lie_along_the_input() -> None:
    """Of two operands that lie differently, the one that moves more bytes decides."""
    spec = spec_from_callable(lambda x, y: x + y.t(), [torch.empty(64, 128), torch.empty(128, 64)], name="case")
    (problem,) = lower(trace(spec, spec.cases[0]), spec).problems
    form = classify_loop(problem)
    assert form.vector_extent == 128 and form.kept == (64, 128)


def one_load(access: TensorAccess, extent: int | ExtentRange = 8) -> Problem:
    tensors = tuple(
        ProblemTensor(name, TensorType.contiguous(DType.FP32, (16,)), role)
        for name, role in (("x", TensorRole.INPUT), ("out", TensorRole.OUTPUT))
    )
    body = (Load("value", access, DType.FP32), Store("value", TensorAccess("out", (Affine.of("i"),))))
    return Problem("one", (Axis("i", extent),), tensors, body)


def test_what_is_no_walk_is_refused() -> None:
    divided = TensorAccess("x", (Affine((("i", 1),), 0, 2),))
    with pytest.raises(UnfoldedAccessError, match=r"the access x\[i//2\] of one is no walk"):
        classify_loop(one_load(divided))
    with pytest.raises(RangedExtentError, match="axis i of one has the extent"):
        classify_loop(one_load(TensorAccess("x", (Affine.of("i"),)), ExtentRange("n", 1, 16)))


def test_bytes_count_both_halves_of_a_tensor() -> None:
    spec = spec_from_callable(lambda x: x[:, :48] * x[:, 48:], [X[0]], name="case")
    (problem,) = lower(trace(spec, spec.cases[0]), spec).problems
    assert classify_loop(problem).bytes == 4 * (128 * 96 + 128 * 48)
