"""K and V in the pages of a cache: read through their table by one attention, or copied through it before one."""

import pytest
import torch
from attention_eval import evaluate_attention
from emitted_specs import e
from spellings import FP32, t
from test_attention_lower import check, lowered

from kgen.errors.family import NotOneAttentionError
from kgen.families.attention.classify import classify_attention
from kgen.families.attention.facts import facts_of
from kgen.frontend.importers import spec_from_callable
from kgen.ir.attention import attention_body
from kgen.ir.problem import Gather
from kgen.pipeline import run
from kgen.planning.plan_attention import AttentionVariant
from kgen.target import load_device

F = torch.nn.functional
PAGES, PAGE, ENTRIES, HEADS, D = 11, 4, 3, 2, 8


def attend(q, k, v, lengths):
    keep = (torch.arange(k.shape[2], device=k.device) < lengths[:, None])[:, None, None]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=keep, enable_gqa=q.shape[1] != k.shape[1])


def tokens_first(q, k, v, table, lengths):
    k, v = (x[table].flatten(1, 2).transpose(1, 2) for x in (k, v))
    return attend(q, k, v, lengths)


def heads_first(q, k, v, table, lengths):
    k, v = (x[table].transpose(1, 2).flatten(2, 3) for x in (k, v))
    return attend(q, k, v, lengths)


def one_cache(q, kv, table, lengths):
    k, v = (x.flatten(1, 2).transpose(1, 2) for x in kv[table].unbind(2))
    return attend(q, k, v, lengths)


def selected(q, k, v, table, lengths):
    k, v = (x.index_select(0, table.flatten()).view(len(table), -1, *x.shape[2:]).transpose(1, 2) for x in (k, v))
    return attend(q, k, v, lengths)


def cut_at_a_page(q, k, v, table, lengths):
    k, v = (x[table].flatten(1, 2)[:, :8].transpose(1, 2) for x in (k, v))
    return attend(q, k, v, lengths)


def without_lengths(q, k, v, table):
    k, v = (x[table].flatten(1, 2).transpose(1, 2) for x in (k, v))
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=q.shape[1] != k.shape[1])


def inputs(fn, dtype=torch.int32, heads: int = HEADS, entries: int = ENTRIES, page: int = PAGE):
    """Return the tensors of a spelling: entries of the table that no length reaches count from the end."""
    q, v = t(3, heads, 5, D, dtype=FP32), t(PAGES, page, HEADS, D, dtype=FP32, seed=2)
    k = t(PAGES, page, HEADS, D, dtype=FP32, seed=1)
    table = (torch.arange(3 * entries) * 4 % PAGES).view(3, entries).to(dtype)
    table[1, -1] = table[1, -1] if fn is selected else -1
    lengths = torch.tensor([1, page * entries - 1, page * entries], dtype=dtype)
    if fn is heads_first:
        k, v = k.transpose(1, 2).contiguous(), v.transpose(1, 2).contiguous()
    if fn is one_cache:
        return q, torch.stack((k, v), 1), table, lengths
    return (q, k, v, table) if fn is without_lengths else (q, k, v, table, lengths)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("heads", [HEADS, 3 * HEADS])
@pytest.mark.parametrize("fn", [tokens_first, heads_first, one_cache, selected, cut_at_a_page, without_lengths])
def test_pages_are_read_through_their_table(fn, heads: int, dtype: torch.dtype) -> None:
    given = inputs(fn, dtype, heads)
    program, tensors = lowered(fn, given)
    (problem,) = program.problems
    check(program, tensors, fn(*given), 3e-5)
    form = classify_attention(problem)
    pages = form.pages
    assert (pages.tensor, pages.size, pages.pages, pages.entries) == ("table", PAGE, PAGES, 1)
    assert (form.n, form.ratio, pages.wraps) == (8 if fn is cut_at_a_page else 12, heads // HEADS, fn is not selected)
    assert pages.k_page == (128 if fn is one_cache else 64) and facts_of(form, 16).page_size == PAGE
    assert (form.keys.lengths is not None and form.keys.lengths.exact) == (fn is not without_lengths)
    out = evaluate_attention(form, problem, tensors)[0]
    torch.testing.assert_close(out, fn(*given), rtol=3e-5, atol=3e-5)


@pytest.mark.parametrize("fn", [tokens_first, one_cache, selected])
def test_a_program_without_paged_attention_copies_and_one_without_any_does_not_fuse(fn) -> None:
    given = inputs(fn)
    program, tensors = lowered(fn, given)
    copied = program.plain
    kinds = [attention_body(p) is not None for p in copied.problems]
    assert kinds.count(True) == 1 and kinds[-1] and not any(isinstance(s, Gather) for s in copied.problems[-1].body)
    check(copied, tensors, fn(*given), 3e-5)
    assert all(attention_body(p) is None for p in copied.plain.problems) and copied.plain.plain is None
    check(copied.plain, tensors, fn(*given), 3e-5)


def one_page(q, k, v, table, lengths):
    return tokens_first(q, k, v, table[:, :1], lengths.clamp(max=4))


def test_a_table_of_one_entry() -> None:
    given = inputs(one_page)
    program, tensors = lowered(one_page, given)
    form = classify_attention(program.problems[0])
    assert (form.n, form.pages.size, form.pages.entries) == (PAGE, PAGE, 0)
    out = evaluate_attention(form, program.problems[0], tensors)[0]
    torch.testing.assert_close(out, one_page(*given), rtol=3e-5, atol=3e-5)


def cut_inside_a_page(q, k, v, table, lengths):
    k, v = (x[table].flatten(1, 2)[:, :10].transpose(1, 2) for x in (k, v))
    return attend(q, k, v, lengths.clamp(max=10))


def values_unpaged(q, k, v, table, lengths):
    return attend(q, k[table].flatten(1, 2).transpose(1, 2), v.transpose(1, 2), lengths)


V = t(3, PAGE * ENTRIES, HEADS, D, dtype=FP32, seed=3)


def test_a_cut_inside_of_a_page_is_copied() -> None:
    given = inputs(cut_inside_a_page)
    program, tensors = lowered(cut_inside_a_page, given)
    assert [attention_body(p) is not None for p in program.problems] == [False, True]
    check(program, tensors, cut_inside_a_page(*given), 3e-5)


@pytest.mark.parametrize(
    ("fn", "given", "reason"),
    [
        (tokens_first, inputs(tokens_first, page=1), "does not have one entry for each page of several keys"),
        (
            values_unpaged,
            (*inputs(values_unpaged)[:2], V, *inputs(values_unpaged)[3:]),
            "K and V are not gathered by one table",
        ),
    ],
)
def test_what_no_table_of_pages_gathers_is_copied_and_says_so(fn, given, reason: str) -> None:
    program, tensors = lowered(fn, given)
    with pytest.raises(NotOneAttentionError, match=reason):
        classify_attention(program.problems[-1])
    check(program, tensors, fn(*given), 3e-5)
    classify_attention(program.plain.problems[-1])
    check(program.plain, tensors, fn(*given), 3e-5)


def planned(queries: int):
    cache = e(64, 16, 2, 128), e(64, 16, 2, 128), e(4, 8, dtype=torch.int32), e(4, dtype=torch.int32)
    given = (e(4, 8, queries, 128), *cache)
    return run(spec_from_callable(tokens_first, given), load_device("h200")).made["plan"]


def test_few_rows_read_pages_through_their_table() -> None:
    plan = planned(1)
    (variant,) = plan.variants
    assert not plan.cut and isinstance(variant, AttentionVariant) and variant.few_rows


def test_a_plan_copies_pages_where_no_template_reads_them() -> None:
    plan = planned(100)
    (reason,) = plan.cut
    assert "K and V are copied through their table first" in reason
    assert [isinstance(v, AttentionVariant) for v in plan.variants][-1]


def test_queries_that_are_picked_are_copied() -> None:
    def picked(q, ids, k, v):
        return F.scaled_dot_product_attention(q[ids].transpose(0, 1), k, v)

    given = t(9, 2, 8, dtype=FP32), torch.tensor([3, 8, 0, 1]), t(2, 6, 8, dtype=FP32), t(2, 6, 8, dtype=FP32)
    program, tensors = lowered(picked, given)
    assert [attention_body(p) is not None for p in program.problems] == [False, True]
    check(program, tensors, picked(*given), 3e-5)
