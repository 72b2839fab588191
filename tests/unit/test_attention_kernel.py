"""The text of attention kernels: the tile of each CTA, the blocks of keys that it visits, and which it masks."""

import ast
import itertools
import random
import re
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from types import SimpleNamespace
from typing import Any

import attention_specs
import pytest
import torch
import torch.nn.functional as F
from emitted_specs import INT32, e

from kgen.backends.cutedsl.attention_lengths import measured, printed_form
from kgen.backends.source.attention import modifies
from kgen.frontend.importers import spec_from_callable
from kgen.pipeline import run
from kgen.target import load_device

PLAIN = ("tile_of",)
TILED = tuple(n for n in attention_specs.TILES if not attention_specs.variant_of(n).few_rows)
EXACT = ("long", "long_causal", "window", "both_ways", "softcap")


@dataclass
class Cta:
    """Which CTA of a grid runs the text."""

    index: int = 0
    count: int = 1


CTA = Cta()
# a loop over blocks of keys: how often, whether it masks, and its first block
LOOP = re.compile(
    r"for i in cutlass\.range\((?P<count>.*), unroll=1\):\s+"
    r"reads = c\.step\(\s*v, (?P<masked>True|False), .*\(row, column \+ \((?P<last>.*) - i\) \* v"
)


def text_of(name: str) -> dict[str, Any]:
    """Return its rows, with methods that compute with whole numbers, and such functions."""
    tree = ast.parse(attention_specs.files_of(name)["kernel.py"])
    wanted = [s for s in tree.body if _name(s) in (*PLAIN, "Variant", "VARIANTS")]
    cutlass = SimpleNamespace(min=min, max=max, Int32=int)
    arch = SimpleNamespace(block_idx=lambda: (CTA.index, 0, 0), grid_dim=lambda: (CTA.count, 1, 1))
    cute = SimpleNamespace(jit=lambda function: function, arch=arch)
    names: dict[str, Any] = {"cutlass": cutlass, "cute": cute, "dataclass": dataclass, "prod": prod}
    exec(compile(ast.Module(wanted, []), f"{name}/kernel.py", "exec"), names)
    return names


def _name(statement: ast.stmt) -> str:
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id
    return getattr(statement, "name", "")


def sees(v: Any, m: int, n: int) -> bool:
    """Whether a query sees a key by the bounds of the row."""
    return n - m <= getattr(v, "most", n) and n - m >= getattr(v, "least", -m) and n < v.keys


def visited(name: str, text: dict[str, Any], v: Any, m: int, seen: tuple[Any, ...] = ()) -> list[tuple[int, bool]]:
    """Return the blocks of a row block in the order of the kernel's loops, and whether each is masked.

    `seen` is what memory says of the keys: a length, or the ranges of row blocks.
    """
    seen = seen or all_keys(name, v)
    first, end, plain_first, plain_end = v.key_blocks(-(-v.keys // v.tile_n), m, *seen)
    plain_first, plain_end = min(plain_first, end - 1), min(plain_end, end - 1)
    scope = {"end": end, "first": first, "plain_first": plain_first, "plain_end": plain_end, **text}
    blocks = [(end - 1, True)]
    for count, masked, last in LOOP.findall(attention_specs.files_of(name)["kernel.py"]):
        blocks += [(eval(last, scope) - i, masked == "True") for i in range(eval(count, scope))]
    assert [b for b, _ in blocks] == list(range(end - 1, first - 1, -1))
    return blocks


def all_keys(name: str, v: Any) -> tuple[Any, ...]:
    """Return what memory says where it leaves no key out."""
    variant = attention_specs.variant_of(name)
    ranges = {(m, i): (0, v.keys)[i % 2] for m in range(v.row_blocks()) for i in range(4)}
    return (ranges,) if variant.ranges_keys else (v.keys,) if measured(variant) else ()


def walked(text: dict[str, Any], v: Any, sm_count: int) -> list[int]:
    """Return the indices that all CTAs of a grid compute, CTA by CTA."""
    found: list[int] = []
    CTA.count = min(sm_count, v.tiles())
    for cta in range(CTA.count):
        CTA.index, turn = cta, 0
        while (index := text["tile_of"](turn)) < v.tiles():
            found.append(index)
            turn += 1
    return found


def test_causal_tiles_are_dealt_evenly() -> None:
    text = text_of("long_causal")
    (v,) = text["VARIANTS"]
    keys, CTA.count = [], 132
    for cta in range(CTA.count):
        CTA.index = cta
        indices = itertools.takewhile(lambda index: index < v.tiles(), map(text["tile_of"], itertools.count()))
        keys.append(sum(v.key_blocks(-(-v.keys // v.tile_n), v.tile_at(i)[0])[1] for i in indices))
    assert max(keys) <= 1.1 * sum(keys) / len(keys)


@pytest.mark.parametrize("name", TILED)
def test_every_tile_belongs_to_one_cta(name: str) -> None:
    text = text_of(name)
    (v,) = text["VARIANTS"]
    tiles = [v.tile_at(index) for index in walked(text, v, 132)]
    every = product(range(v.row_blocks()), range(v.ratio), product(*map(range, v.batch)))
    assert sorted(tiles) == sorted(every)


@pytest.mark.parametrize("name", TILED)
def test_every_key_that_a_query_sees_is_visited_and_masks_stand_where_they_are_needed(name: str) -> None:
    text, rng = text_of(name), random.Random(1)
    (v,) = text["VARIANTS"]
    tried = [v]
    for _ in range(40):
        sizes = {"queries": rng.randint(1, 400), "keys": rng.randint(1, 400), "tile_m": 64 * rng.randint(1, 3)}
        bounds = {side: rng.randint(-300, 300) for side in ("least", "most") if hasattr(v, side)}
        tried.append(replace(v, **sizes, **bounds, tile_n=16 * rng.randint(1, 12)))
    for row in tried:
        for m in {0, row.row_blocks() // 2, row.row_blocks() - 1}:
            _check(name, text, row, m)


def _check(name: str, text: dict[str, Any], v: Any, m: int) -> None:
    rows = range(m * v.tile_m, min((m + 1) * v.tile_m, v.queries))
    rows = sorted({rows[0], rows[-1], rows[len(rows) // 2]})
    exact = attention_specs.variant_of(name).form.keys.exact
    blocks = visited(name, text, v, m)
    keys = {r: {n for n in range(v.keys) if sees(v, r, n)} for r in rows}
    found = {n for block, _ in blocks for n in range(block * v.tile_n, (block + 1) * v.tile_n)}
    assert all(seen <= found for seen in keys.values())
    for block, masked in blocks:
        tile = set(range(block * v.tile_n, (block + 1) * v.tile_n))
        if not masked:
            assert max(tile) < v.keys
            assert not exact or all(tile <= seen for seen in keys.values()), f"{v}: {m}, {block}"


@pytest.mark.parametrize("name", EXACT)
def test_blocks_that_no_query_sees_are_left_out(name: str) -> None:
    text = text_of(name)
    (v,) = text["VARIANTS"]
    for m in range(v.row_blocks()):
        blocks = visited(name, text, v, m)
        rows = range(m * v.tile_m, min((m + 1) * v.tile_m, v.queries))
        useful = [any(sees(v, r, n) for r in rows for n in range(b * v.tile_n, (b + 1) * v.tile_n)) for b, _ in blocks]
        assert all(useful) or len(blocks) == 1
        assert sum(masked for _, masked in blocks) <= 2 * -(-v.tile_m // v.tile_n) + 3


@pytest.mark.parametrize("name", ["lengths", "lengths_behind"])
def test_tiles_stop_at_the_length_of_a_sequence(name: str) -> None:
    text, rng, lengths = text_of(name), random.Random(5), attention_specs.variant_of(name).form.keys.lengths
    (v,) = text["VARIANTS"]
    assert lengths and lengths.exact and "fused" not in attention_specs.files_of(name)["kernel.py"]
    for _ in range(40):
        sizes = {"queries": rng.randint(1, 400), "keys": rng.randint(1, 400), "tile_m": 64 * rng.randint(1, 3)}
        row = replace(v, **sizes, tile_n=16 * rng.randint(1, 12))
        for number in (0, 1, -7, row.keys, 1 << 40, rng.randint(0, row.keys)):
            length = row.length_of({(0, 0): number}, (0,))
            for m in range(row.row_blocks()):
                rows = range(m * row.tile_m, min((m + 1) * row.tile_m, row.queries))
                ends = [min(max(length + r * lengths.sliding, 0), row.keys) for r in rows]
                blocks = visited(name, text, row, m, (length,))
                assert [b for b, _ in blocks] == list(range(max(-(-max(ends) // row.tile_n), 1)))[::-1]
                assert all(masked or (b + 1) * row.tile_n <= min(ends) for b, masked in blocks)


@pytest.mark.parametrize("name", ["sequences", "sequences_causal"])
def test_tiles_visit_the_keys_of_their_sequences_alone(name: str) -> None:
    text, rng = text_of(name), random.Random(6)
    (v,) = text["VARIANTS"]
    causal = hasattr(v, "most")
    for _ in range(40):
        tokens, tile_n = rng.randint(1, 500), 16 * rng.randint(1, 12)
        row = replace(v, queries=tokens, keys=tokens, tile_m=64 * rng.randint(1, 3), tile_n=tile_n)
        ids = sorted(rng.choices(range(6), k=tokens)) if rng.random() < 0.8 else rng.choices(range(6), k=tokens)
        for m in range(row.row_blocks()):
            rows = range(m * row.tile_m, min((m + 1) * row.tile_m, tokens))
            low, high = min(ids[r] for r in rows), max(ids[r] for r in rows)
            among = [n for n in range(tokens) if low <= ids[n] <= high]
            single = low == high and len(among) == among[-1] + 1 - among[0]
            found = (among[0], among[-1] + 1, *((among[0], among[-1] + 1) if single else (0, 0)))
            blocks = visited(name, text, row, m, ({(m, place): key for place, key in enumerate(found)},))
            sees = {r: {n for n in range(r + 1 if causal else tokens) if ids[n] == ids[r]} for r in rows}
            last = min(among[-1], max(rows)) if causal else among[-1]
            assert {b for b, _ in blocks} == set(range(among[0] // tile_n, last // tile_n + 1))
            assert {n // tile_n for seen in sees.values() for n in seen} <= {b for b, _ in blocks}
            plain = [set(range(b * tile_n, (b + 1) * tile_n)) for b, masked in blocks if not masked]
            assert all(keys <= seen for keys in plain for seen in sees.values())
            if single and not causal:  # all but the first and the last block, and the first of the loop
                assert sum(masked for _, masked in blocks) <= 3


def test_the_keys_of_a_row_block_are_found_by_a_kernel_before() -> None:
    kernel = attention_specs.files_of("sequences")["kernel.py"]
    assert attention_specs.variant_of("sequences").workspace["ranges"].static_shape == (5, 4)
    assert kernel.index("find_ranges(v, mRanges, fused).launch(") < kernel.index("attention(v, blocks, tma_q, mQ")
    assert "2**31 - 1), -(2**31)))" in attention_specs.files_of("sequences_causal")["kernel.py"]  # int64


def test_where_a_length_bounds_the_keys_tiles_stop_at_that_one_alone() -> None:
    def attention(q, k, v, ids, lengths):
        keep = (ids[:, None] == ids) & (torch.arange(k.shape[2], device=k.device) < lengths[:, None, None])
        return F.scaled_dot_product_attention(q, k, v, attn_mask=keep[:, None])

    tensors = (*(e(2, 4, 300, 64) for _ in range(3)), e(300, dtype=INT32), e(2, dtype=INT32))
    made = dict(run(spec_from_callable(attention, tensors, name="both"), load_device("h200")).made)
    (variant,) = made["plan"].variants
    assert variant.form.sequences and variant.form.length and not variant.workspace
    assert "v.length_of(mLengths, batch)" in made["render"]["kernel.py"]


def test_bounds_alone_leave_the_scale_in_the_exponent() -> None:
    assert [name for name in TILED if not modifies(printed_form(attention_specs.variant_of(name)))] == [
        "long",
        "long_causal",
        "tokens_first",
        "dim_64",
        "dim_256",
        "dim_40",
        "dims_192_48",
        "window",
        "both_ways",
        "epilogue",
        "lengths",
        "sequences",
        "lengths_behind",
        "sequences_causal",
        "packed",
        "over_q",
    ]
    assert "scale = v.scale * LOG2_E" in attention_specs.files_of("long")["kernel.py"]
    assert "scale = LOG2_E" in attention_specs.files_of("negative")["kernel.py"]


def test_a_row_without_keys_gives_what_the_reference_gives() -> None:
    assert "and gives zeros" in attention_specs.files_of("flags")["kernel.py"]
    assert "and gives 0 * inf, which is NaN" in attention_specs.files_of("window")["kernel.py"]


def test_a_kernel_alone_has_plain_names() -> None:
    text = attention_specs.files_of("long_causal")["kernel.py"]
    assert "def softmax(" in text and "_0" not in text.replace("_0x", "")
