"""Sequences of different lengths behind one another: a mask by the number of each token's sequence."""

import pytest
import torch
from spellings import FP32, t
from test_attention_lower import check, lowered

from kgen.errors.frontend import UnsupportedOpError
from kgen.families.attention.classify import classify_attention
from kgen.ir.attention import attention_body

F = torch.nn.functional
LENGTHS = (5, 1, 7, 3)
TOKENS = sum(LENGTHS)
Q, K, V = (t(2, TOKENS, 8, dtype=FP32, seed=i) for i in range(3))
ENDS = torch.tensor([0, *LENGTHS], dtype=torch.int32).cumsum(0)


def same_sequence(q, k, v, ids, causal: bool):
    keep = ids[:, None] == ids[None, :]
    if causal:
        keep = keep & torch.ones(len(ids), len(ids), dtype=torch.bool, device=ids.device).tril()
    return F.scaled_dot_product_attention(q, k, v, attn_mask=keep)


def given(q, k, v, ids, causal):
    return same_sequence(q, k, v, ids, causal)


def searched(q, k, v, ends, causal):
    tokens = torch.arange(q.shape[1], dtype=ends.dtype, device=q.device)
    return same_sequence(q, k, v, torch.searchsorted(ends, tokens, right=True), causal)


def bucketized(q, k, v, ends, causal):
    tokens = torch.arange(q.shape[1], dtype=ends.dtype, device=q.device)
    return same_sequence(q, k, v, torch.bucketize(tokens, ends[1:], right=True), causal)


def counted(q, k, v, ends, causal):
    tokens = torch.arange(q.shape[1], device=q.device)
    return same_sequence(q, k, v, (tokens[:, None] >= ends[None, 1:]).sum(-1), causal)


def filled(q, k, v, ids, causal):
    other = ids[:, None] != ids[None, :]
    if causal:
        tokens = torch.arange(q.shape[1], device=q.device)
        other = other | (tokens[:, None] < tokens)
    return (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(other, -torch.inf).softmax(-1) @ v


IDS = torch.repeat_interleave(torch.arange(len(LENGTHS)), torch.tensor(LENGTHS))
SPELLINGS = {
    "given": (given, IDS, 1),
    "given_int32": (given, IDS.int(), 1),
    "filled": (filled, IDS, 1),
    "searched": (searched, ENDS, 2),
    "bucketized": (bucketized, ENDS, 2),
    "counted": (counted, ENDS, 2),
}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", SPELLINGS)
def test_each_sequence_sees_itself_alone(name: str, causal: bool) -> None:
    fn, extra, kernels = SPELLINGS[name]
    program, tensors = lowered(lambda q, k, v, extra: fn(q, k, v, extra, causal), (Q, K, V, extra))
    each = zip(*(x.split(LENGTHS, 1) for x in (Q, K, V)), strict=True)
    expected = torch.cat([F.scaled_dot_product_attention(*qkv, is_causal=causal) for qkv in each], 1)
    check(program, tensors, expected, 3e-5)
    assert [attention_body(p) is not None for p in program.problems] == [*([False] * (kernels - 1)), True]
    form = classify_attention(program.problems[-1])
    assert not form.keys.exact and form.keys.most == (0 if causal else None)
    assert sorted((x.queries, x.keys) for x in form.score_loads) == [(0, 1), (1, 0)]
    check(program.plain, tensors, expected, 3e-5)


VALUES = torch.tensor([-3.0, 0.0, 0.5, 1.0, 4.0, torch.nan, torch.inf])
POSITIONS = {
    "search_left": lambda x, edges: torch.searchsorted(edges, x),
    "search_right": lambda x, edges: torch.searchsorted(edges, x, right=True),
    "search_side": lambda x, edges: torch.searchsorted(edges, x, side="right"),
    "search_int32": lambda x, edges: torch.searchsorted(edges, x, out_int32=True),
    "bucket_left": lambda x, edges: torch.bucketize(x, edges),
    "bucket_right": lambda x, edges: torch.bucketize(x, edges, right=True),
}


@pytest.mark.parametrize("shape", [(7,), (7, 1), ()])
@pytest.mark.parametrize("name", POSITIONS)
def test_positions_among_boundaries(name: str, shape: tuple[int, ...]) -> None:
    fn = POSITIONS[name]
    values = VALUES.reshape(shape) if shape else VALUES[3]
    for x, edges in (
        (values, torch.tensor([0.0, 1.0, 1.0, 4.0])),
        (values.nan_to_num(9, 9).long(), torch.tensor([1, 4])),
    ):
        program, tensors = lowered(fn, (x, edges))
        check(program, tensors, fn(x, edges), 0)


def test_boundaries_of_each_row_are_refused() -> None:
    with pytest.raises(UnsupportedOpError, match="one ascending sequence for all values"):
        lowered(torch.searchsorted, (torch.tensor([[1, 2], [3, 4]]), torch.tensor([[1], [3]])))
