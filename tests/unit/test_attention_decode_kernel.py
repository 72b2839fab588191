"""The text of decode kernels: items, the parts of the keys, and the rows of a tile, against brute force."""

import ast
import random
from dataclasses import dataclass, replace
from math import prod
from types import SimpleNamespace
from typing import Any

import attention_specs
import pytest

from kgen.backends.cutedsl.attention_decode import decode_view

NAMES = tuple(attention_specs.WALKS)
MEASURED = tuple(n for n in NAMES if attention_specs.variant_of(n).form.length is not None)
PAGED = tuple(n for n in NAMES if attention_specs.variant_of(n).form.pages is not None)
MMA_M = 64


def text_of(name: str) -> dict[str, Any]:
    """Return the rows of a kernel.py, whose methods compute with whole numbers."""
    tree = ast.parse(attention_specs.files_of(name)["kernel.py"])
    wanted = [s for s in tree.body if _name(s) in ("Variant", "VARIANTS")]
    launch = next(s for s in tree.body if _name(s) == "launch_attention")
    counting = [s for s in launch.body if _name(s) in ("end", "blocks")]  # of the blocks of keys
    cutlass = SimpleNamespace(min=min, max=max, Int32=int, select_=lambda c, yes, no: yes if c else no)
    names: dict[str, Any] = {"cutlass": cutlass, "dataclass": dataclass, "prod": prod}
    exec(compile(ast.Module(wanted, []), f"{name}/kernel.py", "exec"), names)
    return names | {"counting": compile(ast.Module(counting, []), f"{name}/kernel.py", "exec")}


def blocks_of(text: dict[str, Any], v: Any) -> int:
    """Return the blocks of keys that any query of a row sees, as the launch function counts them."""
    scope = {**text, "v": v}
    exec(text["counting"], scope)
    return scope["blocks"]


def _name(statement: ast.stmt) -> str:
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id
    return getattr(statement, "name", "")


def edited(v: Any, rng: random.Random) -> Any:
    """Return a row of other extents, parts and steps."""
    batch = tuple(rng.randint(1, 6) for _ in v.batch)
    sizes = {"queries": rng.randint(1, 20), "keys": rng.randint(1, 900), "batch": batch}
    bounds = {side: rng.randint(-100, 900) for side in ("least", "most") if hasattr(v, side)}
    section = (batch or (1,))[-1]
    return replace(v, **sizes, **bounds, section=section, tile_n=16 * rng.randint(1, 8), splits=rng.randint(1, 9))


@pytest.mark.parametrize("name", NAMES)
def test_all_specs_walk_over_their_heads(name: str) -> None:
    variant, (v,) = attention_specs.variant_of(name), text_of(name)["VARIANTS"]
    assert variant.few_rows and variant.combined == (variant.splits > 1) == ("def combine(" in _text(name))
    assert v.queries * v.ratio <= MMA_M and v.splits == variant.splits


def test_rows_that_one_stride_walks_are_one_mode_of_q() -> None:
    assert "(v.q_rows * (v.ratio - 1) + queries, d, *v.batch)" in _text("decode_joined")
    assert "tma_q, mQ, (MMA_M, v.d_pad)" in _text("decode_joined") and '"group"' not in _text("decode_joined")


def _text(name: str) -> str:
    return attention_specs.files_of(name)["kernel.py"]


@pytest.mark.parametrize("name", NAMES)
def test_items_are_every_part_of_every_head_once(name: str) -> None:
    text, rng = text_of(name), random.Random(2)
    (v,) = text["VARIANTS"]
    for row in (v, *(edited(v, rng) for _ in range(20))):
        found = [row.item_at(index) for index in range(row.splits * prod(row.batch))]
        assert sorted(found) == [(part, head) for part in range(row.splits) for head in range(prod(row.batch))]
        if attention_specs.variant_of(name).combined:
            assert [row.item_of(part, head) for part, head in found] == list(range(len(found)))
        heads = [row.batch_at(head) for head in range(prod(row.batch))]
        assert len(set(heads)) == len(heads) and all(
            len(h) == len(row.batch) and all(0 <= c < e for c, e in zip(h, row.batch, strict=True)) for h in heads
        )


@pytest.mark.parametrize("name", NAMES)
def test_the_parts_hold_every_block_that_a_query_sees_once(name: str) -> None:
    text, rng = text_of(name), random.Random(3)
    (v,) = text["VARIANTS"]
    for row in (v, *(edited(v, rng) for _ in range(40))):
        blocks = blocks_of(text, row)
        parts = [row.part_of(blocks, part) for part in range(row.splits)]
        visited = [block for first, count in parts for block in range(first, first + count)]
        assert visited == sorted(set(visited)) and blocks >= 1
        seen = {n // row.tile_n for m in range(row.queries) for n in range(row.keys) if _sees(row, m, n)}
        assert seen <= set(visited)
        assert not seen or set(visited) == seen
    assert min(count for _, count in (v.part_of(blocks_of(text, v), p) for p in range(v.splits))) >= 1


def _sees(v: Any, m: int, n: int) -> bool:
    return n - m <= getattr(v, "most", n) and n - m >= getattr(v, "least", -m)


@pytest.mark.parametrize("name", NAMES)
def test_the_rows_of_a_tile_are_all_queries_of_all_heads_that_share_keys(name: str) -> None:
    text = text_of(name)
    (v,) = text["VARIANTS"]
    rows = [v.row_at(row) if v.ratio > 1 else (row, 0) for row in range(MMA_M)]
    valid = [(m, group) for m, group in rows if m < v.queries and group < v.ratio]
    assert sorted(valid) == [(m, group) for m in range(v.queries) for group in range(v.ratio)]
    if v.ratio > 1:  # as a box of TMA lies in smem: its first mode fastest
        assert rows == [(row % v.q_rows, row // v.q_rows) for row in range(MMA_M)] and MMA_M % v.q_rows == 0


@pytest.mark.parametrize("name", MEASURED)
def test_blocks_beyond_the_length_of_a_sequence_are_left_out(name: str) -> None:
    text, rng = text_of(name), random.Random(4)
    (v,), lengths = text["VARIANTS"], attention_specs.variant_of(name).form.keys.lengths
    for row in (v, *(edited(v, rng) for _ in range(20))):
        for number in (0, 1, -5, row.keys, row.keys + 1000, 1 << 40, -(1 << 40), rng.randint(0, row.keys)):
            batch = tuple(extent - 1 for extent in row.batch)
            _, blocks = row.seen_of(blocks_of(text, row), {(0, *batch): number}, batch)
            parts = [row.part_of(blocks, part) for part in range(row.splits)]
            visited = [block for first, count in parts for block in range(first, first + count)]
            most = {m: number + lengths.extra + (m if lengths.sliding else 0) for m in range(row.queries)}
            seen = {n // row.tile_n for m, end in most.items() for n in range(min(end, row.keys)) if _sees(row, m, n)}
            assert visited == sorted(seen) and all(count >= 0 for _, count in parts)


@pytest.mark.parametrize("name", PAGED)
def test_boxes_are_pages_or_parts_of_one(name: str) -> None:
    (v,) = text_of(name)["VARIANTS"]
    pages = [(16, 16), (16, 64), (16, 96), (64, 64), (64, 32), (256, 64), (8, 128), (v.page, v.tile_n)]
    for size, tile_n in pages:
        row = replace(v, page=size, tile_n=tile_n, keys=size * 7)
        box = row.box_n()
        assert tile_n % box == 0 and size % box == 0
        for key in range(0, -(-row.keys // tile_n) * tile_n, box):
            entry, at_page = row.page_at(key)
            assert 0 <= entry < 7 and (key >= row.keys or at_page * box + entry * size == key)


@pytest.mark.parametrize("name", PAGED)
def test_negative_entries_count_from_the_end_where_torch_counts_so(name: str) -> None:
    pages = attention_specs.variant_of(name).form.pages
    assert pages and pages.wraps == ("page = page + cutlass.select_(page < 0, cutlass.Int32(v.pages)" in _text(name))


def test_keys_and_values_that_heads_share_stay_in_l2() -> None:
    assert (
        "EVICT_FIRST" in _text("decode") and decode_view(attention_specs.variant_of("decode"), frozenset("qkv")).policy
    )
    assert "EVICT_FIRST" not in _text("decode_shared_keys")


def test_a_row_without_keys_gives_what_the_reference_gives() -> None:
    assert "cutlass.select_(total == 0.0, ACC(0.0)" in _text("decode_padding")
    assert "inverse = cute.arch.rcp_approx(total)" in _text("decode_alibi")
