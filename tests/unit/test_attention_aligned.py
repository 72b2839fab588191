"""Operands that TMA cannot load as they lie are copied first; the attention stays one kernel."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from emitted_specs import e
from spellings import t
from test_attention_lower import check, lowered

from kgen.families.attention.classify import classify_attention
from kgen.families.attention.facts import facts_of
from kgen.frontend.importers import spec_from_callable
from kgen.ir.attention import holds_two_products
from kgen.pipeline import run
from kgen.planning.aligned import with_aligned
from kgen.target import load_device

BF16 = torch.bfloat16
H200 = load_device("h200")


def _causal(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def _by_tokens(q, k, v):
    return F.scaled_dot_product_attention(q, k, v.mT)


def _packed(x):
    return F.scaled_dot_product_attention(*(part.transpose(1, 2) for part in x.unbind(2)))


def _cut(x, k, v):
    return F.scaled_dot_product_attention(x[..., 1:17], k, v)


def _qkv(d: int) -> tuple[torch.Tensor, ...]:
    return t(2, 3, 40, d, dtype=BF16), t(2, 3, 50, d, dtype=BF16, seed=1), t(2, 3, 50, d, dtype=BF16, seed=2)


Q, K, V = _qkv(16)
CASES: dict[str, tuple[Callable, tuple[torch.Tensor, ...], list[str]]] = {
    "odd dim": (_causal, _qkv(20), ["q", "k", "v", "out"]),
    "V by tokens": (_by_tokens, (Q, K, V.mT.contiguous()), ["v"]),
    "K by tokens": (lambda q, k, v: F.scaled_dot_product_attention(q, k.mT, v), (Q, K.mT.contiguous(), V), ["k"]),
    "packed": (_packed, (t(2, 40, 3, 3, 20, dtype=BF16),), ["x", "out"]),
    "cut": (_cut, (t(2, 3, 40, 21, dtype=BF16, seed=4), K, V), ["x"]),
}


@pytest.mark.parametrize("name", CASES)
def test_copies_make_it_one_kernel_that_means_the_same(name: str) -> None:
    fn, inputs, copied = CASES[name]
    program, tensors = lowered(fn, inputs)
    (made,), (reason,) = with_aligned({"default": program}, H200)[0].values(), with_aligned({"": program}, H200)[1]
    check(made, tensors, fn(*inputs), 4e-2)
    (attention,) = (p for p in made.problems if holds_two_products(p))
    assert len(made.problems) == 1 + len(copied) == 1 + len(made.buffers)
    assert all(f"{tensor}" in reason for tensor in copied) and "rows of whole 16 bytes" in reason
    facts = facts_of(classify_attention(attention), 16)
    assert {facts.q_align, facts.k_align, facts.v_align, facts.out_align} == {16}
    assert {facts.q_major, facts.k_major, facts.v_major} == {"dim"}


def test_what_tma_loads_is_not_copied() -> None:
    program, _ = lowered(_causal, (Q, K, V))
    assert with_aligned({"default": program}, H200) == ({"default": program}, ())


def test_what_is_refused_for_another_reason_is_not_copied() -> None:
    program, _ = lowered(_causal, tuple(t(1, 1, 8, 20, seed=i) for i in range(3)))  # fp32
    assert with_aligned({"default": program}, H200) == ({"default": program}, ())


def test_a_projection_of_all_heads_that_starts_between_them_is_no_copy() -> None:
    def fused(x):
        q, k, v = (x[..., 60 * i : 60 * (i + 1)].view(2, 40, 3, 20).transpose(1, 2) for i in range(3))
        return F.scaled_dot_product_attention(q, k, v)

    program, _ = lowered(fused, (t(2, 40, 180, dtype=BF16),))
    assert with_aligned({"default": program}, H200)[1] == ()


def test_the_plan_says_what_is_copied() -> None:
    tensors = tuple(e(2, 4, 300, 100) for _ in range(3))
    plan = dict(run(spec_from_callable(_causal, tensors, name="odd"), H200).made)["plan"]
    assert plan.cut == ("odd: q, out, k, v in copies with rows of whole 16 bytes along the head dim",)
    assert [v.form.family for v in plan.variants if v.form.family == "attention"] == ["attention"]
