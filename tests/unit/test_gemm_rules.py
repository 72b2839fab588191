"""Hopper's GEMM rules against published tile lists, against a second writing of them, and against their own axes."""

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgen.errors.rules import NoLegalCandidateError
from kgen.errors.target import FamilyNotOnArchError
from kgen.families.gemm.rules import bind_gemm, gemm_rules
from kgen.families.gemm.rules_facts import GemmFacts
from kgen.planning.candidates import candidate_at, legal_set
from kgen.rules.edges import edge_points
from kgen.rules.evaluate import Evaluator
from kgen.rules.explain import explain
from kgen.rules.model import Value
from kgen.rules.parse import parse_rules
from kgen.rules.printer import print_file
from kgen.rules.solve import solve
from kgen.rules.specialise import kernel_rules
from kgen.target import load_device

H100 = load_device("h100")
BF16 = GemmFacts(4096, 4096, 4096)
DEEP = GemmFacts(256, 512, 65536)
BYTES = {"bf16": 2, "fp16": 2, "fp8_e4m3": 1, "fp8_e5m2": 1, "int8": 1, "tf32": 4, "fp32": 4}
Tile = tuple[int, int, int]


def of_dtype(dtype: str) -> GemmFacts:
    return replace(BF16, in_dtype=dtype, in_bytes=BYTES[dtype])


@cache
def hardware_tiles(facts: GemmFacts, store_path: str = "tma", schedule: str = "") -> frozenset[Tile]:
    """Tiles that some warp-group layout makes legal with two stages and no cluster."""
    fixed: dict[str, Value] = {
        "load_path": "tma",
        "store_path": store_path,
        "stages": 2,
        "cluster_m": 1,
        "cluster_n": 1,
    }
    if schedule:
        fixed["schedule"] = schedule
    legal = solve(bind_gemm(facts, H100, lowered=False), fixed)
    columns = [legal.columns[name].tolist() for name in ("tile_m", "tile_n", "tile_k")]
    return frozenset(zip(*columns, strict=True))


def grid(ms: Iterable[int], ns: Iterable[int], ks: Iterable[int]) -> set[Tile]:
    return set(itertools.product(ms, ns, ks))


def test_quack_bf16_tiles_are_inside() -> None:
    cooperative = grid([256], [128, 160, 192, 208], [64]) | grid([128], [224, 256], [64])
    pingpong = grid([128], [128, 160, 192, 208], [64]) | {(192, 128, 64)}
    assert len(cooperative) + len(pingpong) == 11
    assert cooperative <= hardware_tiles(BF16, schedule="cooperative")
    assert pingpong <= hardware_tiles(BF16, schedule="pingpong")


def test_cutedsl_example_tiles_are_inside() -> None:
    tiles = grid([64, 128], [64, 128, 256], [64])
    assert len(tiles) == 6 and tiles <= hardware_tiles(BF16)


@pytest.mark.parametrize(
    ("dtype", "ks"), [("bf16", (64, 128)), ("fp16", (64, 128)), ("int8", (128, 256)), ("tf32", (32, 64))]
)
def test_tiles_of_analytic_heuristics_are_inside(dtype: str, ks: tuple[int, ...]) -> None:
    # Deep k steps come with tiles of which two stages fit into 227 KB.
    tiles = grid([64, 128, 256], [16, 32, 64, 80, 96, 112, 128, 192, 256], ks)
    fitting = {t for t in tiles if t[0] * t[1] <= 128 * 256 and 2 * (t[0] + t[1]) * t[2] * BYTES[dtype] <= 200 * 1024}
    assert len(fitting) >= 40 and fitting <= hardware_tiles(of_dtype(dtype))


# MMA multiplier (m, n, k instructions of one CTA tile) of CUTLASS's exhaustive generator.
MULTIPLIERS = [(m, n, k) for m, n in ((1, 1), (2, 1), (4, 1), (2, 2)) for k in (4, 8, 16)]
INT8_N = (8, 16, 24, *range(32, 257, 16))


def cutlass_tiles(dtype: str) -> set[Tile]:
    """Tiles of CUTLASS's instantiation level 9999, after its own validity filter."""
    size, ns = BYTES[dtype], INT8_N if dtype == "int8" else range(8, 257, 8)
    tiles = {(64 * a, n * b, 32 // size * c) for (a, b, c), n in itertools.product(MULTIPLIERS, ns)}

    def kept(tile: Tile) -> bool:
        m, n, k = tile
        wide = m >= 128 or n >= 128
        deep = (wide and k >= 256) or (size == 4 and wide and k >= 128)
        square = m >= 256 and n >= 256 and k >= {4: 64, 2: 128, 1: 999}[size]
        return n >= 16 and k >= 16 and max(tile) <= 256 and not deep and not square

    return {tile for tile in tiles if kept(tile)}


@pytest.mark.parametrize(
    ("dtype", "listed", "inside"), [("fp16", 199, 187), ("tf32", 199, 187), ("fp8_e4m3", 107, 102), ("int8", 59, 56)]
)
def test_cutlass_exhaustive_tiles(dtype: str, listed: int, inside: int) -> None:
    tiles, facts = cutlass_tiles(dtype), of_dtype(dtype)
    missing = tiles - hardware_tiles(facts, "direct")
    assert (len(tiles), len(tiles - missing)) == (listed, inside)
    for m, n, k in missing:  # each needs 224 accumulators or more, or does not fit two stages
        assert m * n / 256 >= 224 or 2 * (m + n) * k * BYTES[dtype] + 1024 > 232448


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "tf32", "fp8_e4m3", "int8"])
def test_cutlass_default_tiles(dtype: str) -> None:
    tiles = grid([64, 128, 256], [128, 256], [128 // BYTES[dtype]])
    assert tiles - hardware_tiles(of_dtype(dtype)) == {(256, 256, 128 // BYTES[dtype])}


def broken_by(facts: GemmFacts, **point: Value) -> set[str]:
    full: dict[str, Value] = {
        "load_path": "tma",
        "swap": 0,
        "schedule": "cooperative",
        "wg_m": 2,
        "wg_n": 1,
        "tile_m": 128,
        "tile_n": 128,
        "tile_k": 128 // facts.in_bytes,
        "store_path": "tma",
        "stages": 2,
        "cluster_m": 1,
        "cluster_n": 1,
        "cluster_k": 1,
        "split_k": 1,
        "resident": 1,
        **point,
    }
    return {c.rule for c in explain(bind_gemm(facts, H100, lowered=False), full).broken}


def test_negative_tiles_are_outside_for_the_right_reason() -> None:
    promoted = replace(of_dtype("fp8_e4m3"), promo=2)
    assert broken_by(promoted, tile_m=128, tile_n=256) == {"accumulators"}
    assert broken_by(promoted, tile_m=256, tile_n=128) == {"accumulators"}
    assert broken_by(of_dtype("int8"), tile_n=40) == {"int8_n"}
    assert broken_by(BF16, schedule="pingpong", wg_m=1, tile_n=256) == {"accumulators"}
    assert broken_by(BF16, tile_m=256, tile_n=256) == {"accumulators"}
    assert broken_by(BF16, stages=7) == {"smem"}
    assert broken_by(BF16) == set()


@pytest.mark.parametrize(
    ("change", "rules"),
    [
        ({"a_align": 8}, {"tma_a"}),
        ({"b_major": "none"}, {"tma_b"}),
        ({"d_align": 4}, {"tma_d"}),
        ({"input_ops": 1}, {"tma_input_ops"}),
        ({"k": 0}, {"k_steps"}),
        ({"a_major": "mn", "in_dtype": "fp8_e4m3", "in_bytes": 1}, {"mn_major_bytes"}),
        ({"in_dtype": "fp64", "in_bytes": 8}, {"wgmma_dtype"}),
        ({"in_dtype": "fp32", "in_bytes": 4, "ieee": 1}, {"planes_ieee"}),
        ({"in_dtype": "fp32", "in_bytes": 4, "in_place": 1}, {"planes_in_place"}),
    ],
)
def test_facts_that_bulk_copies_cannot_serve(change: Mapping[str, Value], rules: set[str]) -> None:
    facts = replace(BF16, **change)  # type: ignore[arg-type]
    assert broken_by(facts) == rules


def shares_by_hand(p: Mapping[str, int]) -> tuple[int, int]:
    """Return the shares along m and n: as many as leave each at least 16 whole columns, then each row of wgmma."""
    counts = [c for c in (1, 2, 4, 8, 16) if c <= p["cluster_k"] and p["tile_n"] % (16 * c) == 0]
    along_n = max(counts, default=1)
    return (2 if 2 * along_n <= p["cluster_k"] and p["tile_m"] == 128 * p["wg_m"] else 1), along_n


# The rules once more, by hand, for the candidates that the templates print.
def is_legal_by_hand(p: Mapping[str, int], store: str, facts: GemmFacts) -> bool:
    wgs, e = p["wg_m"], facts.in_bytes
    acc = p["tile_m"] * p["tile_n"] / (128 * wgs)
    shares_m, shares_n = shares_by_hand(p)
    columns = next(c for c in (64, 32, 16, 8) if p["tile_n"] // shares_n % c == 0)
    epilogue = 2 * 64 * wgs * columns * facts.out_bytes if store == "tma" and p["split_k"] == 1 else 0
    parts = (p["cluster_k"] - 1) * p["tile_m"] * p["tile_n"] // (shares_m * shares_n) * 4
    smem = p["stages"] * (p["tile_m"] + p["tile_n"]) * p["tile_k"] * e + epilogue + parts + 1024
    registers = 200 if p["resident"] == 2 else {3: 160}.get(wgs, 240 if acc >= 208 else 232)
    producer = {3: 32}.get(wgs, 24 if acc >= 208 else 40)
    pool = (wgs + 1) * (min(255, 65536 // (128 * (wgs + 1))) // 8 * 8)
    if p["resident"] == 2 and (wgs != 1 or acc > 64 or 2 * (smem + 1024) > 233472):
        return False
    if p["cluster_k"] > 1 and (p["cluster_m"] * p["cluster_n"] > 1 or facts.k < 64 * p["cluster_k"] - 63):
        return False
    few = 128 if facts.m < 256 and facts.m % 64 else 48
    if p["swap"] and not (p["tile_n"] < facts.m + 16 and p["tile_n"] <= few):
        return False
    if p["split_k"] > 1:
        whole = p["cluster_k"] == 1 and p["swap"] == 0 and p["resident"] == 1
        tiles_m = math.ceil(facts.m / p["tile_m"] / p["cluster_m"]) * p["cluster_m"]
        tiles_n = math.ceil(facts.n / p["tile_n"] / p["cluster_n"]) * p["cluster_n"]
        at_once = tiles_m * tiles_n * p["split_k"]
        if not whole or at_once > H100.compute_units or 8 * p["split_k"] > math.ceil(facts.k / p["tile_k"]):
            return False
    return (
        p["wg_n"] == 1
        and p["tile_m"] in (64 * wgs, 128 * wgs)
        and p["tile_n"] % 16 == 0
        and p["tile_n"] <= 256
        and p["tile_k"] * e == 128
        and acc <= {1: 176, 3: 96}.get(wgs, 216)
        and (p["resident"] == 2 or wgs * registers + producer <= pool)
        and smem <= 232448
        and p["cluster_m"] * p["cluster_n"] <= 2
        and p["tile_m"] % (8 * p["cluster_n"]) == 0
        and p["tile_n"] % (8 * p["cluster_m"]) == 0
    )


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_legality_agrees_with_a_second_writing_of_the_rules(data: st.DataObject) -> None:
    rules = gemm_rules(H100.arch)
    point: dict[str, Value] = {"load_path": "tma", "schedule": "cooperative"}
    for axis in rules.axes:
        if axis.name not in point:
            values = axis.domain.values[:32] if axis.name == "tile_n" else axis.domain.values
            point[axis.name] = data.draw(st.sampled_from(values))
    numbers = {name: v for name, v in point.items() if isinstance(v, int)}
    facts = data.draw(st.sampled_from((BF16, DEEP)))
    expected = is_legal_by_hand(numbers, str(point["store_path"]), facts)
    assert explain(bind_gemm(facts, H100), point).legal is expected
    assert (solve(bind_gemm(facts, H100), point).count == 1) is expected


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_the_legality_of_parts_of_k_agrees_with_the_second_writing(data: st.DataObject) -> None:
    sizes = {
        "wg_m": (1, 2),
        "tile_m": (64, 128, 256),
        "tile_n": (64, 128, 160, 256),
        "stages": (3, 4, 7),
        "cluster_m": (1, 2),
        "cluster_n": (1, 2),
        "cluster_k": (1, 1, 2),
    }
    numbers = {name: data.draw(st.sampled_from(values)) for name, values in sizes.items()}
    split = next(axis for axis in gemm_rules(H100.arch).axes if axis.name == "split_k")
    numbers |= {"split_k": data.draw(st.sampled_from(split.domain.values)), "wg_n": 1, "tile_k": 64}  # type: ignore[dict-item]
    numbers |= {"swap": data.draw(st.sampled_from((0, 0, 1))), "resident": data.draw(st.sampled_from((1, 1, 2)))}
    point = {"load_path": "tma", "schedule": "cooperative", "store_path": "tma", **numbers}
    assert explain(bind_gemm(DEEP, H100), point).legal is is_legal_by_hand(numbers, "tma", DEEP)


@given(st.integers(0, 10**9), st.sampled_from(["bf16", "fp16"]), st.sampled_from(["k", "mn"]), st.sampled_from([8, 16]))
@settings(max_examples=40, deadline=None)
def test_every_legal_candidate_meets_every_rule(pick: int, dtype: str, major: str, align: int) -> None:
    facts = replace(of_dtype(dtype), a_major=major, a_align=align)
    legal = legal_set(facts, H100)
    point = dict(legal.point(pick % legal.count))
    bound = legal.bound
    at = Evaluator(bound.rules, bound.facts, point)
    for rule in bound.rules.rules:
        assert (rule.rule.when is not None and not at.holds(rule.rule.when)) or at.holds(rule.rule.condition), rule.name


def test_every_axis_value_is_reachable_on_the_hardware() -> None:
    kinds = [BF16, of_dtype("fp8_e4m3"), of_dtype("tf32"), of_dtype("fp32")]
    reached: dict[str, set[Value]] = {}
    for facts in kinds:
        legal = solve(bind_gemm(facts, H100, lowered=False))
        for axis in legal.bound.rules.axes:
            rows = np.unique(legal.columns[axis.name], return_index=True)[1]
            reached.setdefault(axis.name, set()).update(dict(legal.point(int(r)))[axis.name] for r in rows)
    tile: dict[str, Value] = {"load_path": "tma", "wg_m": 2, "tile_m": 128, "tile_n": 128, "tile_k": 64, "stages": 3}
    few = solve(bind_gemm(GemmFacts(128, 256, 65536), H100, lowered=False), tile)  # all parts of few tiles run at once
    reached["split_k"].update(int(count) for count in np.unique(few.columns["split_k"]))
    assert {a.name: set(a.domain.values) for a in gemm_rules(H100.arch).axes} == reached


def test_legal_sets_of_the_load_paths() -> None:
    def paths(facts: GemmFacts) -> set[Value]:
        legal = legal_set(facts, H100)
        return {candidate_at(legal, row).value("load_path") for row in {*range(0, legal.count, 7), legal.count - 1}}

    assert paths(BF16) == {"tma"}
    assert paths(replace(BF16, b_align=2)) == paths(replace(BF16, input_ops=1)) == {"staged"}
    assert paths(of_dtype("fp32")) == paths(replace(of_dtype("fp32"), b_align=4)) == {"tma", "simt"}
    assert paths(replace(of_dtype("fp32"), ieee=1)) == paths(replace(of_dtype("fp32"), in_place=1)) == {"simt"}
    assert paths(replace(BF16, k=0)) == {"simt"}
    assert paths(of_dtype("int8")) == paths(of_dtype("tf32")) == {"tma"}
    assert paths(replace(of_dtype("tf32"), a_align=4)) == {"staged"}
    assert paths(replace(of_dtype("fp8_e4m3"), b_major="mn")) == {"staged"}  # wgmma reads bytes along k alone


def test_counts_add_up_and_repeat() -> None:
    first, second = legal_set(BF16, H100), legal_set(BF16, H100)
    assert first.total - first.count == sum(r.removed for r in first.rejections)
    assert first.rejections == second.rejections
    assert all(np.array_equal(first.columns[name], second.columns[name]) for name in first.columns)
    assert 1000 < first.count < 20000


def test_register_and_smem_edges_break_one_rule_only() -> None:
    bound = bind_gemm(BF16, H100, lowered=False)
    for name in ("accumulators", "smem"):
        edge = edge_points(bound, name)
        assert len(edge.inside) == len(edge.outside) == 2
        for point in edge.outside:
            assert [c.rule for c in explain(bound, dict(point)).broken] == [name]
        for point in edge.inside:
            assert explain(bound, dict(point)).legal


CONSTANTS = ("wg_m", "wg_n", "tile_m", "tile_n", "tile_k", "stages", "cluster_m", "cluster_n", "cluster_k", "split_k")


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_the_checks_of_an_emitted_kernel_agree_with_the_rules(data: st.DataObject) -> None:
    legal = legal_set(data.draw(st.sampled_from((BF16, DEEP))), H100)
    point = dict(legal.point(data.draw(st.integers(0, legal.count - 1))))
    rules = kernel_rules(legal.bound, point, CONSTANTS)
    for name in data.draw(st.lists(st.sampled_from(CONSTANTS), max_size=2)):
        axis = legal.bound.rules.axis(name)
        assert axis is not None
        point[name] = data.draw(st.sampled_from(axis.domain.values))
    names: dict[str, Any] = {**point, "math": math}
    for name, text in rules.derived:
        names[name] = eval(text, names)
    broken = {check.rule for check in rules.checks if not eval(check.condition, names)}
    assert broken == {check.rule for check in explain(legal.bound, point).broken}


@pytest.mark.parametrize("dtype", [dtype for dtype in BYTES if dtype != "tf32"])
def test_schedules_of_few_rows_and_deep_k_are_for_operands_of_16_and_8_bits(dtype: str) -> None:
    facts = replace(of_dtype(dtype), m=16, k=16384, promo=2 if dtype.startswith("fp8") else 1)
    columns = solve(bind_gemm(facts, H100)).columns
    chosen = {axis: set(columns[axis].tolist()) for axis in ("cluster_k", "swap", "resident")}
    # as many as 132 units run at once: of the widest tiles that two stages, of planes three, leave room for
    assert max(columns["split_k"]) == {"fp32": 5, "fp8_e4m3": 6, "fp8_e5m2": 6}.get(dtype, 8)
    if BYTES[dtype] == 4:
        assert chosen == {"cluster_k": {1}, "swap": {0}, "resident": {1}}
    else:
        assert chosen == {"cluster_k": {1, 2, 4, 8, 16}, "swap": {0, 1}, "resident": {1, 2}}


def test_k_is_split_over_the_grid_where_all_parts_run_at_once() -> None:
    columns = legal_set(DEEP, H100).columns
    split = columns["split_k"] > 1
    tiles = -(-256 // columns["tile_m"]) * -(-512 // columns["tile_n"])
    assert split.any() and (tiles * columns["split_k"] <= 132)[split].all()
    assert (columns["epilogue_bytes"][split] == 0).all()  # a second kernel stores
    assert (columns["part_bytes"][split] == 4 * columns["tile_m"][split] * columns["tile_n"][split]).all()
    assert not columns["part_bytes"][~split].any()
    for change in ({"k": 960}, {"products": 2}, {"dynamic": 1}, {"in_dtype": "tf32", "in_bytes": 4}, {"a_align": 8}):
        assert set(legal_set(replace(DEEP, **change), H100).columns["split_k"].tolist()) == {1}, change  # type: ignore[arg-type]
    assert set(legal_set(BF16, H100).columns["split_k"].tolist()) == {1}


def test_unsupported_type_names_what_would_do() -> None:
    with pytest.raises(NoLegalCandidateError) as caught:
        legal_set(replace(of_dtype("int8"), in_dtype="uint8"), H100)
    text = str(caught.value)
    assert "by printed_dtype (templates/cutedsl/sm90/gemm/lowered.rules:" in text
    assert "nearest legal: in_dtype = " in text and text.endswith(" instead of uint8")


def test_sums_of_bytes_are_exact() -> None:
    with pytest.raises(NoLegalCandidateError, match="int8_sums"):
        legal_set(replace(of_dtype("int8"), k=131072), H100)
    assert legal_set(replace(of_dtype("int8"), k=131071), H100).count


def test_fixed_axes_that_exclude_everything_name_the_nearest_value() -> None:
    with pytest.raises(NoLegalCandidateError, match="tile_n = 208 instead of 256"):
        legal_set(BF16, H100, fixed={"tile_m": 256, "tile_n": 256})


def test_families_stop_where_files_stop() -> None:
    device = load_device("mi300x")
    elsewhere = replace(device, arch=replace(device.arch, name="elsewhere"))
    with pytest.raises(FamilyNotOnArchError, match=r"there is no targets/elsewhere/gemm\.rules"):
        legal_set(BF16, elsewhere)


def test_the_rules_files_print_back_to_themselves() -> None:
    for rule in gemm_rules(H100.arch).rules:
        assert rule.rule.because and rule.file.endswith(".rules")
    from kgen.resources import targets_dir

    text = (targets_dir() / "sm90a" / "gemm.rules").read_text(encoding="utf-8")
    file = parse_rules(text, "gemm.rules")
    assert parse_rules(print_file(file), "gemm.rules") == file
