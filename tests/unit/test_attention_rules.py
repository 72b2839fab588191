"""Hopper's attention rules against published tiles and the points next to them; and the order of the candidates."""

from dataclasses import replace

import pytest

from kgen.errors.rules import NoLegalCandidateError
from kgen.families.attention.rules import attention_rules
from kgen.families.attention.rules_facts import AttentionFacts
from kgen.planning import attention as planning
from kgen.planning.attention import explain_attention, legal_attentions, ordered_attentions, solve_attention
from kgen.resources import targets_dir
from kgen.rules.edges import edge_points
from kgen.rules.parse import parse_rules
from kgen.rules.printer import print_file
from kgen.rules.solve import BoundRules, bind, solve
from kgen.target import Device, load_device

H200 = load_device("h200")
PLAIN = {"load_path": "tma", "store_path": "tma", "splits": 1, "pack_gqa": 0}
REGISTERS, SMEM = {"p_path": "registers", "overlap": 1}, {"p_path": "smem", "overlap": 0}


def bind_attention(facts: AttentionFacts, device: Device) -> BoundRules:
    """Bind the rules of the hardware alone: what templates print of it changes."""
    return bind(attention_rules(device.arch, lowered=False), {**device.rule_fields(), **facts.as_mapping()})


@pytest.fixture(autouse=True)
def _of_the_hardware(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "bind_attention", bind_attention)


def prefill(d: int, dv: int = 0, length: int = 4096, *, causal: bool = False, **more) -> AttentionFacts:
    mean = (length + 1) / 2 if causal else length
    facts = AttentionFacts(length, length, d, dv or d, 32, mean_keys=mean, most_keys=length, bounded=int(causal))
    return replace(facts, **more)


def decode(keys: int, batch: int, ratio: int = 4) -> AttentionFacts:
    return AttentionFacts(1, keys, 128, 128, batch, ratio, mean_keys=keys, most_keys=keys)


# Tiles of Dao-AILab/flash-attention: head dim, rows, keys, what becomes of the weights, stages.
SHIPPED = [
    (64, 192, 128, REGISTERS, 2),
    (64, 192, 192, SMEM, 2),
    (96, 192, 144, SMEM, 2),
    (96, 192, 128, SMEM, 2),
    (128, 128, 128, REGISTERS, 2),
    (128, 128, 176, REGISTERS, 2),
    (192, 128, 96, REGISTERS, 2),
    (192, 128, 112, REGISTERS, 2),
    (192, 128, 128, SMEM, 1),
    (256, 128, 64, REGISTERS, 2),
    (256, 128, 80, REGISTERS, 2),
]


@pytest.mark.parametrize(("d", "rows", "keys", "weights", "stages"), SHIPPED)
def test_published_tiles_are_legal(d, rows, keys, weights, stages) -> None:
    point = {**PLAIN, "tile_m": rows, "tile_n": keys, "stages": stages, "q_path": "smem", **weights}
    assert solve(bind_attention(prefill(d), H200), point).count


# Points next to them, and the one rule that each breaks.
OUTSIDE = [
    (prefill(64), {"tile_m": 128, "tile_n": 256, **REGISTERS}, "registers"),
    (prefill(128), {"tile_m": 128, "tile_n": 136}, "wgmma_k_output"),
    (prefill(64), {"tile_m": 192, "tile_n": 144, **REGISTERS}, "registers"),
    (prefill(256), {"tile_m": 128, "tile_n": 128, "stages": 2, "p_path": "registers"}, "smem"),
    (prefill(192), {"tile_m": 128, "tile_n": 128, "stages": 2, **SMEM}, "smem"),
    (prefill(128, 288), {}, "wgmma_n_output"),
    (prefill(128, in_dtype="fp32", in_bytes=4), {}, "wgmma_dtype"),
    (prefill(128, q_align=8), {"load_path": "tma"}, "tma_q"),
    (prefill(128, k_align=2), {"load_path": "cp_async"}, "cp_async"),
    (prefill(128, k_major="tokens"), {}, "majors"),
    (prefill(128, in_dtype="fp8_e4m3", in_bytes=1), {}, "v_major_fp8"),
    (prefill(128, input_ops=1), {}, "inputs"),
    (prefill(128), {"pack_gqa": 1}, "pack_ratio"),
    (prefill(128, ratio=6), {"pack_gqa": 1, "tile_m": 128, "load_path": "tma"}, "pack_tile"),
    (prefill(128), {"tile_m": 64, "pingpong": 1}, "pingpong_groups"),
    (prefill(128), {"stages": 1, "overlap": 1}, "overlap_stages"),
    (decode(1024, 8), {"splits": 16, "tile_n": 128}, "splits"),
    (prefill(128, keys=0, most_keys=0, mean_keys=0), {}, "keys"),
]


@pytest.mark.parametrize(("facts", "point", "rule"), OUTSIDE, ids=[f"{r}_{i}" for i, (*_, r) in enumerate(OUTSIDE)])
def test_points_outside_break_the_rule_that_says_why(facts, point, rule) -> None:
    legal = solve(bind_attention(facts, H200), point)
    assert not legal.count
    assert rule in {r.rule for r in legal.rejections}
    assert solve(bind_attention(facts, H200), point, without=rule).count


@pytest.mark.parametrize("facts", [prefill(128), prefill(40), decode(8192, 4), prefill(96, 64, ratio=4)])
def test_a_sample_of_legal_points_meets_every_rule_by_itself(facts) -> None:
    bound = bind_attention(facts, H200)
    legal = solve(bound)
    for row in range(0, legal.count, max(legal.count // 12, 1)):
        assert explain_attention(facts, H200, dict(legal.point(row))).legal


@pytest.mark.parametrize("rule", ["registers", "smem", "splits", "pack_tile"])
def test_rules_have_points_on_both_sides(rule) -> None:
    facts = replace(decode(8192, 4, 6), queries=100)
    points = edge_points(bind_attention(facts, H200), rule)
    assert points.inside and points.outside


def test_the_file_prints_as_it_reads() -> None:
    file = parse_rules((targets_dir() / "sm90a" / "attention.rules").read_text(encoding="utf-8"), "attention.rules")
    assert parse_rules(print_file(file), "attention.rules") == file


def test_no_candidate_says_which_rule_removes_all() -> None:
    with pytest.raises(NoLegalCandidateError, match=r"wgmma_n_output .*removes all by itself"):
        legal_attentions(prefill(1024), H200)


def first(facts):
    return solve_attention(facts, H200, top=1).ranked[0]


@pytest.mark.parametrize("d", [64, 128, 256])
@pytest.mark.parametrize("causal", [False, True])
def test_prefill_is_bound_by_computing_with_overlapping_warp_groups(d, causal) -> None:
    chosen = first(prefill(d, causal=causal))
    point = dict(chosen.candidate.choices)
    assert chosen.bound_by in ("mma", "softmax") and (point["overlap"], point["pingpong"], point["splits"]) == (1, 1, 1)
    assert (
        point["tile_m"] * point["tile_n"] >= {64: 192 * 96, 128: 128 * 112, 256: 128 * 64}[d]
        and point["load_path"] == "tma"
    )


def test_causal_attention_takes_little_more_than_half_the_time() -> None:
    full, half = first(prefill(128, length=8192)), first(prefill(128, length=8192, causal=True))
    assert 0.5 < half.time_us / full.time_us < 0.6


def test_decode_is_bound_by_memory_with_packed_heads_and_split_keys_where_heads_are_few() -> None:
    many, few = first(decode(8192, 128)), first(decode(32768, 8))
    for chosen in (many, few):
        assert chosen.bound_by == "memory" and chosen.candidate.value("pack_gqa") == 1
    assert many.candidate.value("splits") == 1 and few.candidate.number("splits") * 8 >= 0.9 * H200.compute_units


def test_the_order_is_the_same_in_every_run_and_by_time() -> None:
    facts = prefill(128)
    legal = legal_attentions(facts, H200)
    time, order = ordered_attentions(legal, facts, H200)
    assert (ordered_attentions(legal, facts, H200)[1] == order).all()
    assert (time.total[order][1:] >= time.total[order][:-1] - 1e-3).all()
