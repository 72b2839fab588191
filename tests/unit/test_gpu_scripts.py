"""The parts of the GPU scripts that need no GPU: the random problems, the samples of candidates, the statistics."""

import sys
from math import comb
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gpu"))

import attention_problems
import bench_reports as made_up
import choices
import compare
import ports
import problems

from kgen.bench.plan_facts import read_plan
from kgen.bench.report import Constraint
from kgen.bench.statistics import interval
from kgen.bench.timing import set_count
from kgen.families.gemm.rules_facts import GemmFacts
from kgen.planning.candidates import solve_gemm
from kgen.rules.solve import solve
from kgen.target import load_device


def test_a_random_problem_is_the_same_in_every_run():
    first, second = problems.problem(17), problems.problem(17)
    assert first == second
    for one, other in zip(first.operands, second.operands, strict=True):
        assert torch.equal(one.make("cpu", 5)[0], other.make("cpu", 5)[0])


def test_the_random_problems_meet_what_they_are_for():
    made = [problems.problem(index) for index in range(problems.COUNT)]
    spellings = {p.spelling for p in made}
    assert spellings == set(problems.SPELLINGS)
    assert {p.extents for p in made} == {*problems.EXTENTS, *problems.FEW, "many"}
    operands = [o for p in made for o in p.operands]
    assert {o.dtype for o in operands} == {"bfloat16", "float16", "float32"}
    assert any(o.offset % 8 for o in operands) and any(o.pad for o in operands) and any(o.planted for o in operands)
    assert any(p.operands[0].shape[0] > 65535 for p in made)


def test_an_operand_lies_where_it_says_and_the_gaps_hold_nan():
    tensor, base = problems.Operand("a", (3, 5), "bfloat16", columns=True, pad=2, offset=1).make("cpu", 0)
    assert tensor.stride() == (1, 5) and tensor.storage_offset() == 1
    assert not tensor.isnan().any()
    assert int(base.isnan().sum()) == base.numel() - tensor.numel()


@pytest.mark.parametrize("product", ["aligned", "unaligned"])
def test_a_package_holds_the_candidate_it_was_asked_for(product):
    tried = choices.PRODUCTS[product]
    base = choices.base_of(tried.reference, tried.tensors("bfloat16", "cpu"), "h200", "sample")
    legal = solve(base.bound)
    rows = choices.sampled_rows(legal.count)
    assert len(rows) == choices.PARTS
    point = dict(legal.point(rows[7]))
    files = choices.files_of(base, point)
    assert f"tile_m={point['tile_m']}," in files["kernel.py"]
    assert f"tile_n={point['tile_n']}," in files["kernel.py"]
    assert f"stages={point['stages']}," in files["kernel.py"]


def test_the_best_candidates_differ_in_more_than_stages_or_in_their_schedule():
    ranked = solve_gemm(GemmFacts(48, 4096, 4096), load_device("h200"), top=None).ranked
    tiles, schedules = choices.best_of(ranked, 8, False), choices.best_of(ranked, 8, True)
    assert tiles[0] == schedules[0] == ranked[0]
    for chosen, axes in (
        (tiles, ("tile_m", "tile_n", "wg_m", "cluster_k")),
        (schedules, ("cluster_k", "resident", "swap")),
    ):
        assert len(chosen) == 8 and [r.time_us for r in chosen] == sorted(r.time_us for r in chosen)
        assert len({tuple(dict(r.candidate.choices)[axis] for axis in axes) for r in chosen}) > 4
    assert len({tuple(dict(r.candidate.choices)[a] for a in ("cluster_k", "resident", "swap")) for r in schedules}) == 8


@pytest.mark.parametrize("fault", ["zeros", "half", "nan", "one element"])
def test_the_comparison_rejects_wrong_results(fault):
    want = torch.randn(64, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    like = want.to(torch.bfloat16)
    assert compare.compare(like, want, like).faults == ()
    wrong = {"zeros": like * 0, "half": like / 2, "nan": like.clone(), "one element": like.clone()}[fault]
    if fault == "nan":
        wrong[3, 4] = float("nan")
    if fault == "one element":
        wrong[3, 4] += 8
    assert compare.compare(wrong, want, like).faults


@pytest.mark.parametrize("count", [10, 20, 30, 41])
def test_an_interval_of_the_median_covers_95_percent_and_is_the_narrowest_that_does(count):
    found = interval([float(x) for x in range(count)])
    outside = int(found.low)
    assert found.high == count - 1 - outside

    def missed(places):
        return 2 * sum(comb(count, i) for i in range(places + 1)) / 2**count

    assert missed(outside) <= 0.05 < missed(outside + 1)


def test_the_float64_reference_rounds_at_casts_and_stays_in_float64():
    x = torch.tensor([1.001, 2.5])

    def reference(x, y):
        half = x.to(torch.bfloat16)
        return torch.lerp(half, y, 0.0)

    got = compare.expected(reference, (x, x))
    assert got.dtype == torch.float64
    assert got.tolist() == [1.0, 2.5]


def test_enough_sets_of_buffers_pass_the_cache_three_times():
    assert set_count(6_000_000, 60_000_000) == 30
    assert set_count(10**9, 60_000_000) == 2


@pytest.mark.parametrize("incumbent", ports.INCUMBENTS, ids=lambda incumbent: incumbent.file)
def test_the_ports_are_packages_with_their_incumbents(incumbent, tmp_path, capsys, monkeypatch):
    arguments = ["ports.py", "--dry-run", "--keep", str(tmp_path), "--only", incumbent.file]
    monkeypatch.setattr(sys, "argv", arguments)
    assert ports.main() == 0
    assert capsys.readouterr().out.startswith(f"{incumbent.file}: ")
    package = tmp_path / incumbent.file
    assert [p.name for p in tmp_path.iterdir()] == [incumbent.file]
    assert (package / "incumbent.py").read_bytes() == (ports.FOLDER / incumbent.file).read_bytes()
    assert f"port of {incumbent.file}::{incumbent.entry}" in (package / "plans" / "port.md").read_text()
    plan = read_plan(package)
    assert plan.incumbent is not None and plan.incumbent.entry == incumbent.entry
    assert {"epilogue", "precision", "call"} <= {c.name for c in plan.constraints}
    assert set(plan.work) == {"small", "large"}


def port_report(**fields):
    scheduling, threads = (
        Constraint(name=name, value="x", fixed=True, because="y") for name in ("scheduling", "thread interface")
    )
    kept = (Constraint(name=name, value="x", fixed=True, because="y") for name in ("epilogue", "precision", "call"))
    found = made_up.full().model_copy(update={"constraints": (scheduling, threads, *kept)})
    return found.model_copy(update=fields)


def test_what_a_port_must_leave(tmp_path):
    library = ports.INCUMBENTS[0]
    (tmp_path / "incumbent.py").write_bytes((ports.FOLDER / library.file).read_bytes())
    assert list(ports.faults(library, port_report(), tmp_path)) == []
    lost = {
        "control": None,
        "integration": None,
        "constraints": (),
        "code_findings": ("spills",),
        "cases": made_up.full().cases[:1],
    }
    for name, value in lost.items():
        assert len(list(ports.faults(library, port_report(**{name: value}), tmp_path))) == 1, name
    many = made_up.full().ledger[0].model_copy(update={"count": 4})
    assert "over its budget" in next(ports.faults(library, port_report(ledger=(many,)), tmp_path))
    (tmp_path / "incumbent.py").write_text("another")
    assert list(ports.faults(library, port_report(), tmp_path)) == ["the copy of the incumbent differs"]
    dsl = ports.INCUMBENTS[1]
    (tmp_path / "incumbent.py").write_bytes((ports.FOLDER / dsl.file).read_bytes())
    wrong = list(ports.faults(dsl, port_report(), tmp_path))
    assert wrong == ["no machine code of the incumbent", "no HGMMA in the incumbent: []"]


def test_the_first_attention_problems_stay_and_the_others_have_few_rows() -> None:
    made = [attention_problems.problem(index) for index in range(attention_problems.COUNT)]
    few = made[attention_problems.PREFILL : attention_problems.VARLEN]
    assert len(few) == 48 and all("decode" in p.words for p in few) and not any("decode" in p.words for p in made[:60])
    varlen, odd = made[attention_problems.VARLEN : attention_problems.ODD], made[attention_problems.ODD :]
    assert {p.words.split(",")[0] for p in varlen} == {"varlen"} and {p.words.split(",")[0] for p in odd} == {"odd"}
    assert str(made[17]) == str(attention_problems.problem(17)) and made[80].operands == few[20].operands
