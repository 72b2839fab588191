"""Rows in groups, each multiplied by a matrix of its own: `torch._grouped_mm` as one Problem, one form, one kernel."""

from dataclasses import replace
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from form_eval import evaluate_form
from problem_eval import evaluate_program
from spellings import t as drawn
from test_gates import lowered

from kgen.errors.frontend import ReferenceFailedError, UnsupportedOpError
from kgen.errors.rules import NoLegalCandidateError
from kgen.families.classify import classify
from kgen.families.gemm.classify import classify_gemm
from kgen.families.gemm.facts import facts_of
from kgen.families.gemm.form import GemmForm
from kgen.families.gemm.groups import row_tiles, used_groups
from kgen.families.gemm.rules_facts import GemmFacts
from kgen.ir.gated import is_gated
from kgen.ir.grouped import row_groups
from kgen.ir.verify_problem import verify_program
from kgen.planning.candidates import solve_gemm
from kgen.target import load_device

BF16 = torch.bfloat16
t = partial(drawn, dtype=BF16)
H200 = load_device("h200")
COUNTS = torch.tensor([3, 0, 12, 5])
ROWS = int(COUNTS.sum())
ENDS = COUNTS.cumsum(0).int()
STARTS_AND_ENDS = F.pad(ENDS, (1, 0))
X, W, COLUMNS = t(ROWS, 16), t(4, 24, 16, seed=1), t(4, 16, 24, seed=2)
BIAS, RESIDUAL, SCALES = t(24, seed=3), t(ROWS, 24, seed=4), t(ROWS, seed=5)
LEFT = torch.tensor([2, 2, 9, 15], dtype=torch.int32)  # rows from 15 on are in no group
grouped = torch._grouped_mm


def each(x, weights, ends=ENDS):
    """Return the products of all groups in fp32, one after the other."""
    starts = [0, *ends.tolist()]
    parts = [x[a:b].float() @ w.float() for a, b, w in zip(starts, starts[1:], weights, strict=False)]
    return torch.cat(parts)


SPELLINGS = {
    "rows_of_weights": (lambda x, w, o: grouped(x, w.mT, offs=o), (X, W, ENDS), each(X, W.mT)),
    "columns_of_weights": (lambda x, w, o: grouped(x, w, offs=o), (X, COLUMNS, ENDS), each(X, COLUMNS)),
    "public_name": (lambda x, w, o: F.grouped_mm(x, w, offs=o), (X, COLUMNS, ENDS), each(X, COLUMNS)),
    "epilogue": (
        lambda x, w, o, b, r: F.silu(grouped(x, w.mT, offs=o) + b) + r,
        (X, W, ENDS, BIAS, RESIDUAL),
        F.silu(each(X, W.mT) + BIAS) + RESIDUAL,
    ),
    "scaled_rows": (
        lambda x, w, o, s: grouped(x, w.mT, offs=o).float() * s[:, None],
        (X, W, ENDS, SCALES),
        each(X, W.mT) * SCALES[:, None],
    ),
    "part_of_weights": (
        lambda x, w, o: grouped(x, w[1:, :8].mT, offs=o[:3]),
        (X, W, torch.tensor([4, 4, 20, 20], dtype=torch.int32)),
        each(X, W[1:, :8].mT, torch.tensor([4, 4, 20])),
    ),
    "starts_before_ends": (
        lambda x, w, o: grouped(x, w.mT, offs=o[1:]),
        (X, W, STARTS_AND_ENDS),
        each(X, W.mT),
    ),
    "rows_of_two_axes": (
        lambda x, w, o: grouped(x.reshape(ROWS, 16), w.mT, offs=o).reshape(2, ROWS // 2, 24) + 1,
        (X.view(2, ROWS // 2, 16), W, ENDS),
        each(X, W.mT).view(2, ROWS // 2, 24) + 1,
    ),
}


def form_of(fn, inputs) -> GemmForm:
    program, _ = lowered(fn, inputs)
    (problem,) = program.problems
    form = classify(problem, H200)
    assert isinstance(form, GemmForm)
    return form


@pytest.mark.parametrize("name", SPELLINGS)
def test_one_kernel_computes_all_groups(name: str) -> None:
    fn, inputs, expected = SPELLINGS[name]
    program, tensors = lowered(fn, inputs)
    verify_program(program)
    (problem,) = program.problems
    assert row_groups(problem) is not None
    torch.testing.assert_close(evaluate_program(program, tensors)[0].float(), expected, rtol=2e-2, atol=2e-2)
    form = classify_gemm(problem)
    assert form.groups is not None and form.m == ROWS and not form.batch
    result = evaluate_form(form, problem, tensors).float()
    torch.testing.assert_close(result, expected, rtol=2e-2, atol=2e-2)


def test_what_reads_more_than_elements_runs_before() -> None:
    order = torch.randperm(ROWS)
    fn = lambda x, w, c, i: grouped(x[i], w.mT, offs=c.cumsum(0).int())  # noqa: E731
    program, tensors = lowered(fn, (X, W, COUNTS, order))
    assert [row_groups(p) is not None for p in program.problems] == [False, False, True]
    torch.testing.assert_close(
        evaluate_program(program, tensors)[0].float(), each(X[order], W.mT), rtol=2e-2, atol=2e-2
    )


def test_a_bias_of_each_group_is_added_behind() -> None:
    def fn(x, w, o, b):
        group = torch.searchsorted(o, torch.arange(ROWS, dtype=torch.int32), right=True)
        return grouped(x, w.mT, offs=o) + b[group]

    bias = t(4, 24, seed=6)
    program, tensors = lowered(fn, (X, W, ENDS, bias))
    assert sum(row_groups(p) is not None for p in program.problems) == 1
    expected = each(X, W.mT) + bias.float().repeat_interleave(COUNTS, 0)
    torch.testing.assert_close(evaluate_program(program, tensors)[0].float(), expected, rtol=2e-2, atol=2e-2)


def test_without_ends_it_is_a_batch() -> None:
    form = form_of(lambda a, b: grouped(a, b.mT), (t(4, 5, 16), W))
    assert form.groups is None and form.batch == (4,)


@pytest.mark.parametrize(
    ("fn", "inputs"),
    [
        (lambda x, w, o: grouped(x.T, w, offs=o), (t(ROWS, 16), t(ROWS, 24), ENDS)),
        (lambda x, w, o: grouped(x, w, offs=o), (t(4, 8, 16), t(16, 24), ENDS)),
    ],
)
def test_groups_of_columns_and_of_k_are_refused(fn, inputs) -> None:
    with pytest.raises(UnsupportedOpError, match=r"operands with . and 2 axes") as caught:
        lowered(fn, inputs)
    assert caught.value.where.line and "rows [T, K] in groups" in str(caught.value)


def test_facts_count_groups_and_their_strides() -> None:
    facts = facts_of(form_of(*SPELLINGS["rows_of_weights"][:2]), 16)
    assert (facts.groups, facts.m, facts.b_align) == (4, ROWS, 16)
    odd = t(4, 24 * 16 + 1)[:, : 24 * 16].unflatten(1, (24, 16))
    assert facts_of(form_of(SPELLINGS["rows_of_weights"][0], (X, odd, ENDS)), 16).b_align == 2


def expected_tiles(rows: int, groups: int, tile: int, draw: torch.Generator) -> float:
    """Return the mean over a few draws of how many tiles the groups have, by counting."""
    counts = [torch.bincount(torch.randint(groups, (rows,), generator=draw), minlength=groups) for _ in range(20)]
    return sum(float((-(-c // tile)).sum()) for c in counts) / len(counts)


@pytest.mark.parametrize(("rows", "groups"), [(4096, 8), (8192, 64), (4096, 256), (128, 128), (5, 700), (1, 1)])
def test_tiles_are_expected_as_chance_gives_them(rows: int, groups: int) -> None:
    facts = GemmFacts(m=rows, n=64, k=64, groups=groups)
    draw = torch.Generator().manual_seed(0)
    for tile in (64, 128, 192):
        found = expected_tiles(rows, groups, tile, draw)
        assert abs(int(row_tiles(facts, tile)) - found) <= max(1, 0.2 * found)
    assert used_groups(facts) <= min(rows, groups) + 1e-9


def test_plans_follow_the_rows_of_a_group() -> None:
    few = GemmFacts(m=8192, n=4096, k=4096, groups=8)
    many = GemmFacts(m=256, n=4096, k=4096, groups=256)
    tiles = [solve_gemm(facts, H200, top=1).ranked[0].candidate.size.m for facts in (few, many)]
    assert tiles[0] >= 128 and tiles[1] == 64


@pytest.mark.parametrize(
    ("change", "device", "rule"),
    [
        ({}, "mi300x", "printed_groups"),
        ({}, "mi355x", "printed_groups"),
        ({"b_align": 2}, "h200", "printed_groups"),
        ({"input_ops": 1}, "h200", "printed_groups"),
        ({"in_dtype": "fp32", "in_bytes": 4}, "h200", "printed_groups_halves"),
    ],
)
def test_what_no_template_prints_is_refused_by_a_rule(change, device: str, rule: str) -> None:
    facts = replace(facts_of(form_of(*SPELLINGS["rows_of_weights"][:2]), 16), **change)
    with pytest.raises(NoLegalCandidateError, match=rule):
        solve_gemm(facts, load_device(device))


def test_torch_refuses_rows_that_are_not_aligned() -> None:
    with pytest.raises(ReferenceFailedError, match="multiple of 16 bytes"):
        lowered(SPELLINGS["rows_of_weights"][0], (t(ROWS, 17), t(4, 24, 17), ENDS))


def test_parts_of_grouped_products_may_be_a_gate() -> None:
    def fn(x, w, o):
        gate, up = grouped(x, w.mT, offs=o).chunk(2, -1)
        return F.silu(gate) * up

    program, tensors = lowered(fn, (X, W, ENDS))
    (problem,) = program.problems
    assert is_gated(problem) and program.plain is not None
    h = each(X, W.mT)
    expected = F.silu(h[:, :12]) * h[:, 12:]
    torch.testing.assert_close(evaluate_program(program, tensors)[0].float(), expected, rtol=2e-2, atol=2e-2)
    result = evaluate_form(classify_gemm(problem), problem, tensors).float()
    torch.testing.assert_close(result, expected, rtol=2e-2, atol=2e-2)
    torch.testing.assert_close(evaluate_program(program.plain, tensors)[0].float(), expected, rtol=2e-2, atol=2e-2)
