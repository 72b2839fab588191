"""The random pointwise and reduction programs themselves, and what judges their results: no kernel is made."""

import sys
from collections import Counter
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gpu"))

import compare
import program_model
import programs
import random_programs
import sharding

ALL = [programs.program(index) for index in range(programs.COUNT)]


def test_a_program_is_the_same_in_every_run():
    for index in (0, 17, 299):
        first, second = programs.program(index), programs.program(index)
        assert first == second and first.source == second.source
        for (one, _), (other, _) in zip(first.make("cpu"), second.make("cpu"), strict=True):
            assert torch.equal(compare.bits(one), compare.bits(other))


def test_the_programs_meet_what_they_are_for():
    tensors = [tensor for p in ALL for tensor in p.tensors]
    assert len({p.kind for p in ALL}) >= 40 and min(Counter(p.kind for p in ALL).values()) >= 6
    assert {t.dtype for t in tensors} == {*program_model.FLOATS, *program_model.INTEGERS, "bool"}
    assert {t.layout for t in tensors} == {"dense", *program_model.LAYOUTS}
    assert {t.planted for t in tensors} == {"", "all", "nan", "-inf"}
    assert {len(t.shape) for t in tensors} >= {0, 1, 2, 3, 4}
    assert any(t.shape and t.shape[-1] == 70000 for t in tensors) and any(0 in t.shape for t in tensors)
    assert any(t.updated for t in tensors) and max(len(p.results) for p in ALL) == 3


@pytest.mark.parametrize("start", range(0, programs.COUNT, 60))
def test_the_comparison_takes_eager_pytorch(start):
    """A program is well conditioned: rounding its intermediate values to its own types stays inside of the limit."""
    found = {p.index: random_programs.sound(p) for p in ALL[start : start + 60]}
    assert {index: faults for index, faults in found.items() if faults} == {}


def test_a_tensor_lies_where_it_says_and_the_gaps_are_poisoned():
    for layout in program_model.LAYOUTS:
        tensor, base = program_model.ProgramTensor("x", (3, 5), "float32", layout=layout).make("cpu", 0)
        strides, offset, _ = program_model.placed((3, 5), layout)
        assert tensor.stride() == strides and tensor.storage_offset() == offset
        assert not tensor.isnan().any()
        distinct = 15 if 0 not in strides else 5 if strides[0] == 0 else 3
        assert int(base.isnan().sum()) == base.numel() - distinct
    _, base = program_model.ProgramTensor("x", (4,), "int16", "small", "stepped").make("cpu", 0)
    assert int((base == 32767).sum()) == base.numel() - 4


def test_the_scales_of_a_quantisation_are_powers_of_two():
    for bound, dtype in ((127, torch.int8), (448, torch.float8_e4m3fn)):
        x = program_model.drawn(f"grid {bound}", (40, 128), torch.bfloat16, torch.Generator().manual_seed(1)).float()
        assert (x.abs().amax(-1) / bound == 1 / 16).all()
        assert torch.equal((x.double() * 16).to(dtype).float(), (x * 16).to(dtype).float())


def test_a_commit_picks_thirty_programs_and_others_pick_others():
    picked = programs.of_commit("1dbf411")
    assert len(set(picked)) == 30 and picked == programs.of_commit("1dbf411")
    assert picked != programs.of_commit("80bc527")
    assert len(programs.commit()) >= 40


def test_wrong_results_of_several_tensors_are_told_apart():
    want = (torch.ones(3, dtype=torch.float64), torch.tensor([1, 2]))
    like = (torch.ones(3), torch.tensor([1, 2]))
    assert compare.compare_all(like, want, like, 1e-5).faults == ()
    assert compare.compare_all((like[0], like[1] + 1), want, like, 1e-5).faults == (
        "result 1: differs in 2 of 2 places",
    )
    assert compare.compare_all((like[0] * 1.001, like[1]), want, like, 1e-5).faults[0].startswith("result 0: rel_err")
    assert compare.compare_all(like[:1], want, like, 1e-5).faults == ("1 results, expected 2",)
    assert "dtype" in compare.compare_all((like[0], like[1].int()), want, like, 1e-5).faults[0]


@pytest.mark.parametrize("count", [1, 3, 7])
def test_shards_share_all_jobs_out(count):
    items = list(range(20))
    parts = [sharding.sharded(items, sharding.shard_of(f"{i}/{count}")) for i in range(1, count + 1)]
    assert sorted(item for part in parts for item in part) == items
    with pytest.raises(ValueError):
        sharding.shard_of(f"{count + 1}/{count}")


def test_reasons_are_counted_without_their_numbers():
    assert sharding.kind_of("<random program 3>:2: rel_err 2.5e-03, limit 0.01") == "rel_err #, limit #"
    assert sharding.reason_of(NotImplementedError("a\n  b")) == "a b"
    assert sharding.reason_of(ValueError("a")) == "ValueError: a"
