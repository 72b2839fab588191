"""Plans of attentions with few rows: the rows of the benchmark, several cases in one file, buffers of parts."""

from pathlib import Path

import pytest

from kgen.families.attention.rules_facts import AttentionFacts
from kgen.pipeline import run
from kgen.planning.attention import solve_attention
from kgen.planning.plan_attention import AttentionVariant
from kgen.spec.load import load_spec
from kgen.target import load_device

H200 = load_device("h200")
SPEC = """
name: decode
reference: |
  import torch.nn.functional as F


  def attention(q, k, v):
      return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
inputs:
  q: {{shape: [B, 8, L, 128], dtype: bf16}}
  k: {{shape: [B, 2, S, 128], dtype: bf16}}
  v: {{shape: [B, 2, S, 128], dtype: bf16}}
extents: {{B: {{range: [1, 512]}}, L: {{range: [1, 4096]}}, S: {{range: [1, 65536]}}}}
targets: [h200]
cases:
{cases}
"""


def facts(batch: int, keys: int, heads: int = 8, queries: int = 4) -> AttentionFacts:
    return AttentionFacts(queries, keys, 128, 128, batch * heads, mean_keys=keys, most_keys=keys)


# What was the fastest on an H200 of 64 and 128 keys, 2 to 6 stages, one and two CTAs per SM, 1 to 32 parts.
FASTEST = [(64, 8192, 1), (8, 32768, 4), (128, 2048, 1)]


@pytest.mark.parametrize(("batch", "keys", "splits"), FASTEST)
def test_the_plan_of_a_decode_row_is_the_fastest_that_was_found(batch: int, keys: int, splits: int) -> None:
    chosen = solve_attention(facts(batch, keys), H200, top=1).ranked[0]
    point = dict(chosen.candidate.choices)
    assert (point["tile_n"], point["stages"], point["splits"], point["store_path"]) == (64, 3, splits, "direct")
    assert chosen.candidate.number("ctas_per_unit") == 2 and chosen.bound_by == "memory"
    bandwidth = 2 * batch * 8 * keys * 128 * 2 / chosen.time_us / 1e6
    assert 4.2 < bandwidth < 4.5


@pytest.mark.parametrize("heads", [3, 7, 24, 100, 200])
def test_few_heads_are_split_until_most_units_have_keys_to_read(heads: int) -> None:
    chosen = solve_attention(facts(1, 16384, heads), H200, top=1).ranked[0]
    assert heads * chosen.candidate.number("splits") >= 0.8 * H200.compute_units
    assert chosen.wave_efficiency > 0.8


def test_many_rows_stay_tiles_of_queries() -> None:
    chosen = solve_attention(facts(1, 4096, 32, queries=4096), H200, top=1).ranked[0]
    assert chosen.candidate.value("store_path") == "tma"


def planned(tmp_path: Path, **cases: tuple[int, int, int]) -> tuple[list[AttentionVariant], str]:
    lines = [f"  {name}: {{B: {b}, L: {queries}, S: {keys}}}" for name, (b, queries, keys) in cases.items()]
    file = tmp_path / "decode.yaml"
    file.write_text(SPEC.format(cases="\n".join(lines)), encoding="utf-8")
    made = run(load_spec(file), H200).made
    variants = [v for v in made["plan"].variants if isinstance(v, AttentionVariant)]
    return variants, made["render"]["kernel.py"]


def test_cases_that_split_keys_and_others_store_parts(tmp_path: Path) -> None:
    (few, many), text = planned(tmp_path, few=(2, 1, 8192), many=(132, 1, 512))
    assert few.splits > 1 == many.splits and few.combined and many.combined
    shapes = [f"({v.splits * v.form.batch_count}, 4, 128)" for v in (few, many)]
    assert all(f"(cutlass.Float32, {shape}, (512, 128, 1), 16),  # parts" in text for shape in shapes)
    assert text.count("parts = torch.empty_strided(") == text.count("sums = torch.empty_strided(") == 1


def test_cases_of_few_and_of_many_rows_are_all_tiles_of_queries(tmp_path: Path) -> None:
    variants, text = planned(tmp_path, decode=(2, 1, 8192), more=(2, 60, 8192))
    assert not any(v.few_rows or v.combined for v in variants) and "def combine(" not in text


def test_a_tensor_named_parts_keeps_its_name(tmp_path: Path) -> None:
    file = tmp_path / "decode.yaml"
    text = SPEC.format(cases="  one: {B: 2, L: 1, S: 8192}").replace("(q, k, v", "(q, parts, sums")
    file.write_text(text.replace("  k: {", "  parts: {").replace("  v: {", "  sums: {"), encoding="utf-8")
    kernel = run(load_spec(file), H200).made["render"]["kernel.py"]
    assert "def kernel(q, parts, sums):" in kernel and "parts_ = torch.empty_strided(" in kernel
