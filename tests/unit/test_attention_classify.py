"""AttentionForms: what a form says is computed as a kernel would and compared with torch, over random spellings."""

import attention_cases
import pytest
import torch
from attention_eval import evaluate_attention
from spellings import BF16, t
from test_attention_lower import lowered, tupled

from kgen.errors.family import NotOneAttentionError
from kgen.families.attention.classify import classify_attention
from kgen.families.attention.facts import facts_of
from kgen.ir.dtype import DType

F = torch.nn.functional


def form_of(fn, *inputs):
    program, _ = lowered(fn, inputs)
    return classify_attention(program.problems[0])


def sdpa(**options):
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **options)


@pytest.mark.parametrize("seed", range(200, 320))
def test_a_form_means_what_torch_computes(seed: int) -> None:
    spelling, inputs = attention_cases.drawn(seed)
    program, tensors = lowered(spelling, inputs)
    (problem,) = program.problems
    form = classify_attention(problem)
    tolerance = 4e-2 if spelling.dtype is BF16 else 3e-5
    for out, wanted in zip(evaluate_attention(form, problem, tensors), tupled(spelling(*inputs)), strict=True):
        torch.testing.assert_close(out, wanted, rtol=tolerance, atol=tolerance, equal_nan=True)
    if spelling.mask in ("causal", "causal_filled", "window") and spelling.sizes[2] > 1:
        assert form.keys.most == 0 and form.keys.exact
        assert form.keys.least == (-2 if spelling.mask == "window" and not spelling.is_op else None)
    assert form.q.tensor != form.out.tensor and not form.input_ops


Q, K, V = t(2, 6, 16, 8, dtype=BF16), t(2, 2, 24, 8, dtype=BF16), t(2, 2, 24, 4, dtype=BF16)


def test_the_axes_of_grouped_causal_attention() -> None:
    form = form_of(sdpa(is_causal=True, enable_gqa=True), Q, K, V)
    assert (form.m, form.n, form.d, form.dv, form.ratio, form.batch) == (16, 24, 8, 4, 3, (4,))
    assert (form.q.tokens, form.q.dim, form.q.group, form.q.batch) == (8, 1, 128, (384,))
    assert (form.k.tokens, form.k.dim, form.k.group, form.k.batch) == (8, 1, 0, (192,))
    assert (form.v.tokens, form.v.dim, form.v.batch) == (4, 1, (96,))
    assert form.scale == pytest.approx(8**-0.5) and form.mma_dtype is DType.BF16
    assert (form.keys.least, form.keys.most, form.keys.exact) == (None, 0, True)
    assert form.pairs == 16 * 17 // 2 * 12 and form.flops == 2 * form.pairs * 12


def test_packed_projections_are_read_by_their_strides() -> None:
    x = t(2, 16, 3, 4, 8, dtype=BF16)
    form = form_of(lambda x: sdpa()(*(y.transpose(1, 2) for y in x.unbind(2))), x)
    assert (form.q.offset, form.k.offset, form.v.offset) == (0, 32, 64)
    assert {(a.tensor, a.tokens, a.dim, a.batch) for a in (form.q, form.k, form.v)} == {("x", 96, 1, (1536, 8))}


def test_a_head_shared_by_all_is_a_group_and_a_decode_step_has_no_queries_axis() -> None:
    form = form_of(sdpa(enable_gqa=True), Q[:, :, :1], K[:, :1], V[:, :1])
    assert form.m * form.ratio == 6 and form.batch == (2,) and form.bytes < 2 * 2 * (6 * 12 + 24 * 12) + 1


def test_scales_before_and_after_the_product_are_one_factor() -> None:
    form = form_of(lambda q, k, v: ((q * 0.5) @ (k * 0.25).mT / 3 * 2).softmax(-1) @ v, Q[:, :2], K, V)
    assert form.scale == pytest.approx(0.5 * 0.25 / 3 * 2) and not form.score_ops


def test_a_soft_cap_is_an_expression_of_the_scaled_score() -> None:
    form = form_of(lambda q, k, v: (torch.tanh(q @ k.mT * 0.1) * 30).softmax(-1) @ v, Q[:, :2], K, V)
    assert form.scale == pytest.approx(0.1)
    assert [str(op.op) for op in form.score_ops] == ["tanh", "mul"] and form.keys.unmasked == form.score


@pytest.mark.parametrize(
    ("keep", "bounds"),
    [
        (lambda m, n: n <= m, (None, 0)),
        (lambda m, n: ~(n > m), (None, 0)),
        (lambda m, n: n - m <= 8, (None, 8)),
        (lambda m, n: (m >= n) & (m - n < 4), (-3, 0)),
        (lambda m, n: (m - n).abs() <= 4, (-4, 4)),
        (lambda m, n: ((m - n) < 5) & ((n - m) < 3), (-4, 2)),
        (lambda m, n: m == n, (0, 0)),
    ],
)
def test_masks_by_coordinates_are_bounds(keep, bounds) -> None:
    def fn(q, k, v):
        s = q @ k.mT
        m, n = torch.arange(s.shape[-2])[:, None], torch.arange(s.shape[-1])
        return torch.where(keep(m, n), s, -torch.inf).softmax(-1) @ v

    form = form_of(fn, Q[:, :2], K, V)
    assert (form.keys.least, form.keys.most, form.keys.exact) == (*bounds, True)


def test_a_mask_that_is_loaded_or_of_another_kind_is_evaluated_everywhere() -> None:
    mask = t(16, 24, dtype=torch.bool)
    form = form_of(lambda q, k, v, m: (q @ k.mT).masked_fill(m, -torch.inf).softmax(-1) @ v, Q[:, :2], K, V, mask)
    assert not form.keys.exact and form.keys.most is None
    (load,) = form.score_loads
    assert (load.queries, load.keys, load.group, load.batch) == (24, 1, 0, (0,) * len(form.batch))


def _lengths(condition, spelling: str = "filled"):
    """Return an attention whose keys are kept where `condition(m, n, lengths)` holds, lengths as (batch, 1, 1, 1)."""

    def fn(q, k, v, lengths):
        m, n = torch.arange(q.shape[-2])[:, None], torch.arange(k.shape[-2])
        keep = condition(m, n, lengths.view(-1, 1, 1, 1))
        if spelling == "sdpa":
            return F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
        s = q @ k.mT * 0.3
        if spelling == "added":
            return (s + torch.zeros(keep.shape, dtype=q.dtype).masked_fill(~keep, -torch.inf)).softmax(-1) @ v
        if spelling == "chosen":
            return (s + torch.where(keep, 0.0, -torch.inf).to(q.dtype)).softmax(-1) @ v
        return s.masked_fill(~keep, -torch.inf).softmax(-1) @ v

    return fn


LENGTHS = [
    # condition, first, extra, sliding, bounds
    (lambda m, n, lengths: n < lengths, None, 0, False, (None, None)),
    (lambda m, n, lengths: ~(n >= lengths), None, 0, False, (None, None)),
    (lambda m, n, lengths: lengths > n, None, 0, False, (None, None)),
    (lambda m, n, lengths: n <= lengths, None, 1, False, (None, None)),
    (lambda m, n, lengths: n + 2 <= lengths, None, -1, False, (None, None)),
    (lambda m, n, lengths: (n < lengths) & (n <= m), None, 0, False, (None, 0)),
    (lambda m, n, lengths: (n < lengths) & (n <= m) & (m - n < 4), None, 0, False, (-3, 0)),
    (lambda m, n, lengths: n <= m + (lengths - 5), None, -4, True, (None, None)),
    (lambda m, n, lengths: (n - m < lengths) & (m - n < 3), None, 0, True, (-2, None)),
    (lambda m, n, lengths: (n < lengths) & (n >= lengths - 3), -3, 0, False, (None, None)),
    (lambda m, n, lengths: (n < lengths) & (lengths - n <= 2) & (n + 1 > lengths - 4), -2, 0, False, (None, None)),
    (lambda m, n, lengths: (n <= m + lengths - 5) & (n > m + lengths - 8), -7, -4, True, (None, None)),
]


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("spelling", ["filled", "sdpa", "added", "chosen"])
@pytest.mark.parametrize(("condition", "first", "extra", "sliding", "bounds"), LENGTHS)
def test_a_length_of_each_sequence_bounds_its_keys(condition, first, extra, sliding, bounds, spelling, dtype) -> None:
    q, k, v = t(3, 2, 5, 8), t(3, 2, 7, 8, seed=1), t(3, 2, 7, 6, seed=2)
    lengths, fn = torch.tensor([5, 9, 4], dtype=dtype), _lengths(condition, spelling)
    program, tensors = lowered(fn, (q, k, v, lengths))
    (problem,) = program.problems
    form = classify_attention(problem)
    found = form.keys.lengths
    assert (found.first, found.extra, found.sliding, found.exact) == (first, extra, sliding, first is None)
    assert not form.keys.exact
    assert (form.keys.least, form.keys.most) == bounds
    assert (form.length.tensor, form.length.batch, form.length.group) == ("lengths", (1, 0), 0)
    out, wanted = evaluate_attention(form, problem, tensors)[0], fn(q, k, v, lengths)
    torch.testing.assert_close(out, wanted, rtol=3e-5, atol=3e-5, equal_nan=True)
    assert facts_of(form, 16).lengths == int(first is None)


@pytest.mark.parametrize(
    "condition",
    [
        lambda m, n, lengths: n >= lengths,  # the first keys are masked
        lambda m, n, lengths: n == lengths,
        lambda m, n, lengths: 2 * n < lengths,
        lambda m, n, lengths: n + m < lengths,
        lambda m, n, lengths: (n < lengths) | (n <= m),
        lambda m, n, lengths: n < lengths * 2,
        lambda m, n, lengths: n < lengths % 4,
    ],
)
def test_a_condition_on_a_length_that_bounds_no_keys_is_evaluated(condition) -> None:
    q, k, v = t(3, 2, 5, 8), t(3, 2, 7, 8, seed=1), t(3, 2, 7, 6, seed=2)
    lengths, fn = torch.tensor([5, 9, 4]), _lengths(condition, "sdpa")
    program, tensors = lowered(fn, (q, k, v, lengths))
    form = classify_attention(program.problems[0])
    assert form.keys.lengths is None and form.length is None and not form.keys.exact and not facts_of(form, 16).lengths
    out = evaluate_attention(form, program.problems[0], tensors)[0]
    torch.testing.assert_close(out, fn(q, k, v, lengths), rtol=3e-5, atol=3e-5)


def test_a_mask_beside_a_length_is_evaluated_and_a_length_of_each_query_is_a_mask() -> None:
    q, k, v, mask = t(3, 2, 5, 8), t(3, 2, 7, 8, seed=1), t(3, 2, 7, 6, seed=2), t(5, 7, dtype=torch.bool)
    mask[:, 0] = True
    lengths = torch.tensor([5, 7, 4])

    def both(q, k, v, lengths, mask):
        keep = (torch.arange(7) < lengths.view(-1, 1, 1, 1)) & mask
        return F.scaled_dot_product_attention(q, k, v, attn_mask=keep)

    program, tensors = lowered(both, (q, k, v, lengths, mask))
    form = classify_attention(program.problems[0])
    assert form.keys.lengths is not None and not form.keys.lengths.exact and not facts_of(form, 16).lengths
    out = evaluate_attention(form, program.problems[0], tensors)[0]
    torch.testing.assert_close(out, both(q, k, v, lengths, mask), rtol=3e-5, atol=3e-5)

    def of_queries(q, k, v, lengths):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=torch.arange(7) < lengths[:, None])

    assert form_of(of_queries, q, k, v, torch.tensor([1, 2, 3, 4, 5])).keys.lengths is None


@pytest.mark.parametrize(
    "condition",
    [
        lambda n, a, b: (n < a) & (n < b),  # the shorter one
        lambda n, a, b: (n < a) & (n >= b - 3),  # a window that ends elsewhere
        lambda n, a, b: (n < a) & (n != b),
    ],
)
def test_of_two_lengths_one_is_a_bound_and_the_mask_is_evaluated(condition) -> None:
    def fn(q, k, v, a, b):
        keep = condition(torch.arange(7), a.view(-1, 1, 1, 1), b.view(-1, 1, 1, 1))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=keep)

    inputs = (
        t(3, 2, 5, 8),
        t(3, 2, 7, 8, seed=1),
        t(3, 2, 7, 6, seed=2),
        torch.tensor([5, 7, 4]),
        torch.tensor([7, 2, 4]),
    )
    program, tensors = lowered(fn, inputs)
    form = classify_attention(program.problems[0])
    assert form.length.tensor == "a" and not form.keys.lengths.exact and form.keys.lengths.first is None
    out = evaluate_attention(form, program.problems[0], tensors)[0]
    torch.testing.assert_close(out, fn(*inputs), rtol=3e-5, atol=3e-5)


@pytest.mark.parametrize("ratio", [1, 3])
def test_a_decode_step_with_a_window_before_the_length(ratio: int) -> None:
    def fn(q, k, v, lengths):
        n, length = torch.arange(k.shape[-2]), lengths[:, None, None, None]
        return F.scaled_dot_product_attention(q, k, v, attn_mask=(n < length) & (n >= length - 4), enable_gqa=ratio > 1)

    inputs = (
        t(3, 2 * ratio, 1, 8),
        t(3, 2, 9, 8, seed=1),
        t(3, 2, 9, 6, seed=2),
        torch.tensor([9, 3, 6], dtype=torch.int32),
    )
    program, tensors = lowered(fn, inputs)
    form = classify_attention(program.problems[0])
    lengths = form.keys.lengths
    assert (lengths.first, lengths.extra, lengths.sliding, lengths.exact) == (-4, 0, False, False)
    assert form.m * form.ratio == ratio
    out = evaluate_attention(form, program.problems[0], tensors)[0]
    torch.testing.assert_close(out, fn(*inputs), rtol=3e-5, atol=3e-5)


def test_heads_have_lengths_of_their_own() -> None:
    def fn(q, k, v, lengths):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=torch.arange(7) < lengths[..., None, None])

    inputs = t(3, 2, 5, 8), t(3, 2, 7, 8, seed=1), t(3, 2, 7, 6, seed=2), torch.tensor([[5, 2], [9, 1], [4, 7]])
    program, tensors = lowered(fn, inputs)
    form = classify_attention(program.problems[0])
    assert form.batch == (6,) and form.length.batch == (1,)
    out = evaluate_attention(form, program.problems[0], tensors)[0]
    torch.testing.assert_close(out, fn(*inputs), rtol=3e-5, atol=3e-5)


def test_weights_in_fp32_are_rounded_for_narrow_results_alone() -> None:
    def fn(q, k, v):
        return (q.float() @ k.float().mT).softmax(-1) @ v.float()

    assert form_of(lambda q, k, v: fn(q, k, v).bfloat16(), Q[:, :2], K, V).mma_dtype is DType.BF16
    with pytest.raises(NotOneAttentionError, match="fp32"):
        form_of(fn, Q[:, :2], K, V)
