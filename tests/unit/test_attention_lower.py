"""Attentions in many spellings become one Problem, in one kernel, that means what eager torch computes."""

import attention_cases
import pytest
import spellings
import torch
from problem_eval import evaluate_program

from kgen.frontend.importers import spec_from_callable
from kgen.frontend.lower import lower
from kgen.frontend.trace import trace_live
from kgen.ir.attention import attention_body
from kgen.ir.verify_problem import verify_program

_TOLERANCE = {torch.float32: 3e-5, torch.bfloat16: 4e-2}  # bf16: eager rounds scores, a kernel does not


def lowered(fn, inputs):
    spec = spec_from_callable(fn, inputs, name="case")
    traced = trace_live(spec, spec.cases[0])
    program = lower(traced.graph, spec)
    return program, {i.name: x for i, x in zip(spec.inputs, inputs, strict=True)} | traced.hidden


def tupled(result):
    return (result,) if isinstance(result, torch.Tensor) else tuple(result)


def check(program, tensors, expected, tolerance):
    verify_program(program)
    for out, wanted in zip(evaluate_program(program, dict(tensors)), tupled(expected), strict=True):
        assert out.shape == wanted.shape and out.dtype == wanted.dtype
        torch.testing.assert_close(out, wanted, rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.parametrize("seed", range(120))
def test_a_spelling_is_one_attention_that_means_what_torch_computes(seed: int) -> None:
    spelling, inputs = attention_cases.drawn(seed)
    program, tensors = lowered(spelling, inputs)
    expected, tolerance = spelling(*inputs), _TOLERANCE[spelling.dtype]
    check(program, tensors, expected, tolerance)
    assert len(program.problems) == 1 and attention_body(program.problems[0]) is not None, f"{spelling}\n{program}"
    if program.plain is not None:
        check(program.plain, tensors, expected, tolerance)


Q, K, V = spellings.t(2, 3, 5, 8), spellings.t(2, 3, 7, 8, seed=1), spellings.t(2, 3, 7, 6, seed=2)


def scores_returned(q, k, v):
    s = (q @ k.mT).softmax(-1)
    return s @ v, s


def probabilities_changed(q, k, v):
    return ((q @ k.mT).softmax(-1) ** 2) @ v


def normalised_over_queries(q, k, v):
    return (q @ k.mT).softmax(-2) @ v


def no_largest(q, k, v):
    e = (q @ k.mT).exp()
    return (e / e.sum(-1, keepdim=True)) @ v


def sum_of_scores(q, k, v):
    s = q @ k.mT
    return s.softmax(-1) @ v, s.sum()


def entropy_too(q, k, v):
    p = (q @ k.mT).softmax(-1)
    return p @ v, (p * p.log()).sum(-1)


def scores_used_again(q, k, v):
    s = q @ k.mT
    return s.softmax(-1) @ v + s.relu() @ v


NO_ATTENTION = {
    "scores_returned": scores_returned,
    "probabilities_changed": probabilities_changed,
    "normalised_over_queries": normalised_over_queries,
    "no_largest": no_largest,
    "sum_of_scores": sum_of_scores,
    "entropy_too": entropy_too,
    "scores_used_again": scores_used_again,
    "no_softmax": lambda q, k, v: ((q @ k.mT) / 7).relu() @ v,
}


@pytest.mark.parametrize("name", NO_ATTENTION)
def test_what_is_no_whole_attention_stays_products_and_loops(name: str) -> None:
    fn = NO_ATTENTION[name]
    program, tensors = lowered(fn, (Q, K, V))
    assert program.plain is None and len(program.problems) > 1
    assert all(attention_body(p) is None for p in program.problems)
    check(program, tensors, fn(Q, K, V), 3e-5)


def test_a_row_without_keys_is_zeros_in_the_op_and_nan_in_a_softmax() -> None:
    mask = torch.ones(5, 7, dtype=torch.bool)
    mask[2] = False
    references = {
        "zeros": lambda q, k, v, m: torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=m),
        "nan": lambda q, k, v, m: (q @ k.mT * 0.5).masked_fill(~m, -torch.inf).softmax(-1) @ v,
    }
    for empty, fn in references.items():
        program, tensors = lowered(fn, (Q, K, V, mask))
        body = attention_body(program.problems[0])
        assert body is not None and body.empty_rows == empty
        expected = fn(Q, K, V, mask)
        assert (expected[:, :, 2] == 0).all() if empty == "zeros" else expected[:, :, 2].isnan().all()
        check(program, tensors, expected, 3e-5)


def test_a_layer_keeps_its_attention_in_one_kernel_between_its_projections() -> None:
    def layer(x, w, o):
        q, k, v = (y.unflatten(-1, (2, 4)).transpose(1, 2) for y in torch.nn.functional.linear(x, w).chunk(3, -1))
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + torch.nn.functional.linear(y.transpose(1, 2).flatten(2), o)

    inputs = spellings.t(2, 5, 8), spellings.t(24, 8, seed=1), spellings.t(8, 8, seed=2)
    program, tensors = lowered(layer, inputs)
    kinds = [attention_body(p) is not None for p in program.problems]
    assert kinds == [False, True, False] and program.plain is not None and len(program.plain.problems) == 5
    check(program, tensors, layer(*inputs), 3e-5)
    check(program.plain, tensors, layer(*inputs), 3e-5)


def test_two_attentions_are_a_kernel_each_and_share_no_fate() -> None:
    def both(q, k, v):
        first = (q @ k.mT).softmax(-1) @ v
        p = (first @ first.mT).softmax(-1)
        return p @ first, p

    program, tensors = lowered(both, (Q, K, V))
    assert [attention_body(p) is not None for p in program.problems].count(True) == 1
    check(program, tensors, both(Q, K, V), 3e-5)


def test_grouped_heads_are_read_by_indices_and_never_copied() -> None:
    q, k, v = spellings.t(2, 6, 5, 8), spellings.t(2, 2, 7, 8), spellings.t(2, 2, 7, 8)
    program, _ = lowered(
        lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True), (q, k, v)
    )
    (problem,) = program.problems
    assert "k_value:fp32 = load k[b0, b1, n, k]" in str(problem)
    assert "q_value:fp32 = load q[b0, 3*b1 + m0, m1, k]" in str(problem)
