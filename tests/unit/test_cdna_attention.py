"""Attention on CDNA: what is one kernel and what is not, its rules, and the index arithmetic of the printed text."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

import kgen
from kgen.backends.flydsl.attention_views import AttentionView
from kgen.families.attention.rules_facts import AttentionFacts
from kgen.planning.attention import legal_attentions, solve_attention
from kgen.render.environment import template_names
from kgen.render.fields import unread_fields
from kgen.spec.load import parse_spec
from kgen.target import load_device

DEVICES = ("mi300x", "mi355x")
CAUSAL = AttentionFacts(4096, 4096, 128, 128, 8, 4, mean_keys=2048.5, most_keys=4096, bounded=1)
TEXT = """name: attention
reference: |
  import torch
  import torch.nn.functional as F


  def f(q, k, v{more}):
      return {code}
inputs:
  q: {{shape: {q}, dtype: {dtype}}}
  k: {{shape: {kv}, dtype: {dtype}}}
  v: {{shape: {kv}, dtype: {dtype}}}
"""
Q, KV = "[1, 4, 96, 64]", "[1, 2, 96, 64]"
SDPA = "F.scaled_dot_product_attention(q, k, v, enable_gqa=True"


def kernel_of(
    code: str, device: str, q: str = Q, kv: str = KV, dtype: str = "bf16", more: Mapping[str, str] = {}
) -> str:
    """Return the kernel.py of an attention; `more` are inputs behind q, k and v."""
    text = TEXT.format(code=code, q=q, kv=kv, dtype=dtype, more="".join(f", {name}" for name in more))
    text += "".join(f"  {name}: {type_}\n" for name, type_ in more.items())
    return kgen.emit(parse_spec(text, Path("attention.yaml")), target=device).files["kernel.py"]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("code", "q", "kv"),
    [
        (f"{SDPA}, is_causal=True)", Q, KV),
        (f"{SDPA}, scale=0.5)", "[2, 4, 33, 128]", "[2, 2, 1000, 128]"),
        (f"{SDPA})", "[1, 1, 64, 72]", "[1, 1, 64, 72]"),
        (f"{SDPA})", "[1, 1, 64, 256]", "[1, 1, 64, 256]"),
    ],
)
def test_one_kernel(code: str, q: str, kv: str, device: str) -> None:
    text = kernel_of(code, device, q, kv)
    assert text.startswith('"""attention: one kernel') and "def attention_kernel(" in text


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"code": f"{SDPA})", "q": "[1, 4, 1, 64]"}, "printed_rows"),
        ({"code": f"{SDPA}, attn_mask=mask)", "more": {"mask": "{shape: [96, 96], dtype: bf16}"}}, "printed_loads"),
        (
            {
                "code": f"{SDPA}, attn_mask=torch.arange(96) < n[:, None, None, None])",
                "more": {"n": "{shape: [1], dtype: int32}"},
            },
            "printed_loads",
        ),
        ({"code": f"{SDPA}) * 2 + 1"}, "printed_epilogue"),
        ({"code": f"{SDPA})", "q": "[1, 4, 96, 50]", "kv": "[1, 2, 96, 50]"}, "load_q"),
        ({"code": f"{SDPA})", "dtype": "fp32"}, "mfma_dtype"),
        ({"code": f"{SDPA})", "q": "[1, 4, 96, 1024]", "kv": "[1, 2, 96, 1024]"}, ""),
    ],
)
def test_what_is_no_single_kernel_runs_in_three_and_says_why(changes: dict, rule: str) -> None:
    text = kernel_of(device="mi300x", **changes)
    assert "def attention_kernel(" not in text
    head = " ".join(text[: text.index("Accepts")].split())
    assert "product, softmax and product in kernels of their own, for" in head and rule in head


@pytest.mark.parametrize("name", DEVICES)
def test_legal_candidates(name: str) -> None:
    legal = legal_attentions(CAUSAL, load_device(name))
    points = [dict(legal.point(row)) for row in range(legal.count)]
    assert {(p["warps"], p["tile_n"], p["buffers"]) for p in points} == {(w, 64, b) for w in (2, 4, 8) for b in (1, 2)}
    wide = replace(CAUSAL, d=256, dv=256)  # eight warps of it have too few registers
    large = legal_attentions(wide, load_device(name))
    assert {dict(large.point(row))["warps"] for row in range(large.count)} == {2, 4}


def test_many_rows_take_wide_workgroups_and_few_ones_narrow_ones() -> None:
    def first(facts: AttentionFacts) -> int:
        return solve_attention(facts, load_device("mi300x")).ranked[0].candidate.number("warps")

    assert first(replace(CAUSAL, queries=16384, keys=16384, mean_keys=8192.5, most_keys=16384)) >= first(
        replace(CAUSAL, queries=256, keys=256, mean_keys=128.5, most_keys=256)
    )


def test_every_field_of_the_view_is_read_by_some_section() -> None:
    names = [name for name in template_names() if "flydsl/cdna/attention/" in name and name.endswith(".py.j2")]
    assert len(names) > 8
    assert set.intersection(*(set(unread_fields(name, AttentionView)) for name in names)) == set()


def test_only_what_masks_need_is_printed() -> None:
    whole = kernel_of(f"{SDPA})", "mi300x", "[1, 4, 128, 64]", "[1, 2, 128, 64]")
    assert "def mask(" not in whole and whole.count("    attend(v, rows") == 1
    assert kernel_of(f"{SDPA})", "mi300x").count("    attend(v, rows") == 2
    empty = kernel_of(f"{SDPA}, attn_mask=torch.arange(96)[:, None] - torch.arange(96) > 9)", "mi300x")
    assert "select(total == 0.0, 0.0," in empty
