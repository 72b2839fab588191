"""`kgen solve`: from three extents and from a spec, what it ranks, what it explains, what it refuses."""

import json
import subprocess
import time
from pathlib import Path

import pytest
from command_line import SPEC, kgen, kgen_json, run_python

from kgen import cli
from kgen.planning.candidates import solve_gemm
from kgen.planning.solver import gemm_solver
from kgen.solution import Product, behind, explain_point, point_of, product_facts, shares
from kgen.target import load_device

SQUARE = ("solve", "--gemm", "4096,4096,4096", "--target", "h20")


def test_a_product_needs_no_torch_and_no_second(tmp_path: Path) -> None:
    code = (
        "import sys, kgen.cli; rc = kgen.cli.run(sys.argv[1:]);"
        "print(rc, sorted({'torch', 'cutlass', 'flydsl'} & set(sys.modules)), file=sys.stderr)"
    )
    imports_s, _ = timed("import lark, pydantic, rich.markdown, ruamel.yaml, sympy, typer", tmp_path)
    solve_s, done = timed(code, tmp_path, *SQUARE, "--why", "128,256,64")
    assert done.stderr == "0 []\n", done.stderr
    assert solve_s < 5 * imports_s, (solve_s, imports_s)  # 0.9 s and 0.35 s on two quiet cores, 2.5 times of a busy one


def timed(code: str, folder: Path, *arguments: str) -> tuple[float, subprocess.CompletedProcess[str]]:
    """Return the seconds that a process took, and what came out."""
    start = time.perf_counter()
    done = run_python(code, folder, *arguments)
    return time.perf_counter() - start, done


def test_the_table_says_why_the_first_is_first(tmp_path: Path) -> None:
    done = kgen(tmp_path, *SQUARE, "--top", "3")
    assert done.returncode == 0, done.stderr
    assert "4096 x 4096 x 4096 bf16 tn -> bf16 on NVIDIA H20" in done.stdout
    assert "the first: predicted" in done.stdout and "grid waves" in done.stdout and "bound by" in done.stdout
    assert "targets/sm90a/gemm.rules:" in done.stdout and "shared" not in done.stdout.split("removed")[0]


def test_json_has_candidates_and_rejections(tmp_path: Path) -> None:
    (result,) = kgen_json(tmp_path, *SQUARE, "--top", "3")["results"]
    times = [r["time_us"] for r in result["ranked"]]
    assert len(times) == 3 and times == sorted(times)
    assert result["facts"]["m"] == 4096 and result["device"] == "h20"
    for rejection in result["rejections"]:
        assert rejection["removed"] > 0 and rejection["because"] and ":" in rejection["place"]
    for ranked, split in zip(result["ranked"], result["shares_us"], strict=True):
        assert sum(split.values()) == pytest.approx(ranked["time_us"], abs=0.2)


def test_several_targets_give_a_result_each(tmp_path: Path) -> None:
    results = kgen_json(tmp_path, *SQUARE, "--target", "h200", "--top", "1")["results"]
    assert [r["device"] for r in results] == ["h20", "h200"]
    assert results[0]["ranked"][0]["time_us"] > 3 * results[1]["ranked"][0]["time_us"]


def test_why_names_every_broken_rule_with_both_sides(tmp_path: Path) -> None:
    done = kgen(tmp_path, *SQUARE, "--top", "1", "--why", "320,512,64")
    assert done.returncode == 0
    assert "not legal: " in done.stdout and "acc_regs <= acc_limit: 1280 against 216" in done.stdout
    assert "nearest value for this rule alone: tile_m = 32" in done.stdout
    why = kgen_json(tmp_path, *SQUARE, "--top", "1", "--why", "320,512,64")["results"][0]["why"]
    assert why["rank"] is None and not why["legal"]


def test_why_ranks_a_legal_tile_and_says_what_it_loses() -> None:
    facts, device = product_facts(Product("4096,4096,4096")), load_device("h200")
    found = solve_gemm(facts, device, top=None)
    other = next(r for r in found.ranked if str(r.candidate.size) == "128x128x64")
    why = explain_point(gemm_solver(facts, device, 0), {}, point_of("128,128,64"))
    assert why.ranked == other and why.rank == found.ranked.index(other) + 1
    assert sum(time for _, time in why.behind) == pytest.approx(other.time_us - found.ranked[0].time_us, abs=0.2)
    first = explain_point(gemm_solver(facts, device, 0), {}, dict(found.ranked[0].candidate.choices))
    assert first.rank == 1 and first.behind == ()


def test_why_obeys_axes_given_by_name() -> None:
    facts, device = product_facts(Product("4096,4096,4096")), load_device("h200")
    why = explain_point(gemm_solver(facts, device, 0), {"stages": 3}, point_of("128,128,64,cluster_m=1, cluster_n=1"))
    point = dict(why.explanation.point)
    assert (point["stages"], point["cluster_m"], point["cluster_n"]) == (3, 1, 1)


def test_shares_add_up_for_every_load_path() -> None:
    device = load_device("h200")
    for product in (Product("4096,4096,4096"), Product("1001,999,4095"), Product("8,8,8", dtype="fp32")):
        for ranked in solve_gemm(product_facts(product), device, top=20).ranked:
            assert sum(t for _, t in shares(ranked).items()) == pytest.approx(ranked.time_us, rel=1e-2)
            assert behind(ranked, ranked) == ()


@pytest.mark.parametrize(
    ("layout", "majors"), [("tn", ("k", "k")), ("nn", ("mn", "k")), ("nt", ("mn", "mn")), ("tt", ("k", "mn"))]
)
def test_layouts_are_those_of_blas(layout: str, majors: tuple[str, str]) -> None:
    facts = product_facts(Product("64,72,84", layout=layout))
    assert (facts.a_major, facts.b_major) == majors
    assert facts.a_align == (8 if majors[0] == "k" else 16)  # rows of 84 or 64 elements of 2 bytes
    assert facts.b_align == (8 if majors[1] == "k" else 16)
    assert facts.d_align == 16


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--gemm", "4096,4096", "--target", "h20"), 2, "--gemm '4096,4096': 2 extents"),
        (("--gemm", "1,2,-3", "--target", "h20"), 2, "--gemm '1,2,-3': '-3' is no extent"),
        (("--gemm", "8,8,8"), 2, "--gemm names no target"),
        (("--gemm", "8,8,8", "--target", "h21"), 2, "unknown device 'h21'"),
        (("--gemm", "8,8,8", "--target", "h20", "--dtype", "bf61"), 2, "--dtype 'bf61' is not one of "),
        (("--gemm", "8,8,8", "--target", "h20", "--layout", "xy"), 2, "--layout 'xy' is not one of "),
        (("--gemm", "8,8,8", "--target", "h20", "--why", "128,no"), 2, "--why '128,no': 'no' is neither"),
        (("--gemm", "8,8,8", "--target", "h20", "--why", "128,250,64"), 2, "tile_n = 250 is outside of"),
        (("--gemm", "8,8,8", "--target", "h20", "--why", "128,256,64,stagse=4"), 2, "unknown axis 'stagse'"),
        (("--gemm", "8,8,8", "--target", "h20", "--top", "0"), 2, "Invalid value for '--top'"),
        (("--gemm", "64,64,64", "--target", "h20", "--dtype", "fp64"), 3, "no legal gemm candidate"),
        (("--gemm", "8,8,8", "--target", "mi300x", "--dtype", "fp64"), 3, "no legal gemm candidate"),
        ((), 2, "solve takes a SPEC or --gemm, one of the two"),
        (("spec.yaml", "--gemm", "8,8,8"), 2, "solve takes a SPEC or --gemm, one of the two"),
    ],
)
def test_refusals(arguments: tuple[str, ...], code: int, message: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run(("solve", *arguments)) == code
    shown = capfd.readouterr()
    assert shown.out == "" and shown.err.startswith("error: ") and message in shown.err
    assert "Traceback" not in shown.err
    assert cli.run(("solve", *arguments, "--json")) == code
    shown = capfd.readouterr()
    answer = json.loads(shown.out)
    assert answer["exit_code"] == code and message in answer["message"] and not answer["ok"]


def test_a_spec_is_solved_like_its_extents(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(SPEC)
    assert cli.run(("solve", str(file), "--target", "h200", "--top", "1", "--json")) == 0
    of_spec = json.loads(capfd.readouterr().out)["results"][0]
    assert of_spec["title"] == "small, case default"
    arguments = ("solve", "--gemm", "256,256,128", "--layout", "tt", "--target", "h200", "--top", "1", "--json")
    assert cli.run(arguments) == 0
    of_extents = json.loads(capfd.readouterr().out)["results"][0]
    assert of_spec["ranked"] == of_extents["ranked"] and of_spec["facts"] == of_extents["facts"]
    assert cli.run(("solve", str(file), "--target", "h200", "--case", "big")) == 2
    assert "small has no case 'big'" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--gemm", "9" * 23 + ",2,3"), "is no extent"),
        (("--gemm", "1,2,3", "--batch", "9" * 23), "--batch"),
        (("--gemm", "1000000000,1000000001,1"), "more than 10^18 elements"),
        (("--gemm", "512,512,512", "--why", "128,256,64,4"), "'4' is a number after tile_k"),
        (("--gemm", "512,512,512", "--why", "128,256,64,tile_m=64"), "gives tile_m a second value"),
        (("--gemm", "512,512,512", "--why", "\uff11\uff12\uff18,256,64"), "neither a number nor axis=value"),
    ],
)
def test_numbers_that_are_none(tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    answer = kgen_json(tmp_path, "solve", *options, "--target", "h20")
    assert answer["exit_code"] == 2 and message in answer["message"]


def test_the_largest_extents_have_an_answer(tmp_path: Path) -> None:
    for m, n, k, batch in ((10**9,) * 3 + (1,), (10**6,) * 4, (10**12, 1, 1, 1), (1, 1, 10**12, 10**6)):
        options = ("--gemm", f"{m},{n},{k}", "--target", "h20", "--batch", str(batch), "--why", "128,256,64")
        (result,) = kgen_json(tmp_path, "solve", *options)["results"]
        times = [r["time_us"] for r in result["ranked"]]
        assert times == sorted(times) and times[0] > 2 * m * n * k * batch / 148e6 and times[0] < 1e40


@pytest.mark.parametrize("value", ["[128, 256]", "true", "127", "abc"])
@pytest.mark.parametrize("command", ["solve", "emit"])
def test_a_fixed_axis_that_no_candidate_has_is_refused_at_its_place(tmp_path: Path, command: str, value: str) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(f"{SPEC}fixed:\n  tile_n: {{value: {value}, because: of a caller}}\n")
    answer = kgen_json(tmp_path, command, file.name, "--target", "h200")
    assert (answer["exit_code"], answer["error"]) == (2, "OutsideDomainError")
    assert answer["where"] == {"file": "small.yaml", "line": 10, "column": 19}


def test_true_is_no_one(tmp_path: Path) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(f"{SPEC}fixed:\n  wg_n: {{value: true, because: of a caller}}\n")
    assert kgen_json(tmp_path, "solve", file.name, "--target", "h200")["error"] == "OutsideDomainError"


@pytest.mark.parametrize("command", ["solve", "emit"])
def test_an_unknown_target_is_refused_at_its_place(tmp_path: Path, command: str) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(f"{SPEC}targets: [h200, h2000]\n")
    answer = kgen_json(tmp_path, command, file.name)
    found = answer if command == "solve" else answer["results"][1]
    assert found["error"] == "UnknownDeviceError"
    assert found["where"] == {"file": "small.yaml", "line": 9, "column": 17}
